//! What could not be run, kept for people to look at. Never holds a user's token.
use async_nats::Subject;
use contract::ids::ConversationId;
use contract::job::Job;
use contract::{SCHEMA_VERSION, subject};
use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

use crate::bus::retry::Patience;
use crate::bus::{Bus, Error, publish};
use crate::runtime::trace::Trace;

const PATIENCE: Duration = Duration::from_secs(5);
/// Fields of a job, of any version, that hold a token.
const TOKEN_FIELDS: [&str; 2] = ["user_token", "user_jwt"];

/// Keeps a job without its token.
pub async fn publish(bus: &Bus, job: &Job, reason: &str) -> Result<(), Error> {
    let id = format!("{}:dead", job.turn_id);
    let body = serde_json::to_value(job).unwrap_or_default();
    send(bus, job.conversation_id, &id, letter(body, reason)).await
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

fn letter(mut job: Value, reason: &str) -> Value {
    if let Some(fields) = job.as_object_mut() {
        for name in TOKEN_FIELDS {
            fields.remove(name);
        }
    }
    json!({ "v": SCHEMA_VERSION, "reason": reason, "job": job })
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
