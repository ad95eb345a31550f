//! Old rows made valid. Never makes up a success, never drops what a user or the assistant said.
use std::collections::HashSet;

use crate::message::{Message, ToolCall};

/// The result of a call that has none: its turn was cancelled, its card denied or left to expire.
const NO_RESULT: &str = r#"{"error":"NO_RESULT","message":"This call has no result: it was cancelled, denied, or its confirmation expired. Don't assume that it took effect."}"#;

/// Messages carry their turn; a result that moves to its call takes that one's turn.
pub(super) fn repair(messages: Vec<(usize, Message)>) -> Vec<(usize, Message)> {
    let mut repaired = Vec::with_capacity(messages.len());
    for (at, (turn, message)) in messages.iter().enumerate() {
        match message {
            Message::System { .. } | Message::User { .. } => {
                repaired.push((*turn, message.clone()))
            }
            Message::Tool { .. } => {}
            Message::Assistant { content, tool_calls } => {
                let calls = distinct(tool_calls);
                if content.is_empty() && calls.is_empty() {
                    continue;
                }
                let results: Vec<Message> = calls
                    .iter()
                    .map(|call| result_of(call, messages.get(at + 1..).unwrap_or_default()))
                    .collect();
                repaired.push((
                    *turn,
                    Message::Assistant { content: content.clone(), tool_calls: calls },
                ));
                repaired.extend(results.into_iter().map(|result| (*turn, result)));
            }
        }
    }
    repaired
}

fn distinct(calls: &[ToolCall]) -> Vec<ToolCall> {
    let mut seen = HashSet::new();
    calls.iter().filter(|call| seen.insert(call.id.as_str())).cloned().collect()
}

/// The first result of `call` in what is `behind` it, up to where the id is used again.
fn result_of(call: &ToolCall, behind: &[(usize, Message)]) -> Message {
    for (_, message) in behind {
        match message {
            Message::Tool { tool_call_id, .. } if *tool_call_id == call.id => {
                return message.clone();
            }
            Message::Assistant { tool_calls, .. }
                if tool_calls.iter().any(|other| other.id == call.id) =>
            {
                break;
            }
            Message::System { .. }
            | Message::User { .. }
            | Message::Assistant { .. }
            | Message::Tool { .. } => {}
        }
    }
    Message::Tool { tool_call_id: call.id.clone(), content: NO_RESULT.to_owned() }
}
