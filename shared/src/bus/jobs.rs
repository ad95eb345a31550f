//! Jobs: publish one (the stream admits one per conversation), pull one, acknowledge it.
pub mod listing;
mod pull;

use std::time::Duration;

use async_nats::Subject;
use async_nats::Subscriber;
use bytes::Bytes;
use contract::ids::{ConversationId, TurnId};
use contract::job::Job;
use contract::{limits, subject};
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use crate::bus::publish::{self, LIMIT_REACHED};
use crate::bus::retry::Patience;
use crate::bus::{Bus, Disturbances, Error, api, direct};
use crate::runtime::trace::Trace;

const PUBLISH_PATIENCE: Duration = Duration::from_secs(5);
/// A lagging replica may not have the job yet that closed the gate.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How the server words the limit of one subject. Only used where no holder is found: the wording is no contract.
const GATE_CLOSED: &str = "per subject";
const GATE_TRIES: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The same turn had been accepted before.
    pub duplicate: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobRefused {
    /// Another turn of the conversation is queued or running; its id, if the stored job can be read.
    #[error("the conversation is busy")]
    Busy { turn_id: Option<TurnId> },
    #[error("the job queue is full")]
    Full,
    #[error("the job is too large")]
    TooLarge,
    /// The job may still have been accepted: submit again with the same turn id only.
    #[error("the job stream can't be reached: {0}")]
    Unavailable(Error),
}

/// Submits a job. Repeating it with the same turn id is harmless.
pub async fn publish(bus: &Bus, job: &Job, trace: &Trace) -> Result<Accepted, JobRefused> {
    let unavailable = |error| JobRefused::Unavailable(error);
    if !bus.is_connected() {
        return Err(unavailable(Error::Disconnected));
    }
    let payload = serde_json::to_vec(job)
        .map(Bytes::from)
        .map_err(|error| unavailable(Error::Unexpected(error.to_string())))?;
    if payload.len() > limits::NATS_MESSAGE_BYTES {
        return Err(JobRefused::TooLarge);
    }
    let (subject, id) = (subject::job(job.conversation_id), job.turn_id.to_string());
    let mut patience = Patience::new(PUBLISH_PATIENCE);
    let mut without_holder = 0;
    loop {
        let headers = publish::headers(&id, trace);
        let to = Subject::from(subject.as_str());
        match publish::once(bus, to, headers, payload.clone()).await {
            Ok(stored) => return Ok(Accepted { duplicate: stored.duplicate }),
            Err(Error::TooLarge) => return Err(JobRefused::TooLarge),
            Err(Error::Refused { code: LIMIT_REACHED, text }) => {
                let is_gate = text.contains(GATE_CLOSED);
                match holder(bus, &subject).await.map_err(unavailable)? {
                    Some(holder) if holder == Holder::Turn(job.turn_id) => {
                        return Ok(Accepted { duplicate: true });
                    }
                    Some(Holder::Turn(turn)) => {
                        return Err(JobRefused::Busy { turn_id: Some(turn) });
                    }
                    Some(Holder::Unknown) => return Err(JobRefused::Busy { turn_id: None }),
                    // The holder may have ended between the two questions, under many contenders again and again.
                    None if without_holder < if is_gate { GATE_TRIES } else { 1 } => {
                        without_holder += 1
                    }
                    None if is_gate => return Err(JobRefused::Busy { turn_id: None }),
                    None => return Err(JobRefused::Full),
                }
            }
            // With the stream missing, trying on helps nobody.
            Err(error @ Error::NoResponders) => return Err(unavailable(error)),
            Err(error) if error.is_transient() && patience.pause(bus).await => {}
            Err(error) => return Err(unavailable(error)),
        }
    }
}

/// Who keeps the conversation's gate closed.
#[derive(Debug, PartialEq, Eq)]
enum Holder {
    Turn(TurnId),
    Unknown,
}

async fn holder(bus: &Bus, subject: &str) -> Result<Option<Holder>, Error> {
    let mut found = direct::last(bus, subject::STREAM_JOBS, subject).await?;
    if found.is_none() {
        tokio::time::sleep(LOOK_AGAIN).await;
        found = direct::last(bus, subject::STREAM_JOBS, subject).await?;
    }
    Ok(found.map(|message| {
        let by_header = message.header(subject::HEADER_MESSAGE_ID).and_then(|id| id.parse().ok());
        let turn = by_header.or_else(|| {
            serde_json::from_slice::<Job>(&message.payload).ok().map(|job| job.turn_id)
        });
        turn.map_or(Holder::Unknown, Holder::Turn)
    }))
}

/// The queued or running job of a conversation.
pub async fn active(bus: &Bus, conversation: ConversationId) -> Result<Option<Job>, Error> {
    let subject = subject::job(conversation);
    let Some(found) = direct::last(bus, subject::STREAM_JOBS, &subject).await? else {
        return Ok(None);
    };
    match serde_json::from_slice(&found.payload) {
        Ok(job) => Ok(Some(job)),
        Err(error) => {
            warn!(conversation.id = %conversation, %error, "A stored job can't be read");
            Ok(None)
        }
    }
}

/// When the oldest job was stored that no worker has been given yet.
pub async fn oldest_waiting(bus: &Bus) -> Result<Option<OffsetDateTime>, Error> {
    let (stream, consumer) = (subject::STREAM_JOBS, subject::CONSUMER_WORKERS);
    let info = api::ask(bus, &format!("CONSUMER.INFO.{stream}.{consumer}"), Bytes::new()).await?;
    if info["num_pending"].as_u64().unwrap_or_default() == 0 {
        return Ok(None);
    }
    let given = info["delivered"]["stream_seq"].as_u64().unwrap_or_default();
    let next = direct::next(bus, stream, subject::JOBS_ALL, given + 1).await?;
    Ok(next.and_then(|message| message.stored_at()))
}

/// Jobs queued or running.
pub async fn backlog(bus: &Bus) -> Result<u64, Error> {
    if !bus.is_connected() {
        return Err(Error::Disconnected);
    }
    let stream = crate::bus::bounded(bus.js.get_stream(subject::STREAM_JOBS)).await?;
    Ok(stream.cached_info().state.messages)
}

/// Pulls jobs one at a time: one puller per free slot.
pub struct Puller {
    bus: Bus,
    standing: Option<Standing>,
}

/// A request that waits at the server.
struct Standing {
    answers: Subscriber,
    disturbances: watch::Receiver<Disturbances>,
    connects: u64,
    /// The server answers or sends signs of life before this.
    expected_by: Instant,
    signs_of_life: Duration,
}

/// A job handed to this worker until it is acknowledged or given back.
pub struct Delivery {
    /// `None` when the subject's last token is not a conversation id.
    pub conversation: Option<ConversationId>,
    /// Or why it can't be read.
    pub payload: Result<Job, String>,
    pub raw: Bytes,
    pub trace: Trace,
    /// 1 for the first delivery.
    pub deliveries: u64,
    pub ack: Ack,
}

/// Answers the server for one delivery.
#[derive(Clone)]
pub struct Ack {
    bus: Bus,
    reply: Subject,
}
