//! What the model is told about a call, and how much of it; what the screen is shown.
use std::borrow::Cow;

use contract::error_code::ErrorCode;
use contract::limits;
use contract::text;
use serde_json::{Map, Value, json};

use crate::message::Message;

/// One result, for the model.
const RESULT_BYTES: usize = 16 * 1024;
/// What a run adds to the context; beyond this older results are cut.
const RUN_BYTES: usize = 96 * 1024;
/// What is left of an older result then.
const OLD_RESULT_BYTES: usize = 400;

const DENIED: &str = "The user did not allow this call. It was not made. Don't try it again unless the user asks for it; say what was not done.";
const CANCELLED: &str = "The turn was stopped before this call had a result.";
const UNKNOWN: &str = "The connection was lost while this call was running. Nobody knows whether it took effect. Do not repeat it; tell the user and suggest how to check.";
const ACCEPTED: &str = "Accepted; it goes on in the background. Tell the user, and offer to look at it later with get_task_status.";
const REPEATED: &str = "Not made: the same call with the same arguments was repeated too often.";

/// What a call's end means, as a JSON text: names and texts from outside stay quoted.
pub(super) enum Told<'a> {
    Output(&'a Value),
    Accepted(&'a Value),
    Failed { code: ErrorCode, text: &'a str },
    Unknown,
    Denied { reason: Option<&'a str> },
    Cancelled,
    Repeated,
}

impl Told<'_> {
    /// `share` is how many results the step has: together they stay below the limit of one output.
    pub(super) fn render(&self, share: usize) -> String {
        let whole = match self {
            Self::Output(Value::String(text)) => (*text).clone(),
            Self::Output(output) => output.to_string(),
            Self::Accepted(task) => {
                json!({"accepted": true, "note": ACCEPTED, "task": task}).to_string()
            }
            Self::Failed { code, text } => error(code.as_str(), text, None),
            Self::Unknown => error(ErrorCode::OutcomeUnknown.as_str(), UNKNOWN, None),
            Self::Denied { reason } => error(ErrorCode::Denied.as_str(), DENIED, *reason),
            Self::Cancelled => error("CANCELLED", CANCELLED, None),
            Self::Repeated => error(ErrorCode::LoopDetected.as_str(), REPEATED, None),
        };
        cut(&whole, RESULT_BYTES.min(limits::TOOL_OUTPUT_BYTES / share.max(1)))
    }
}

fn error(code: &str, message: &str, user_reason: Option<&str>) -> String {
    let mut fields = Map::new();
    fields.insert("error".to_owned(), code.into());
    fields.insert("message".to_owned(), message.into());
    if let Some(reason) = user_reason {
        fields.insert("user_reason".to_owned(), text::cut_bytes(reason, 2_000).0.into());
    }
    Value::Object(fields).to_string()
}

fn cut(whole: &str, max_bytes: usize) -> String {
    let (kept, was_cut) = text::cut_bytes(whole, max_bytes);
    if was_cut {
        format!("{kept}\n[... cut: {} of {} bytes]", kept.len(), whole.len())
    } else {
        kept.to_owned()
    }
}

/// The output for the screen: itself, or the beginning of its text.
pub(super) fn shown(output: Value) -> Value {
    let whole = match &output {
        Value::String(text) => Cow::Borrowed(text.as_str()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Cow::Owned(output.to_string())
        }
    };
    if whole.len() <= limits::TOOL_OUTPUT_BYTES {
        return output;
    }
    Value::String(cut(&whole, limits::TOOL_OUTPUT_BYTES))
}

/// Cuts the oldest results of `own` until everything fits; those of the last `newest` messages stay.
pub(super) fn compact(own: &mut [Message], newest: usize) {
    let mut size: usize = own.iter().map(size_bytes).sum();
    let older = own.len().saturating_sub(newest);
    for message in own.iter_mut().take(older) {
        if size <= RUN_BYTES {
            return;
        }
        if let Message::Tool { content, .. } = message
            && content.len() > OLD_RESULT_BYTES * 2
        {
            let short = cut(content, OLD_RESULT_BYTES);
            size -= content.len() - short.len();
            *content = short;
        }
    }
}

fn size_bytes(message: &Message) -> usize {
    let calls =
        message.calls().iter().map(|call| call.name.len() + call.arguments.to_string().len());
    message.content().len() + calls.sum::<usize>()
}

/// Postgres takes no NUL in JSON or text.
pub(super) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

pub(super) fn value_without_nul(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(without_nul(&text).into_owned()),
        Value::Array(items) => items.into_iter().map(value_without_nul).collect(),
        Value::Object(fields) => {
            let clean = |(key, value): (String, Value)| {
                (without_nul(&key).into_owned(), value_without_nul(value))
            };
            Value::Object(fields.into_iter().map(clean).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}
