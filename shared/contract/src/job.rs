//! One message on `AGENT_JOBS`: run a turn. See docs/protocol.md.
use serde::{Deserialize, Serialize};

use crate::ids::{ConversationId, SessionToken, TurnId, UserId};

/// A job as JSON. Its `Nats-Msg-Id` is the `turn_id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub v: u32,
    #[serde(flatten)]
    pub kind: JobKind,
    pub turn_id: TurnId,
    pub conversation_id: ConversationId,
    /// What the client called the conversation; absent when it asked for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_ref: Option<String>,
    pub session: SessionToken,
    pub user_id: UserId,
    /// The user's JWT, sealed (`shared::runtime::seal`) and bound to `turn_id`. Without one the turn
    /// runs, but a tool that needs the backend ends in `UNAUTHORIZED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_token: Option<String>,
    #[serde(default)]
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
    #[serde(default)]
    pub locale: Locale,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// RFC 3339, UTC. A worker that gets the job later than this rejects it.
    pub expires_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JobKind {
    /// A plain message; `text` and `files` are its content.
    Message,
    /// Yes to the open card, or to one call of it.
    Confirm {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<String>,
    },
    /// No to the open card, or to one call of it; `text` may carry the reason.
    Deny {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<String>,
    },
    /// Go on with a run that paused because the user's token had expired.
    Resume,
}

/// An uploaded file, stored in the bucket `agent_uploads`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRef {
    /// Object name in the bucket.
    pub blob: String,
    /// Display name as the user's machine has it; untrusted.
    pub name: String,
    #[serde(default)]
    pub mime: String,
    pub size: u64,
}

/// Language of texts the system itself writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Locale {
    Ru,
    #[default]
    En,
}

impl Locale {
    /// The language of `text` if it has Cyrillic letters, else this one.
    #[must_use]
    pub fn of_text(self, text: &str) -> Self {
        let cyrillic = |c: char| ('\u{400}'..='\u{4ff}').contains(&c);
        if text.chars().take(2_000).any(cyrillic) { Self::Ru } else { self }
    }
}
