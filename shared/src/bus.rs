//! NATS, typed. Every call has a deadline; only the readers that say so wait for ever.
mod api;
pub mod connect;
pub mod control;
pub mod dead_letter;
mod direct;
pub mod events;
pub mod files;
pub mod jobs;
mod publish;
mod retry;
pub mod survey;
pub mod topology;
pub mod workers;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::object_store::ObjectStore;
use async_nats::{Subscriber, client};
use contract::ids::SessionToken;
use contract::subject;
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;

/// Longest wait for one answer of the server.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// One connection; clones share it.
#[derive(Clone)]
pub struct Bus {
    pub client: async_nats::Client,
    pub js: async_nats::jetstream::Context,
    disturbances: watch::Receiver<Disturbances>,
    uploads: Arc<OnceCell<ObjectStore>>,
}

/// How often core messages may have been lost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disturbances {
    pub connects: u64,
    /// A subscription's buffer was full.
    pub overflows: u64,
}

/// Why the bus could not do it. Callers that care match; others pass it on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("not connected to NATS")]
    Disconnected,
    #[error("NATS did not answer in time")]
    Timeout,
    #[error("nobody answers on this NATS subject: is the stream there?")]
    NoResponders,
    #[error("the message is too large")]
    TooLarge,
    #[error("NATS refused ({code}): {text}")]
    Refused { code: u64, text: String },
    #[error("unexpected answer from NATS: {0}")]
    Unexpected(String),
}

impl Bus {
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Waits for a connection; false if there is none in time.
    pub async fn connected_within(&self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        let mut disturbances = self.disturbances.clone();
        while !self.is_connected() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let _ = tokio::time::timeout(left.min(CONNECTED_POLL), disturbances.changed()).await;
        }
        true
    }

    /// Returns at the next connect: what was asked before it gets no answer any more.
    pub async fn reconnected(&self) {
        let mut disturbances = self.disturbances();
        let connects = disturbances.borrow().connects;
        let is_new = |disturbances: &Disturbances| disturbances.connects != connects;
        if disturbances.wait_for(is_new).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Sends everything, unsubscribes and closes. Last thing a process does: nothing is sent afterwards.
    pub async fn close(&self) {
        let _ = bounded(self.client.flush()).await;
        let _ = bounded(self.client.drain()).await;
    }

    /// Tells of everything from now on: take it before subscribing.
    pub(crate) fn disturbances(&self) -> watch::Receiver<Disturbances> {
        let mut disturbances = self.disturbances.clone();
        disturbances.mark_unchanged();
        disturbances
    }

    /// The server learns of it before it sees any later request of this connection, and not sooner.
    pub(crate) async fn subscribe(&self, subject: String) -> Result<Subscriber, Error> {
        bounded(self.client.subscribe(subject)).await
    }

    /// Returns when the server has seen everything sent before. (The client's `flush` waits for the
    /// socket only.) Asks for an event that can't exist: that is a right which every role has.
    pub(crate) async fn round_trip(&self) -> Result<(), Error> {
        let Ok(nobody) = SessionToken::try_from("-".to_owned()) else { return Ok(()) };
        direct::last(self, subject::STREAM_EVENTS, &subject::session_record(&nobody)).await?;
        Ok(())
    }

    pub(crate) async fn uploads(&self) -> Result<&ObjectStore, Error> {
        let open = || async { bounded(self.js.get_object_store(subject::BUCKET_UPLOADS)).await };
        self.uploads.get_or_try_init(open).await
    }
}

/// The state of the connection changes a moment after its event.
const CONNECTED_POLL: Duration = Duration::from_millis(50);

impl Error {
    /// Whether the same call may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Disconnected | Self::Timeout | Self::NoResponders => true,
            // JetStream is starting, a leader is being elected, or the store is busy.
            Self::Refused { code, .. } => matches!(code, 10008 | 10009 | 10023 | 10076 | 10167),
            Self::TooLarge | Self::Unexpected(_) => false,
        }
    }
}

impl From<client::RequestError> for Error {
    fn from(error: client::RequestError) -> Self {
        match error.kind() {
            client::RequestErrorKind::TimedOut => Self::Timeout,
            client::RequestErrorKind::NoResponders => Self::NoResponders,
            client::RequestErrorKind::MaxPayloadExceeded => Self::TooLarge,
            client::RequestErrorKind::InvalidSubject | client::RequestErrorKind::Other => {
                Self::Unexpected(error.to_string())
            }
        }
    }
}

/// Gives an async-nats call the common deadline.
pub(crate) async fn bounded<T, E>(
    call: impl IntoFuture<IntoFuture: Future<Output = Result<T, E>>>,
) -> Result<T, Error>
where
    E: std::fmt::Display,
{
    match tokio::time::timeout(ANSWER_WITHIN, call.into_future()).await {
        Ok(answer) => answer.map_err(|error| Error::Unexpected(error.to_string())),
        Err(_) => Err(Error::Timeout),
    }
}
