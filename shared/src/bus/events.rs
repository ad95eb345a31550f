//! Events: publish under the fence, read without loss.
mod publisher;
mod reader;
mod tracker;

use std::time::Duration;

use async_nats::{Subject, Subscriber};
use bytes::Bytes;
use contract::event::{Envelope, Event, SessionRecord};
use contract::ids::{ConversationId, SessionToken, TurnId};
use contract::limits;
use contract::subject::{self, EventAddress};
use futures_util::StreamExt as _;
use futures_util::stream::SelectAll;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;
use uuid::Uuid;

use crate::bus::direct::{self, Fetched, LastOfEach};
use crate::bus::events::tracker::Tracker;
use crate::bus::retry::Patience;
use crate::bus::{Bus, Disturbances, Error, publish};
use crate::runtime::trace::Trace;

const UNFENCED_PATIENCE: Duration = Duration::from_secs(5);
const REPLAY_PATIENCE: Duration = Duration::from_secs(5);
const LOOKS: u32 = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// An event and its place in the stream; `seq` is the cursor clients see.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub seq: u64,
    pub address: EventAddress,
    pub envelope: Envelope,
    /// Where it was written; not read for tokens.
    pub trace: Trace,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Somebody else writes this turn, or has ended it: stop at once.
    #[error("another writer owns this turn's events")]
    Fenced,
    #[error("the event is too large")]
    TooLarge,
    /// The event may or may not have been stored. Publishing the same one again is safe.
    #[error("the event stream can't be reached: {0}")]
    Unavailable(Error),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultiLastError {
    /// More than a thousand.
    #[error("too many subjects match")]
    TooMany,
    #[error(transparent)]
    Bus(#[from] Error),
}

/// The one writer of a turn's events. One publish in flight; order is the order of the calls.
pub struct Publisher {
    bus: Bus,
    subject: Subject,
    turn: TurnId,
    last_seq: u64,
    previous_seq: u64,
    tail: Option<Stored>,
}

/// A plain subscription on a `live` subject: fast, may lose messages and then says so.
pub struct Live {
    messages: Subscriber,
    disturbances: watch::Receiver<Disturbances>,
}

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "short-lived, and nearly always the large one")]
pub enum LiveItem {
    /// An event and the sequence of the event before it on the same subject (0: none).
    Event(Stored, u64),
    /// Messages may have been lost: compare with the stream.
    Lagged,
}

/// Reads all turns of a session, each exactly once and in order, over gaps, restarts and full buffers.
pub struct SessionReader {
    bus: Bus,
    filter: String,
    live: SelectAll<Subscriber>,
    disturbances: watch::Receiver<Disturbances>,
    tracker: Tracker,
    record: SessionRecord,
    /// Compare with the stream when nothing was heard until then.
    idle_at: Instant,
    idle_checks: u32,
    look: Look,
}

/// What to compare with the stream next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Nowhere,
    /// At the turns that are known and not ended.
    OpenTurns,
    /// Also for turns nobody has heard of.
    Everywhere,
}

/// What the stream said to an event that was published without the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub seq: u64,
    /// An event with this message id was there before, at `seq`.
    pub duplicate: bool,
}

/// Stores an event without the fence: `queued`, refusals, the session record.
pub async fn publish_unfenced(
    bus: &Bus,
    conversation: ConversationId,
    session: &SessionToken,
    envelope: &Envelope,
    trace: &Trace,
) -> Result<u64, PublishError> {
    // A session's records have no number of their own.
    let is_record = matches!(envelope.event, Event::Session(_));
    let id = if is_record { format!("session:{}", Uuid::new_v4()) } else { message_id(envelope) };
    let address = EventAddress { conversation, session: session.clone(), turn: envelope.turn_id };
    publish_as(bus, &id, &address, envelope, trace).await.map(|placed| placed.seq)
}

