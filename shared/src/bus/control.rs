//! Cancels, and the talk between the gateways that serve one session.
use std::time::Duration;

use async_nats::client::{Request, RequestErrorKind};
use async_nats::{Subject, Subscriber};
use bytes::Bytes;
use contract::control::{Cancel, SessionAnswer, SessionAsk};
use contract::ids::{SessionToken, TurnId};
use contract::{SCHEMA_VERSION, subject};
use futures_util::StreamExt as _;
use serde::Serialize;
use tokio::sync::watch;
use tracing::warn;

use crate::bus::retry::Patience;
use crate::bus::{Bus, Disturbances, Error, bounded, direct, publish};
use crate::runtime::trace::Trace;

const CANCEL_PATIENCE: Duration = Duration::from_secs(5);
/// A live cancel can be lost on its way without anybody noticing; its tombstone can't.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const OWNER_ANSWERS_WITHIN: Duration = Duration::from_millis(500);

/// Leaves a tombstone and tells the worker that runs the turn.
pub async fn publish_cancel(bus: &Bus, turn: TurnId, by: &str) -> Result<(), Error> {
    let cancel = Cancel { v: SCHEMA_VERSION, turn_id: turn, by: by.to_owned() };
    let (payload, id) = (encode(&cancel)?, format!("{turn}:cancel"));
    let subject = Subject::from(subject::cancel(turn));
    let mut patience = Patience::new(CANCEL_PATIENCE);
    loop {
        let headers = publish::headers(&id, &Trace::default());
        match publish::once(bus, subject.clone(), headers, payload.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_transient() && patience.pause(bus).await => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits for the cancel of one turn.
pub struct CancelWatch {
    bus: Bus,
    turn: TurnId,
    live: Subscriber,
    disturbances: watch::Receiver<Disturbances>,
    cancel: Option<Cancel>,
}

impl CancelWatch {
    /// Subscribes first, then looks for a cancel that came earlier.
    pub async fn open(bus: &Bus, turn: TurnId) -> Result<Self, Error> {
        let disturbances = bus.disturbances();
        let live = bus.subscribe(subject::cancel(turn)).await?;
        let cancel = tombstone(bus, turn).await?;
        Ok(Self { bus: bus.clone(), turn, live, disturbances, cancel })
    }

    /// Whether the cancel is already there.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_some()
    }

    /// Cancel-safe; may be called again and returns the same.
    pub async fn cancelled(&mut self) -> Cancel {
        loop {
            if let Some(cancel) = &self.cancel {
                return cancel.clone();
            }
            tokio::select! {
                Some(message) = self.live.next() => {
                    self.cancel = Some(read_cancel(self.turn, &message.payload));
                    continue;
                }
                Ok(()) = self.disturbances.changed() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
            if let Ok(cancel) = tombstone(&self.bus, self.turn).await {
                self.cancel = cancel;
            }
        }
    }
}

async fn tombstone(bus: &Bus, turn: TurnId) -> Result<Option<Cancel>, Error> {
    let found = direct::last(bus, subject::STREAM_CONTROL, &subject::cancel(turn)).await?;
    Ok(found.map(|message| read_cancel(turn, &message.payload)))
}

/// The subject alone says what is meant; the body only says who asked.
fn read_cancel(turn: TurnId, payload: &[u8]) -> Cancel {
    serde_json::from_slice(payload).unwrap_or_else(|_| Cancel {
        v: SCHEMA_VERSION,
        turn_id: turn,
        by: "unknown".to_owned(),
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// No gateway serves the session's stream.
    NoOwner,
    Answer(SessionAnswer),
    /// An owner exists, or existed a moment ago, but does not answer.
    Timeout,
}

/// Asks the gateway that serves the session's stream; waits at most 500 ms.
pub async fn ask_session(bus: &Bus, session: &SessionToken, ask: &SessionAsk) -> Asked {
    let Ok(payload) = encode(ask) else { return Asked::Timeout };
    let request = Request::new().payload(payload).timeout(Some(OWNER_ANSWERS_WITHIN));
    let request = bus.client.send_request(subject::session_control(session), request);
    match tokio::time::timeout(OWNER_ANSWERS_WITHIN, request).await {
        Ok(Ok(message)) => match serde_json::from_slice(&message.payload) {
            Ok(answer) => Asked::Answer(answer),
            Err(error) => {
                warn!(%session, %error, "A session's owner answered in a way that can't be read");
                Asked::Timeout
            }
        },
        Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => Asked::NoOwner,
        Ok(Err(_)) | Err(_) => Asked::Timeout,
    }
}

/// Questions to this gateway as the owner of a session's stream.
pub struct SessionOwner {
    bus: Bus,
    asks: Subscriber,
}

/// Where the answer to one question goes.
pub struct Reply {
    bus: Bus,
    to: Subject,
}

impl SessionOwner {
    /// Returns when the server knows the subscription. Dropping it ends the ownership.
    pub async fn subscribe(bus: &Bus, session: &SessionToken) -> Result<Self, Error> {
        let asks = bus.subscribe(subject::session_control(session)).await?;
        bus.round_trip().await?;
        Ok(Self { bus: bus.clone(), asks })
    }

    /// Cancel-safe.
    pub async fn next(&mut self) -> (SessionAsk, Reply) {
        loop {
            let Some(message) = self.asks.next().await else {
                // The client was closed: nobody can ask any more.
                return std::future::pending().await;
            };
            match (serde_json::from_slice(&message.payload), message.reply) {
                (Ok(ask), Some(to)) => return (ask, Reply { bus: self.bus.clone(), to }),
                (Ok(_), None) => warn!("A session question has no reply subject"),
                (Err(error), _) => warn!(%error, "A session question can't be read"),
            }
        }
    }

    /// Ends the ownership; the next question finds no owner.
    pub async fn unsubscribe(mut self) -> Result<(), Error> {
        bounded(self.asks.unsubscribe()).await?;
        self.bus.round_trip().await
    }
}

impl Reply {
    pub async fn send(self, answer: &SessionAnswer) -> Result<(), Error> {
        let payload = encode(answer)?;
        bounded(self.bus.client.publish(self.to, payload)).await
    }
}

fn encode<T: Serialize>(message: &T) -> Result<Bytes, Error> {
    let encoded = serde_json::to_vec(message);
    encoded.map(Bytes::from).map_err(|error| Error::Unexpected(error.to_string()))
}
