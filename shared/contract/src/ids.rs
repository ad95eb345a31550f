//! Ids that are safe as NATS subject tokens: constructing one proves it.
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::limits;

/// Namespace of named conversations (`ConversationId::named`).
const CONVERSATION_NAMES: Uuid = Uuid::from_u128(0x6ba7_b815_9dad_11d1_80b4_0061_6765_6e74);
/// Namespace of turns that a client gave an id (`TurnId::of_message`).
const CLIENT_MESSAGES: Uuid = Uuid::from_u128(0x6ba7_b816_9dad_11d1_80b4_0061_6765_6e74);
/// Namespace of conversations that nobody named (`TurnId::new_conversation`).
const NEW_CONVERSATIONS: Uuid = Uuid::from_u128(0x6ba7_b817_9dad_11d1_80b4_0061_6765_6e74);

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            /// Takes the 36-character hyphenated form only.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                if text.len() != 36 {
                    return Err(InvalidId);
                }
                Uuid::try_parse(text).map($name).map_err(|_| InvalidId)
            }
        }
    };
}

uuid_id!(
    /// A long-lived thread: checkpoint key, lease key, subject token.
    ConversationId
);
uuid_id!(
    /// One user message and everything until its answer. Also the job's id and the Gradio `event_id`. UUID v7, or
    /// v5 where the client gave the message an id.
    TurnId
);
uuid_id!(
    /// One confirmation card.
    ConfirmationId
);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid id")]
pub struct InvalidId;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReference {
    #[error("a conversation id has at most {max} characters, this one has {chars}", max = limits::CONVERSATION_NAME_CHARS)]
    TooLong { chars: usize },
    #[error("a conversation id must not contain control characters")]
    ControlCharacter,
}

impl ConversationId {
    /// What a client calls a conversation, as an id: a UUID is taken as it is, any other string is a
    /// name in that user's own space. The empty string is the caller's business (a new conversation).
    pub fn from_reference(user: &UserId, reference: &str) -> Result<Self, InvalidReference> {
        if let Ok(id) = reference.parse() {
            return Ok(id);
        }
        let chars = reference.chars().count();
        if chars > limits::CONVERSATION_NAME_CHARS {
            return Err(InvalidReference::TooLong { chars });
        }
        if reference.chars().any(char::is_control) {
            return Err(InvalidReference::ControlCharacter);
        }
        let key = format!("{}\0{reference}", user.as_str());
        Ok(Self(Uuid::new_v5(&CONVERSATION_NAMES, key.as_bytes())))
    }
}

/// What a client calls one message of its own.
#[derive(Clone, Copy, Debug)]
pub struct ClientMessage<'a> {
    pub user: &'a UserId,
    /// The conversation as the client calls it; empty for a new one.
    pub conversation: &'a str,
    /// Without control characters.
    pub id: &'a str,
    /// How many submissions under this id were refused before anything of them was started.
    pub refusals: u32,
}

impl TurnId {
    /// The same message is the same turn, wherever and whenever it is submitted.
    pub fn of_message(message: ClientMessage<'_>) -> Self {
        let ClientMessage { user, conversation, id, refusals } = message;
        let key = format!("{}\0{conversation}\0{id}\0{refusals}", user.as_str());
        Self(Uuid::new_v5(&CLIENT_MESSAGES, key.as_bytes()))
    }

    /// The conversation that a turn starts when its client named none.
    pub fn new_conversation(self) -> ConversationId {
        ConversationId(Uuid::new_v5(&NEW_CONVERSATIONS, self.0.as_bytes()))
    }
}

/// The authenticated user (`sub` of the JWT). Never a subject token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserId(String);

impl UserId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for UserId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        let valid = !text.is_empty() && text.len() <= 256 && !text.chars().any(char::is_control);
        if valid { Ok(Self(text)) } else { Err(InvalidId) }
    }
}

impl From<UserId> for String {
    fn from(user: UserId) -> String {
        user.0
    }
}

/// The `<sess>` token of event subjects: `[A-Za-z0-9_-]{1,64}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionToken(String);

impl SessionToken {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SessionToken {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        let safe = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        let valid = (1..=64).contains(&text.len()) && text.bytes().all(safe);
        if valid { Ok(Self(text)) } else { Err(InvalidId) }
    }
}

impl From<SessionToken> for String {
    fn from(token: SessionToken) -> String {
        token.0
    }
}
