//! The closed list of what a run asks of the world. Performed strictly in order.
use contract::error_code::ErrorCode;
use contract::event::{CardCall, Event, TurnStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Message;
use crate::tool::SideEffect;

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Emit(Event),
    /// Save the run as it is. Everything behind it relies on that, and is what [`crate::run::Run::recover`] repeats.
    Checkpoint,
    CallModel(ModelRequest),
    CallTool(PlannedCall),
    /// The text of the running step is withdrawn: rewind to where it began.
    WithdrawStep,
    /// The turn ends here, interrupted; the run waits.
    Pause(Pause),
    End(End),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ModelRequest {
    pub messages: Vec<Message>,
    pub tools: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedCall {
    pub id: String,
    pub name: String,
    pub arguments: Value,
    pub side_effect: SideEffect,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Pause {
    /// The user must decide about these calls.
    Confirm { calls: Vec<CardCall>, prompt: String },
    /// The user must come back with a fresh token.
    Token,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    pub status: TurnStatus,
    pub error: Option<(ErrorCode, String)>,
}