/// Stores a `queued` under its own message id, or under `repeats`: one that every submission has which says the same.
pub async fn publish_queued(
    bus: &Bus,
    address: &EventAddress,
    envelope: &Envelope,
    repeats: Option<&str>,
    trace: &Trace,
) -> Result<Placed, PublishError> {
    let id = repeats.map_or_else(|| message_id(envelope), str::to_owned);
    publish_as(bus, &id, address, envelope, trace).await
}

async fn publish_as(
    bus: &Bus,
    id: &str,
    address: &EventAddress,
    envelope: &Envelope,
    trace: &Trace,
) -> Result<Placed, PublishError> {
    let payload = encode(envelope)?;
    let EventAddress { conversation, session, turn } = address;
    let to = Subject::from(subject::event(*conversation, session, *turn));
    let mut patience = Patience::new(UNFENCED_PATIENCE);
    loop {
        let headers = publish::headers(id, trace);
        match publish::once(bus, to.clone(), headers, payload.clone()).await {
            Ok(stored) => return Ok(Placed { seq: stored.seq, duplicate: stored.duplicate }),
            Err(Error::TooLarge) => return Err(PublishError::TooLarge),
            Err(error) if error.is_transient() && patience.pause(bus).await => {}
            Err(error) => return Err(PublishError::Unavailable(error)),
        }
    }
}

/// The newest event on the filter's subjects.
pub async fn last(bus: &Bus, filter: &str) -> Result<Option<Stored>, Error> {
    let found = direct::last(bus, subject::STREAM_EVENTS, filter).await?;
    Ok(found.and_then(|message| Incoming::read(message)?.stored()))
}

/// The oldest event on the filter's subjects.
pub async fn first(bus: &Bus, filter: &str) -> Result<Option<Stored>, Error> {
    let found = direct::next(bus, subject::STREAM_EVENTS, filter, 1).await?;
    Ok(found.and_then(|message| Incoming::read(message)?.stored()))
}

