//! What could not be run, kept for people to look at. Never holds a user's token.
use std::time::Duration;

use async_nats::Subject;
use bytes::Bytes;
use contract::ids::{ConversationId, TurnId, UserId};
use contract::job::Job;
use contract::{SCHEMA_VERSION, subject};
use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::bus::direct::{self, Fetched};
use crate::bus::retry::Patience;
use crate::bus::{Bus, Error, api, publish};
use crate::runtime::trace::Trace;

const PATIENCE: Duration = Duration::from_secs(5);
/// Fields of a job, of any version, that hold a token.
const TOKEN_FIELDS: [&str; 2] = ["user_token", "user_jwt"];

/// A letter can be large.
const PAGE: usize = 20;
const NO_MESSAGE_FOUND: u64 = 10_037;
const SEQUENCE_NOT_FOUND: u64 = 10_043;
/// Also said of a sequence that was never given.
const DELETE_FAILED: u64 = 10_057;

/// What a list shows of a letter: nothing that its user wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    /// Names the letter.
    pub seq: u64,
    pub at: Option<OffsetDateTime>,
    pub reason: String,
    /// How often the job was tried.
    pub attempts: Option<u64>,
    pub conversation: Option<ConversationId>,
    pub turn: Option<TurnId>,
    pub user: Option<UserId>,
    pub kind: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Letter {
    pub outline: Outline,
    /// `None`: it can't be read, which may be why it is here.
    pub job: Option<Job>,
    /// The job as it was, but for its token.
    pub body: Value,
}

/// Keeps a job without its token.
pub async fn publish(bus: &Bus, job: &Job, reason: &str, attempts: u32) -> Result<(), Error> {
    let id = format!("{}:dead", job.turn_id);
    let body = serde_json::to_value(job).unwrap_or_default();
    let mut letter = letter(body, reason);
    letter["attempts"] = json!(attempts);
    send(bus, job.conversation_id, &id, letter).await
}

/// Keeps a message that could not be read as a job.
pub async fn publish_unreadable(
    bus: &Bus,
    conversation: Option<ConversationId>,
    raw: &[u8],
    reason: &str,
) -> Result<(), Error> {
    // What is not JSON can't be cleaned, so nothing of it is kept.
    let body = serde_json::from_slice(raw).unwrap_or_else(|_| json!({ "size_bytes": raw.len() }));
    let conversation = conversation.unwrap_or(ConversationId(Uuid::nil()));
    send(bus, conversation, &format!("{}:dead", Uuid::new_v4()), letter(body, reason)).await
}

/// All letters, oldest first.
pub async fn list(bus: &Bus) -> Result<Vec<Outline>, Error> {
    let (mut outlines, mut seq) = (Vec::new(), 1);
    let mut patience = Patience::new(PATIENCE);
    loop {
        let (stream, filter) = (subject::STREAM_DEAD_LETTERS, subject::DEAD_LETTERS_ALL);
        match direct::page(bus, stream, filter, (seq, PAGE)).await {
            Ok(page) => {
                seq = page.messages.last().map_or(seq, |last| last.seq + 1);
                outlines.extend(page.messages.iter().map(|message| read(message).outline));
                if page.complete {
                    return Ok(outlines);
                }
                patience = Patience::new(PATIENCE);
            }
            // With the stream missing, trying on helps nobody.
            Err(error @ Error::NoResponders) => return Err(error),
            Err(error) if error.is_transient() && patience.pause(bus).await => {}
            Err(error) => return Err(error),
        }
    }
}

pub async fn get(bus: &Bus, seq: u64) -> Result<Option<Letter>, Error> {
    let found = direct::at(bus, subject::STREAM_DEAD_LETTERS, seq).await?;
    Ok(found.as_ref().map(read))
}

/// False: there is no such letter.
pub async fn delete(bus: &Bus, seq: u64) -> Result<bool, Error> {
    let what = format!("STREAM.MSG.DELETE.{}", subject::STREAM_DEAD_LETTERS);
    match api::ask(bus, &what, Bytes::from(json!({ "seq": seq }).to_string())).await {
        Ok(_) => Ok(true),
        Err(Error::Refused { code: NO_MESSAGE_FOUND | SEQUENCE_NOT_FOUND, .. }) => Ok(false),
        Err(Error::Refused { code: DELETE_FAILED, .. }) if get(bus, seq).await?.is_none() => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn read(message: &Fetched) -> Letter {
    let stored: Value = serde_json::from_slice(&message.payload).unwrap_or_default();
    let mut body = stored.get("job").cloned().unwrap_or_default();
    // Another writer may have been careless.
    clean(&mut body);
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let address = message.subject.rsplit('.').next().and_then(|id| id.parse().ok());
    let outline = Outline {
        seq: message.seq,
        at: message.stored_at(),
        reason: stored.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned(),
        attempts: stored.get("attempts").and_then(Value::as_u64),
        conversation: address.filter(|id: &ConversationId| !id.0.is_nil()),
        turn: text("turn_id").and_then(|id| id.parse().ok()),
        user: text("user_id").and_then(|id| UserId::try_from(id).ok()),
        kind: text("kind"),
    };
    let job = serde_json::from_value(body.clone()).ok();
    let job = job.filter(|job: &Job| Some(job.conversation_id) == outline.conversation);
    Letter { outline, job, body }
}

fn letter(mut job: Value, reason: &str) -> Value {
    clean(&mut job);
    json!({ "v": SCHEMA_VERSION, "reason": reason, "job": job })
}

fn clean(job: &mut Value) {
    if let Some(fields) = job.as_object_mut() {
        for name in TOKEN_FIELDS {
            // Whoever reads a letter sees the fields in the job's order.
            fields.shift_remove(name);
        }
    }
}

async fn send(
    bus: &Bus,
    conversation: ConversationId,
    id: &str,
    letter: Value,
) -> Result<(), Error> {
    let subject = Subject::from(subject::dead_letter(conversation));
    let payload = bytes::Bytes::from(letter.to_string());
    let mut patience = Patience::new(PATIENCE);
    loop {
        let headers = publish::headers(id, &Trace::default());
        match publish::once(bus, subject.clone(), headers, payload.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_transient() && patience.pause(bus).await => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_has_no_token() {
        let job = json!({ "turn_id": "t", "user_token": "v1.secret", "user_jwt": "secret" });
        let letter = letter(job, "expired").to_string();
        assert_eq!(letter, r#"{"v":1,"reason":"expired","job":{"turn_id":"t"}}"#);
    }
}
