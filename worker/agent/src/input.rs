//! The closed list of what can happen to a run.
use contract::error_code::ErrorCode;
use contract::event::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::SideEffect;

#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A piece of visible text of the running model call.
    ModelText(String),
    ModelFinished(ModelOutput),
    ModelFailed(ModelFailure),
    /// Refused, without harm, once the call has finished.
    ToolProgress {
        call_id: String,
        elapsed_s: u64,
    },
    ToolFinished {
        call_id: String,
        outcome: ToolOutcome,
    },
    /// A result that comes in after the user has cancelled and before `Cancel` is handled, which must follow:
    /// it is shown and kept, and nothing new starts.
    ToolSettled {
        call_id: String,
        outcome: ToolOutcome,
    },
    /// One verdict for each call of the card.
    Decided(Vec<CallDecision>),
    /// The user came back with a fresh token.
    Resumed,
    Cancel,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelOutput {
    pub tool_calls: Vec<ProposedCall>,
    pub finish: Finish,
    /// Tokens of this one call; `steps` is ignored, the run counts.
    pub usage: Usage,
}

/// A call as the model wrote it, checked by the shell against its registry.
#[derive(Clone, Debug, PartialEq)]
pub struct ProposedCall {
    pub id: String,
    pub name: String,
    pub arguments: Arguments,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    Valid {
        value: Value,
        danger: bool,
        side_effect: SideEffect,
    },
    /// JSON, but it does not fit the tool's schema.
    Invalid {
        value: Value,
        problem: String,
    },
    /// No JSON at all, or cut short.
    Unparsable {
        raw_len: usize,
    },
    UnknownTool {
        value: Value,
    },
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Stop,
    ToolCalls,
    Length,
    ContentFilter,
    /// The stream ended without a reason.
    Missing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFailure {
    /// No answer, after the shell's own retries.
    Unavailable,
    Malformed,
    Refused,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "value", rename_all = "snake_case")]
pub enum ToolOutcome {
    Ok(Value),
    /// 202: the backend goes on by itself; `task` says where to look.
    Accepted {
        task: Value,
    },
    Failed {
        code: ErrorCode,
        text: String,
    },
    /// The user's token is no longer good; the call was not made.
    TokenExpired,
    /// Nobody knows whether the side effect happened.
    OutcomeUnknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallDecision {
    pub call_id: String,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Confirm,
    Deny { reason: Option<String> },
}
