//! Where a run stands: its phase and the step it is in.
use serde::{Deserialize, Serialize};

use super::calls::{Call, CallState};
use crate::effect::{End, Pause};
use crate::input::Input;
use crate::message::Message;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "in", content = "with", rename_all = "snake_case")]
pub(super) enum Phase {
    /// The model is at work.
    Model,
    /// Calls are at work.
    Tools,
    Paused(Pause),
    Ended(End),
}

/// A [`Phase`] without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Model,
    Tools,
    Deciding,
    AwaitingToken,
    Ended,
}

impl Phase {
    pub(super) fn state(&self) -> State {
        match self {
            Self::Model => State::Model,
            Self::Tools => State::Tools,
            Self::Paused(Pause::Confirm { .. }) => State::Deciding,
            Self::Paused(Pause::Token) => State::AwaitingToken,
            Self::Ended(_) => State::Ended,
        }
    }
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Model => "waiting for the model",
            Self::Tools => "waiting for tools",
            Self::Deciding => "waiting for a decision",
            Self::AwaitingToken => "waiting for a fresh token",
            Self::Ended => "over",
        }
    }
}

impl Input {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::ModelText(_) => "model text",
            Self::ModelFinished(_) => "model finished",
            Self::ModelFailed(_) => "model failed",
            Self::ToolProgress { .. } => "tool progress",
            Self::ToolFinished { .. } => "tool finished",
            Self::ToolSettled { .. } => "tool settled",
            Self::Decided(_) => "decided",
            Self::Resumed => "resumed",
            Self::Cancel => "cancel",
        }
    }
}

/// One model call and the calls it asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Step {
    /// Length of the turn's text when the step began.
    pub(super) text_from: usize,
    /// What the model has said in this step and is not yet in the context.
    pub(super) said: String,
    /// The model call was made a second time, as the first answer was malformed.
    pub(super) retried: bool,
    pub(super) calls: Vec<Call>,
}

impl Step {
    /// Finished calls in call order, each with its result.
    pub(super) fn done(&self) -> impl Iterator<Item = (&str, &str)> {
        self.calls.iter().filter_map(|call| match &call.state {
            CallState::Done { result } => Some((call.id.as_str(), result.as_str())),
            CallState::Queued | CallState::Asking | CallState::Running | CallState::Held => None,
        })
    }

    pub(super) fn results(&self) -> impl Iterator<Item = Message> {
        self.done().map(|(id, result)| Message::Tool {
            tool_call_id: id.to_owned(),
            content: result.to_owned(),
        })
    }

    pub(super) fn is_running(&self) -> bool {
        self.calls.iter().any(|call| call.state == CallState::Running)
    }
}
