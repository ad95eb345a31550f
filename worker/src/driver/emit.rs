//! Emit → bus: numbers the events and coalesces tokens.
use std::time::Duration;

use contract::SCHEMA_VERSION;
use contract::event::{Envelope, Event};
use contract::ids::TurnId;
use shared::bus::events::{PublishError, Publisher};
use shared::runtime::clock;
use shared::runtime::trace::Trace;
use tokio::time::Instant;

use crate::driver::Stop;
use crate::metrics;

/// A token event holds at most so much text; the rest goes into the next one.
const TOKEN_BYTES: usize = 64 * 1024;

/// The one writer of a turn's events.
pub struct Emitter {
    publisher: Publisher,
    turn: TurnId,
    attempt: u32,
    n: u64,
    trace: Trace,
    coalesce: Duration,
    waiting: String,
    last_token: Option<Instant>,
    /// Pieces that came, and events they went out as.
    deltas: u64,
    token_events: u64,
    /// When the first token of the turn went out.
    pub first_token: Option<Instant>,
}

impl Emitter {
    pub fn new(
        publisher: Publisher,
        turn: TurnId,
        attempt: u32,
        trace: Trace,
        coalesce: Duration,
    ) -> Self {
        Self {
            publisher,
            turn,
            attempt,
            n: 0,
            trace,
            coalesce,
            waiting: String::new(),
            last_token: None,
            deltas: 0,
            token_events: 0,
            first_token: None,
        }
    }

    /// Stream sequence of the newest event: the cursor clients see.
    pub fn cursor(&self) -> u64 {
        self.publisher.last_seq()
    }

    /// Sequence of the turn's event before the newest.
    pub fn previous(&self) -> u64 {
        self.publisher.previous_seq()
    }

    /// Tokens go out at once when the stream was quiet, else with the next [`Self::flush_at`].
    pub async fn emit(&mut self, event: Event) -> Result<(), Stop> {
        if let Event::StreamToken { token } = event {
            self.deltas += 1;
            self.waiting.push_str(&token);
            let due = self.flush_at().is_none_or(|at| at <= Instant::now());
            if due || self.waiting.len() >= TOKEN_BYTES {
                self.flush().await?;
            }
            return Ok(());
        }
        self.flush().await?;
        self.publish(event).await
    }

    /// When waiting tokens should go out.
    pub fn flush_at(&self) -> Option<Instant> {
        if self.waiting.is_empty() { None } else { self.last_token.map(|at| at + self.coalesce) }
    }

    pub async fn flush(&mut self) -> Result<(), Stop> {
        while !self.waiting.is_empty() {
            let (piece, _) = contract::text::cut_bytes(&self.waiting, TOKEN_BYTES);
            let length = if piece.is_empty() { self.waiting.len() } else { piece.len() };
            let rest = self.waiting.split_off(length);
            let token = std::mem::replace(&mut self.waiting, rest);
            self.publish(Event::StreamToken { token }).await?;
            self.token_events += 1;
            let sent = Instant::now();
            self.last_token = Some(sent);
            self.first_token.get_or_insert(sent);
        }
        Ok(())
    }

    /// Text that will be withdrawn anyway need not be sent.
    pub fn forget_waiting(&mut self) {
        self.waiting.clear();
    }

    async fn publish(&mut self, event: Event) -> Result<(), Stop> {
        self.n += 1;
        let envelope = Envelope {
            v: SCHEMA_VERSION,
            turn_id: self.turn,
            attempt: self.attempt,
            n: self.n,
            event,
            ts: clock::rfc3339(clock::now()),
        };
        match self.publisher.publish(&envelope, &self.trace).await {
            Ok(_) => Ok(()),
            Err(PublishError::Fenced) => Err(Stop::Fenced),
            Err(error @ PublishError::Unavailable(_)) => {
                Err(Stop::Unavailable(anyhow::Error::new(error).context("publishing an event")))
            }
            Err(error @ PublishError::TooLarge) => {
                Err(Stop::Broken(anyhow::Error::new(error).context("publishing an event")))
            }
        }
    }
}

impl Drop for Emitter {
    fn drop(&mut self) {
        metrics::DELTAS.add(self.deltas, &[]);
        metrics::TOKEN_EVENTS.add(self.token_events, &[]);
    }
}
