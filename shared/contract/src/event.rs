//! What a worker tells the screen: the `metadata` union of the specification, in an envelope.
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error_code::ErrorCode;
use crate::ids::{ConfirmationId, SessionToken, TurnId, UserId};

/// One message on `agent.v1.ev.<conversation>.<session>.<turn>`.
///
/// `n` counts from 1 per attempt without holes; `Nats-Msg-Id` is `<turn>:<attempt>:<n>`. The gateway's own
/// `queued` has attempt 0 and n 0. The cursor that clients see is the stream sequence, not `n`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    pub v: u32,
    pub turn_id: TurnId,
    pub attempt: u32,
    pub n: u64,
    #[serde(flatten)]
    pub event: Event,
    /// RFC 3339, UTC.
    pub ts: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// The gateway accepted a submission; written before its job.
    Queued(Queued),
    /// A worker starts, or takes over with a higher attempt. Written under the fence.
    Attempt {
        attempt: u32,
        worker: String,
    },
    StreamToken {
        token: String,
    },
    ToolStart {
        tool_call_id: String,
        tool: String,
        input: Value,
    },
    ToolProgress {
        tool_call_id: String,
        tool: String,
        elapsed_s: u64,
    },
    ToolEnd {
        tool_call_id: String,
        tool: String,
        output: Value,
    },
    ToolError {
        tool_call_id: String,
        tool: String,
        error: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<ErrorCode>,
    },
    ConfirmRequired(Card),
    ConfirmResolved {
        confirmation_id: ConfirmationId,
        result: Resolution,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The calls this decision was about.
        #[serde(default)]
        tool_call_ids: Vec<String>,
    },
    Warning {
        code: String,
        detail: String,
    },
    /// Text after this cursor is withdrawn: it came from a worker that died before saving it.
    Rewind {
        to_cursor: String,
    },
    /// Events of this range are no longer in the log; whole text follows.
    StreamGap {
        from: String,
        to: String,
    },
    /// Plain text, as a whole.
    Message {
        content: String,
    },
    Error {
        code: ErrorCode,
        detail: String,
        /// Additional facts for a client, e.g. the live `turn_id` of `CONVERSATION_BUSY`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra: Option<Value>,
    },
    /// The one terminal event of a turn.
    TurnEnd(TurnEnd),
    /// A gateway's own record of what a session has been told (not part of any turn).
    Session(SessionRecord),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    pub user_id: UserId,
    /// The `session_hash` the client chose; with the turn's id it authorises a cancel.
    pub session_hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_ref: Option<String>,
    /// Jobs waiting or running when this one was accepted.
    #[serde(default)]
    pub ahead: u64,
    /// An `attach` submission shows events of this turn, from after this cursor on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attach: Option<Attach>,
    /// Of what was asked, for submissions with a `client_message_id`: the same id with another digest is refused.
    /// With `attach`, the turn that is shown was asked for before: who cancels this submission stops that turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attach {
    pub turn_id: TurnId,
    pub session: SessionToken,
    /// Stream sequence; 0 means from the turn's start.
    pub after: u64,
}

/// A confirmation card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Card {
    pub confirmation_id: ConfirmationId,
    pub prompt: String,
    /// Always the conversation's id.
    pub thread_id: String,
    pub calls: Vec<CardCall>,
    /// RFC 3339, UTC.
    pub expires_at: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardCall {
    pub tool_call_id: String,
    pub tool: String,
    pub input: Value,
    pub prompt: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    Confirmed,
    Denied,
    /// Each call got its own decision and they differ.
    Mixed,
    Expired,
    Cancelled,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    pub status: TurnStatus,
    /// The whole answer; absent when it would not fit into one message (readers add up the tokens).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A worker that measures nothing leaves this out; then clients get no `turn_end` message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    Completed,
    /// Paused: an open confirmation, or an expired token.
    Interrupted,
    Cancelled,
    Failed,
    /// Never started: refused at the queue.
    Rejected,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Model calls of this turn.
    pub steps: u32,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// From the job's creation to the start of the attempt that ended the turn; earlier attempts are in it.
    pub queue_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<u64>,
    pub total_ms: u64,
}

/// Every turn of the session whose `queued` is at or below `watermark`, or in `done`, was delivered to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    pub watermark: u64,
    #[serde(default)]
    pub done: Vec<TurnId>,
    /// Stream sequence of the `queued` of each turn in `done`, in the same order; 0 where it is not known.
    #[serde(default)]
    pub done_at: Vec<u64>,
}

impl Event {
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::TurnEnd(_))
    }
}