/// The event at exactly this place of the stream, if it is still there.
pub async fn at(bus: &Bus, seq: u64) -> Result<Option<Stored>, Error> {
    for _ in 0..LOOKS {
        if let Some(message) = direct::at(bus, subject::STREAM_EVENTS, seq).await? {
            return Ok(Incoming::read(message).and_then(Incoming::stored));
        }
        // A replica that lags behind has not got it yet.
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(None)
}

/// The newest event of each of these turns that the log has anything of.
pub async fn last_of_turns(bus: &Bus, turns: &[TurnId]) -> Result<Vec<Stored>, Error> {
    let filters: Vec<String> = turns.iter().map(|turn| subject::events_of_turn(*turn)).collect();
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    match direct::last_of_each(bus, subject::STREAM_EVENTS, &filters).await? {
        LastOfEach::All(messages) => Ok(messages
            .into_iter()
            .filter_map(|message| Incoming::read(message)?.stored())
            .collect()),
        LastOfEach::TooMany => Err(Error::Unexpected("too many subjects of a turn".to_owned())),
    }
}

/// The newest event of every subject that matches.
pub async fn multi_last(bus: &Bus, filter: &str) -> Result<Vec<Stored>, MultiLastError> {
    match direct::last_of_each(bus, subject::STREAM_EVENTS, &[filter]).await? {
        LastOfEach::All(messages) => Ok(messages
            .into_iter()
            .filter_map(|message| Incoming::read(message)?.stored())
            .collect()),
        LastOfEach::TooMany => Err(MultiLastError::TooMany),
    }
}

/// Every stored event from `from_seq` on, complete and in order.
pub async fn replay(bus: &Bus, filter: &str, from_seq: u64) -> Result<Vec<Stored>, Error> {
    let events = read_all(bus, filter, from_seq).await?;
    Ok(events.into_iter().filter_map(Incoming::stored).collect())
}

/// A part of the stored events from `from_seq` on, and whether it was the last one.
pub async fn page(bus: &Bus, filter: &str, from_seq: u64) -> Result<(Vec<Stored>, bool), Error> {
    let page = direct::page(bus, subject::STREAM_EVENTS, filter, (from_seq, direct::BATCH)).await?;
    let stored = page.messages.into_iter().filter_map(|message| Incoming::read(message)?.stored());
    Ok((stored.collect(), page.complete))
}

async fn read_all(bus: &Bus, filter: &str, from_seq: u64) -> Result<Vec<Incoming>, Error> {
    let (mut events, mut seq) = (Vec::new(), from_seq);
    let mut patience = Patience::new(REPLAY_PATIENCE);
    loop {
        match direct::page(bus, subject::STREAM_EVENTS, filter, (seq, direct::BATCH)).await {
            Ok(page) => {
                seq = page.messages.last().map_or(seq, |last| last.seq + 1);
                events.extend(page.messages.into_iter().filter_map(Incoming::read));
                if page.complete {
                    return Ok(events);
                }
                patience = Patience::new(REPLAY_PATIENCE);
            }
            Err(error) if error.is_transient() && patience.pause(bus).await => {}
            Err(error) => return Err(error),
        }
    }
}

impl Live {
    /// Returns when the server knows the subscription.
    pub async fn subscribe(bus: &Bus, subject: &str) -> Result<Self, Error> {
        let disturbances = bus.disturbances();
        let messages = bus.subscribe(subject.to_owned()).await?;
        bus.round_trip().await?;
        Ok(Self { messages, disturbances })
    }

    /// Waits for ever; cancel-safe. Skips what it can't read.
    pub async fn next(&mut self) -> LiveItem {
        loop {
            tokio::select! {
                Ok(()) = self.disturbances.changed() => return LiveItem::Lagged,
                Some(message) = self.messages.next() => {
                    let event = Fetched::from_live(message).and_then(Incoming::read);
                    let previous = event.as_ref().map_or(0, |event| event.previous);
                    if let Some(stored) = event.and_then(Incoming::stored) {
                        return LiveItem::Event(stored, previous);
                    }
                }
                else => std::future::pending().await,
            }
        }
    }
}

/// A message of the stream of events, readable or not.
#[derive(Clone, Debug)]
struct Incoming {
    seq: u64,
    previous: u64,
    address: EventAddress,
    envelope: Option<Envelope>,
    trace: Trace,
}

impl Incoming {
    fn read(message: Fetched) -> Option<Self> {
        let address = subject::parse_event(&message.subject)?;
        let envelope: Option<Envelope> = match serde_json::from_slice(&message.payload) {
            Ok(envelope) => Some(envelope),
            Err(error) => {
                warn!(seq = message.seq, %error, "Event {} can't be read", message.seq);
                None
            }
        };
        let is_token = envelope
            .as_ref()
            .is_some_and(|envelope| matches!(envelope.event, Event::StreamToken { .. }));
        let trace = if is_token { Trace::default() } else { Trace::from_headers(&message.headers) };
        Some(Self { seq: message.seq, previous: message.previous, address, envelope, trace })
    }

    fn stored(self) -> Option<Stored> {
        let Self { seq, address, trace, .. } = self;
        self.envelope.map(|envelope| Stored { seq, address, envelope, trace })
    }
}

fn message_id(envelope: &Envelope) -> String {
    format!("{}:{}:{}", envelope.turn_id, envelope.attempt, envelope.n)
}

fn encode(envelope: &Envelope) -> Result<Bytes, PublishError> {
    let mut payload = Vec::with_capacity(512);
    serde_json::to_writer(&mut payload, envelope)
        .map_err(|error| PublishError::Unavailable(Error::Unexpected(error.to_string())))?;
    if payload.len() > limits::NATS_MESSAGE_BYTES {
        return Err(PublishError::TooLarge);
    }
    Ok(Bytes::from(payload))
}
