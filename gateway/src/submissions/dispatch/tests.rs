use contract::ids::{ConversationId, SessionToken, UserId};
use uuid::Uuid;

use super::*;

fn job() -> Job {
    Job {
        v: SCHEMA_VERSION,
        kind: JobKind::Message,
        turn_id: TurnId(Uuid::nil()),
        conversation_id: ConversationId(Uuid::nil()),
        conversation_ref: None,
        session: SessionToken::try_from("s".to_owned()).unwrap(),
        user_id: UserId::try_from("alice".to_owned()).unwrap(),
        user_token: None,
        text: String::new(),
        files: Vec::new(),
        locale: Locale::En,
        created_at: String::new(),
        expires_at: String::new(),
    }
}

/// Size of the job with `message` as its text, and whether the message was cut.
fn published(message: &str) -> (usize, bool) {
    let mut job = job();
    let fitted = fitted(message, &job);
    let cut = fitted != message;
    assert_eq!(cut, fitted.ends_with(limits::TRUNCATION_MARK));
    assert!(fitted.chars().count() <= limits::MESSAGE_CHARS);
    job.text = fitted.into_owned();
    (serde_json::to_vec(&job).unwrap().len(), cut)
}

#[test]
fn a_message_of_the_longest_length_passes_whole() {
    let (bytes, cut) = published(&"я".repeat(limits::MESSAGE_CHARS));
    assert!(!cut && bytes > 200_000, "{bytes}");
}

#[test]
fn whatever_a_message_is_made_of_its_job_fits() {
    for piece in ["я", "😀", "\u{1}", "\"", "\\", "a. ", "\u{7f}", "👨‍👩‍👧‍👦"] {
        let (bytes, cut) = published(&piece.repeat(200_000));
        assert!(cut && bytes <= limits::NATS_MESSAGE_BYTES, "{piece:?}: {bytes}");
    }
}

#[test]
fn short_messages_are_left_alone() {
    for message in ["", "hi", "\u{1}\"\\😀"] {
        assert!(!published(message).1, "{message:?}");
    }
}
