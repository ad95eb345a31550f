//! The fence: every publish names the event it expects to be the turn's last.
use std::time::Duration;

use async_nats::{HeaderValue, Subject};
use contract::event::Envelope;
use contract::ids::{ConversationId, SessionToken, TurnId};
use contract::subject;
use tracing::info;

use crate::bus::direct;
use crate::bus::events::{Incoming, PublishError, Publisher, Stored, encode, message_id};
use crate::bus::publish::{self, WRONG_LAST_SEQUENCE};
use crate::bus::retry::Patience;
use crate::bus::{Bus, Error};
use crate::runtime::trace::Trace;

/// A restart of the server fits in.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a refused publish turned out to be.
enum Refusal {
    /// Our own event is the last one: only the answer was lost.
    Stored(u64),
    /// An earlier event of ours, or of a writer that has lost the turn, came in between.
    Behind(u64),
    /// What we read is older than what the server compares with.
    Stale,
    Fenced,
}

impl Publisher {
    /// Reads where the turn's events end.
    pub async fn open(
        bus: &Bus,
        conversation: ConversationId,
        session: &SessionToken,
        turn: TurnId,
    ) -> Result<Self, Error> {
        let subject = subject::event(conversation, session, turn);
        let mut patience = Patience::new(PATIENCE);
        let found = loop {
            match direct::last(bus, subject::STREAM_EVENTS, &subject).await {
                Ok(found) => break found,
                Err(error) if error.is_transient() && patience.pause(bus).await => {}
                Err(error) => return Err(error),
            }
        };
        let last_seq = found.as_ref().map_or(0, |message| message.seq);
        let tail = found.and_then(|message| Incoming::read(message)?.stored());
        let (bus, subject) = (bus.clone(), Subject::from(subject));
        Ok(Self { bus, subject, turn, last_seq, previous_seq: 0, tail })
    }

    /// Sequence of the turn's last event; 0 when there is none.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Sequence of the turn's event before the last one published here; 0 when there is none.
    pub fn previous_seq(&self) -> u64 {
        self.previous_seq
    }

    /// The turn's last event when this publisher was opened.
    pub fn tail(&self) -> Option<&Stored> {
        self.tail.as_ref()
    }

    /// Stores an event and returns its sequence.
    ///
    /// The order of `(attempt, n)` must be the order of the calls, and an attempt must have one writer only.
    pub async fn publish(
        &mut self,
        envelope: &Envelope,
        trace: &Trace,
    ) -> Result<u64, PublishError> {
        debug_assert_eq!(envelope.turn_id, self.turn, "an event of another turn");
        let (payload, id) = (encode(envelope)?, message_id(envelope));
        let mut patience = Patience::new(PATIENCE);
        loop {
            let mut headers = publish::headers(&id, trace);
            let expected = HeaderValue::from(self.last_seq);
            headers.insert(subject::HEADER_EXPECTED_LAST_SUBJECT_SEQUENCE, expected);
            let sent =
                publish::once(&self.bus, self.subject.clone(), headers, payload.clone()).await;
            let error = match sent {
                Ok(stored) => return Ok(self.advance(stored.seq)),
                Err(Error::TooLarge) => return Err(PublishError::TooLarge),
                Err(Error::Refused { code: WRONG_LAST_SEQUENCE, .. }) => {
                    match self.explain(envelope, &id).await {
                        Ok(Refusal::Stored(seq)) => return Ok(self.advance(seq)),
                        Ok(Refusal::Behind(seq)) => {
                            self.last_seq = seq;
                            continue;
                        }
                        Ok(Refusal::Fenced) => return Err(PublishError::Fenced),
                        Ok(Refusal::Stale) => Error::Timeout,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            if !error.is_transient() || !patience.pause(&self.bus).await {
                return Err(PublishError::Unavailable(error));
            }
        }
    }

    fn advance(&mut self, seq: u64) -> u64 {
        self.previous_seq = self.last_seq;
        self.last_seq = seq;
        seq
    }

    async fn explain(&self, envelope: &Envelope, id: &str) -> Result<Refusal, Error> {
        let tail = direct::last(&self.bus, subject::STREAM_EVENTS, &self.subject).await?;
        // Everything of the turn has aged away.
        let Some(tail) = tail else { return Ok(Refusal::Behind(0)) };
        if tail.header(subject::HEADER_MESSAGE_ID) == Some(id) {
            return Ok(Refusal::Stored(tail.seq));
        }
        if tail.seq <= self.last_seq {
            return Ok(Refusal::Stale);
        }
        let seq = tail.seq;
        let Some(tail) = Incoming::read(tail).and_then(Incoming::stored) else {
            return Ok(Refusal::Fenced);
        };
        let tail = tail.envelope;
        let earlier = (tail.attempt, tail.n) < (envelope.attempt, envelope.n);
        if earlier && !tail.event.is_terminal() {
            info!(turn.id = %self.turn, seq, "Writing on behind event {seq}");
            return Ok(Refusal::Behind(seq));
        }
        info!(turn.id = %self.turn, seq, "Fenced by event {seq}");
        Ok(Refusal::Fenced)
    }
}
