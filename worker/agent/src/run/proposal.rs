//! What the model proposes: checked, made unique, counted.
use std::collections::HashSet;

use contract::error_code::ErrorCode;
use contract::limits;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::calls::{Call, CallState};
use super::results::{self, Told};
use super::{Run, ids};
use crate::approval;
use crate::effect::Effect;
use crate::input::{Arguments, ProposedCall};
use crate::message::{Message, ToolCall};
use crate::tool::SideEffect;

const CALLS_PER_STEP: usize = 16;
/// All arguments of a step together; they must fit on one card in one message.
const ARGUMENTS_BYTES: usize = 96 * 1024;

/// The last call and how often it came in a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Streak {
    name: String,
    arguments: Value,
    times: u32,
}

impl Run {
    /// The model asked for calls: announce, start, ask.
    pub(super) fn propose(&mut self, proposed: Vec<ProposedCall>) -> Vec<Effect> {
        let looping = self.count_repetitions(&proposed);
        let share = proposed.len();
        let mut taken: HashSet<String> = self.call_ids();
        let mut room = ARGUMENTS_BYTES;
        let mut events = Vec::new();
        let mut tool_calls = Vec::new();
        let mut calls = Vec::new();
        for (index, proposal) in proposed.into_iter().enumerate() {
            let (mut call, mut problem) = checked(proposal, &mut taken);
            let size = call.arguments.to_string().len();
            if size > room {
                problem = Some("the arguments are too long".to_owned());
                call.arguments = Value::Object(Map::new());
            } else if index >= CALLS_PER_STEP {
                problem = Some(format!("at most {CALLS_PER_STEP} calls at once"));
            }
            room = room.saturating_sub(size);
            if looping {
                call.finish(&Told::Repeated, share);
            } else if let Some(text) = problem {
                let code = ErrorCode::InvalidArguments;
                call.finish(&Told::Failed { code, text: &text }, share);
                events.push(call.start_event());
                events.push(call.error_event(text, Some(code)));
            }
            tool_calls.push(ToolCall {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            });
            calls.push(call);
        }
        let content = std::mem::take(&mut self.step.said);
        self.context.push(Message::Assistant { content, tool_calls });
        self.step.calls = calls;
        if looping {
            self.settle();
            return vec![self.fail(ErrorCode::LoopDetected)];
        }
        self.go_on(events)
    }

    fn call_ids(&self) -> HashSet<String> {
        self.context.iter().flat_map(Message::calls).map(|call| call.id.clone()).collect()
    }

    /// DECISIONS 20. True when a call comes once too often.
    fn count_repetitions(&mut self, proposed: &[ProposedCall]) -> bool {
        for proposal in proposed {
            let arguments = proposal.arguments.value();
            match &mut self.streak {
                Some(last) if last.name == proposal.name && last.arguments == *arguments => {
                    last.times += 1;
                }
                streak => {
                    let (name, arguments) = (proposal.name.clone(), arguments.clone());
                    *streak = Some(Streak { name, arguments, times: 1 });
                }
            }
            if self.streak.as_ref().is_some_and(|last| last.times >= limits::REPEATED_CALLS) {
                return true;
            }
        }
        false
    }
}

impl Arguments {
    fn value(&self) -> &Value {
        match self {
            Self::Valid { value, .. }
            | Self::Invalid { value, .. }
            | Self::UnknownTool { value } => value,
            Self::Unparsable { .. } => &Value::Null,
        }
    }
}

/// The call as it will be made, and why it won't be.
fn checked(proposal: ProposedCall, taken: &mut HashSet<String>) -> (Call, Option<String>) {
    let name = ids::tool_name(&proposal.name);
    let (value, side_effect, danger, problem) = match proposal.arguments {
        Arguments::Valid { value, danger, side_effect } => (value, side_effect, danger, None),
        Arguments::Invalid { value, problem } => (value, SideEffect::Read, false, Some(problem)),
        Arguments::UnknownTool { value } => {
            let problem = format!("there is no tool named {name:?}");
            (value, SideEffect::Read, false, Some(problem))
        }
        Arguments::Unparsable { raw_len } => {
            let problem = format!("the arguments ({raw_len} bytes) are not JSON");
            (Value::Null, SideEffect::Read, false, Some(problem))
        }
    };
    let gated = danger || approval::always_asks(&name);
    let state = if gated { CallState::Asking } else { CallState::Queued };
    let arguments = results::value_without_nul(value);
    let id = ids::unique(&proposal.id, taken);
    (Call { id, name, arguments, side_effect, gated, state }, problem)
}
