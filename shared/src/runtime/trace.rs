//! W3C trace context, carried through NATS and HTTP headers.
use std::fmt::Write as _;

use async_nats::HeaderMap;
use contract::subject;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use ring::rand::{SecureRandom, SystemRandom};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Where a piece of work hangs in a trace. The default belongs to no trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub traceparent: Option<String>,
    pub tracestate: Option<String>,
}

impl Trace {
    /// The start of a new trace.
    pub fn root() -> Self {
        let traceparent = format!("00-{}-{}-01", random_hex::<16>(), random_hex::<8>());
        Self { traceparent: Some(traceparent), tracestate: None }
    }

    /// A new span of the same trace; a new trace if this belongs to none.
    #[must_use]
    pub fn child(&self) -> Self {
        let Some((trace_id, flags)) = self.traceparent.as_deref().and_then(parts) else {
            return Self::root();
        };
        let traceparent = format!("00-{trace_id}-{}-{flags}", random_hex::<8>());
        Self { traceparent: Some(traceparent), tracestate: self.tracestate.clone() }
    }

    /// Where `span` stands; a child of this one if spans are not recorded.
    #[must_use]
    pub fn within(&self, span: &Span) -> Self {
        let context = span.context();
        let place = context.span().span_context().clone();
        if !place.is_valid() {
            return self.child();
        }
        let (trace, id, flags) = (place.trace_id(), place.span_id(), place.trace_flags().to_u8());
        let tracestate = Some(place.trace_state().header()).filter(|state| !state.is_empty());
        Self { traceparent: Some(format!("00-{trace}-{id}-{flags:02x}")), tracestate }
    }

    /// Makes `span`, which nothing has been recorded in yet, a child of this place.
    pub fn adopt(&self, span: &Span) {
        if let Some(place) = self.place() {
            let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(place));
        }
    }

    /// Says that `span` goes on with what happened here, in a trace of its own.
    pub fn link(&self, span: &Span) {
        if let Some(place) = self.place() {
            span.add_link(place);
        }
    }

    fn place(&self) -> Option<SpanContext> {
        let mut fields = self.traceparent.as_deref()?.split('-').skip(1);
        let trace = TraceId::from_hex(fields.next()?).ok()?;
        let span = SpanId::from_hex(fields.next()?).ok()?;
        let flags = TraceFlags::new(u8::from_str_radix(fields.next()?, 16).ok()?);
        let state = self.tracestate.as_deref().unwrap_or_default().parse::<TraceState>();
        Some(SpanContext::new(trace, span, flags, true, state.unwrap_or_default()))
    }

    /// 32 hexadecimal digits, for logs.
    pub fn trace_id(&self) -> Option<&str> {
        self.traceparent.as_deref().and_then(parts).map(|(trace_id, _)| trace_id)
    }

    /// From HTTP header values. Anything that is not a valid `traceparent` is dropped.
    pub fn from_parts(traceparent: Option<&str>, tracestate: Option<&str>) -> Self {
        let Some(traceparent) = traceparent.filter(|text| parts(text).is_some()) else {
            return Self::default();
        };
        let usable =
            |text: &&str| text.len() <= 512 && text.bytes().all(|b| (0x20..0x7f).contains(&b));
        Self {
            traceparent: Some(traceparent.to_owned()),
            tracestate: tracestate.filter(usable).map(str::to_owned),
        }
    }

    pub fn from_headers(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).map(|value| value.as_str());
        Self::from_parts(text(subject::HEADER_TRACEPARENT), text(subject::HEADER_TRACESTATE))
    }

    pub fn write_to(&self, headers: &mut HeaderMap) {
        if let Some(traceparent) = &self.traceparent {
            headers.insert(subject::HEADER_TRACEPARENT, traceparent.as_str());
        }
        if let Some(tracestate) = &self.tracestate {
            headers.insert(subject::HEADER_TRACESTATE, tracestate.as_str());
        }
    }
}

/// Trace id and flags of a `traceparent`.
fn parts(text: &str) -> Option<(&str, &str)> {
    let mut fields = text.split('-');
    let (version, trace_id) = (fields.next()?, fields.next()?);
    let (span_id, flags) = (fields.next()?, fields.next()?);
    let well_formed =
        is_hex(version, 2) && is_hex(trace_id, 32) && is_hex(span_id, 16) && is_hex(flags, 2);
    let all_zero = |field: &str| field.bytes().all(|b| b == b'0');
    let last = fields.next().is_none();
    (well_formed && last && version != "ff" && !all_zero(trace_id) && !all_zero(span_id))
        .then_some((trace_id, flags))
}

fn is_hex(field: &str, digits: usize) -> bool {
    field.len() == digits && field.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn random_hex<const BYTES: usize>() -> String {
    let mut bytes = [0_u8; BYTES];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        bytes[0] = 1;
    }
    let mut text = String::with_capacity(BYTES * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests;
