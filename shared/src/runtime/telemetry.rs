//! Logs as JSON lines on stderr, panics included; metrics for Prometheus; spans for an OTLP collector where one is named.
pub mod attr;
pub mod metrics;
mod spans;

use std::panic;

use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Span, error, info};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry};

use crate::runtime::env::Env;

/// Keeps the spans that are not sent yet.
#[must_use]
pub struct Telemetry {
    spans: Option<SdkTracerProvider>,
}

/// Call once, first thing in `main`. The filter of the log comes from `LOG`, else `RUST_LOG`, else it is `info`.
/// Spans are recorded if `OTEL_EXPORTER_OTLP_ENDPOINT` is set; the SDK's other variables hold, too.
///
/// `async_openai` is always off: it logs request bodies, which hold what users wrote.
pub fn init(service: &'static str) -> Telemetry {
    let env = Env::process();
    let wanted = env.optional("LOG").or_else(|| env.optional("RUST_LOG"));
    let wanted = wanted.unwrap_or_else(|| "info,async_nats=warn,opentelemetry=warn".to_owned());
    let filter = EnvFilter::new(format!("{wanted},async_openai=off"));
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(true)
        .with_writer(std::io::stderr)
        .with_filter(filter);
    let (spans, problem) = match spans::provider(&env, service) {
        Ok(spans) => (spans, None),
        Err(problem) => (None, Some(problem)),
    };
    let layer = spans.as_ref().map(spans::layer);
    let subscriber = Registry::default().with(layer).with(lines);
    if tracing::subscriber::set_global_default(subscriber).is_err() {
        return Telemetry { spans: None };
    }
    log_panics();
    metrics::build_info(service);
    info!(service, version = env!("CARGO_PKG_VERSION"), "Starting {service}");
    if let Some(problem) = problem {
        error!("No spans are sent: {problem:#}");
    }
    Telemetry { spans }
}

impl Telemetry {
    /// Sends what is left. Blocks, for a few seconds at most if the collector is away: call it after the runtime.
    pub fn finish(self) {
        if let Some(spans) = self.spans
            && let Err(error) = spans.shutdown()
        {
            tracing::warn!(%error, "The last spans were not sent");
        }
    }
}

/// Whether anybody will ever see what is recorded in `span`.
pub fn is_recorded(span: &Span) -> bool {
    span.context().span().span_context().is_sampled()
}

fn log_panics() {
    panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        error!(location, "Panicked at {location}: {message}");
    }));
}
