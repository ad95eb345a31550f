//! How the turns that a stream shows do: when the first token came, and the end of their trace.
use std::collections::HashMap;
use std::time::Duration;

use contract::event::Event;
use contract::ids::TurnId;
use shared::bus::events::Stored;
use shared::runtime::clock;
use shared::runtime::telemetry::attr;
use time::OffsetDateTime;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::metrics;

/// A stream is opened as its join is answered. What was queued before is shown again.
const OPENED_WITHIN: Duration = Duration::from_secs(2);

pub struct Deliveries {
    since: OffsetDateTime,
    /// When those were queued whose first token is awaited.
    awaited: HashMap<TurnId, OffsetDateTime>,
    spans: HashMap<TurnId, Span>,
}

impl Deliveries {
    pub fn of_a_new_stream() -> Self {
        let since = clock::now() - OPENED_WITHIN;
        Self { since, awaited: HashMap::new(), spans: HashMap::new() }
    }

    pub fn see(&mut self, stored: &Stored) {
        let turn = stored.address.turn;
        let event = &stored.envelope.event;
        if matches!(event, Event::StreamToken { .. }) {
            return self.first_token(turn);
        }
        if event.is_terminal() {
            self.awaited.remove(&turn);
            self.spans.remove(&turn);
        }
        if matches!(event, Event::Attempt { .. }) {
            self.spans.insert(turn, span(stored));
        }
        if matches!(event, Event::Queued(queued) if queued.attach.is_none())
            && let Ok(at) = clock::parse(&stored.envelope.ts)
            && at >= self.since
        {
            self.awaited.insert(turn, at);
        }
    }

    fn first_token(&mut self, turn: TurnId) {
        if self.awaited.is_empty() {
            return;
        }
        if let Some(queued) = self.awaited.remove(&turn) {
            let waited = (clock::now() - queued).as_seconds_f64();
            metrics::FIRST_TOKEN.record(waited.max(0.0), &[]);
        }
    }
}

/// From the worker's first event to the last one of the turn.
fn span(stored: &Stored) -> Span {
    let span = info_span!("deliver", otel.name = "deliver agent.v1.ev", otel.kind = "consumer");
    stored.trace.adopt(&span);
    span.set_attribute(attr::MESSAGING, "nats");
    span.set_attribute(attr::MESSAGING_OPERATION, "deliver");
    span.set_attribute(attr::TURN, stored.address.turn.to_string());
    span
}
