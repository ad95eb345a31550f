//! The value that an event becomes: `{role, content, metadata}`.
use contract::error_code::ErrorCode;
use contract::event::{Event, TurnEnd, TurnStatus};
use contract::ids::TurnId;
use serde_json::{Map, Value, json};

/// Where an event stands; part of every value's metadata.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Stream sequence. What the gateway says by itself has none.
    pub cursor: Option<u64>,
    /// The conversation as the client knows it; empty when that is not known.
    pub conversation: &'a str,
}

/// The value of one event; `None` for what a client isn't told. `TurnEnd` is [`turn_end`] and [`closing`].
pub fn value(event: &Event, place: Place<'_>) -> Option<Value> {
    match event {
        Event::Queued(_) | Event::Attempt { .. } | Event::Session(_) | Event::TurnEnd(_) => None,
        Event::StreamToken { token } => {
            let mut metadata = typed("stream_token");
            metadata.insert("token".to_owned(), Value::String(token.clone()));
            Some(finish("", metadata, place))
        }
        Event::Message { content } => Some(finish(content, Map::new(), place)),
        Event::Error { code, detail, extra } => Some(error(*code, detail, extra.as_ref(), place)),
        Event::ToolStart { .. }
        | Event::ToolProgress { .. }
        | Event::ToolEnd { .. }
        | Event::ToolError { .. }
        | Event::ConfirmRequired(_)
        | Event::ConfirmResolved { .. }
        | Event::Warning { .. }
        | Event::Rewind { .. }
        | Event::StreamGap { .. } => Some(finish("", tagged(event), place)),
    }
}

pub fn error(code: ErrorCode, detail: &str, extra: Option<&Value>, place: Place<'_>) -> Value {
    let mut metadata = typed("error");
    metadata.insert("code".to_owned(), json!(code));
    metadata.insert("detail".to_owned(), json!(detail));
    metadata.insert("retryable".to_owned(), json!(code.is_retryable()));
    match extra {
        Some(Value::Object(facts)) => {
            for (key, fact) in facts {
                metadata.entry(key.clone()).or_insert_with(|| fact.clone());
            }
        }
        Some(fact) => {
            metadata.insert("extra".to_owned(), fact.clone());
        }
        None => {}
    }
    finish("", without_paths(metadata), place)
}

/// `turn_end`, unless the worker measured nothing.
pub fn turn_end(end: &TurnEnd, place: Place<'_>) -> Option<Value> {
    if end.usage.is_none() && end.timings.is_none() {
        return None;
    }
    let mut metadata = typed("turn_end");
    metadata.insert("status".to_owned(), json!(end.status));
    if let Some(usage) = &end.usage {
        metadata.insert("usage".to_owned(), json!(usage));
    }
    if let Some(timings) = &end.timings {
        metadata.insert("timings".to_owned(), json!(timings));
    }
    Some(finish("", metadata, place))
}

/// The plain message with the whole answer. Clients see it twice, so it has no type.
pub fn closing(text: &str, turn: TurnId, status: TurnStatus, place: Place<'_>) -> Value {
    let mut metadata = Map::new();
    metadata.insert("turn_id".to_owned(), json!(turn));
    metadata.insert("status".to_owned(), json!(status));
    finish(text, metadata, place)
}

/// The value, shown at a later place than its event's.
pub fn moved(mut value: Value, cursor: u64) -> Value {
    if let Some(shown) = value.pointer_mut("/metadata/cursor") {
        *shown = Value::String(cursor.to_string());
    }
    value
}

pub fn without_cursor(mut value: Value) -> Value {
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.shift_remove("cursor");
    }
    value
}

fn typed(kind: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), Value::String(kind.to_owned()))])
}

/// `{"type", "data": {…}}` of the contract, flattened.
fn tagged(event: &Event) -> Map<String, Value> {
    let Ok(Value::Object(mut whole)) = serde_json::to_value(event) else { return Map::new() };
    let mut metadata = Map::new();
    if let Some(kind) = whole.remove("type") {
        metadata.insert("type".to_owned(), kind);
    }
    if let Some(Value::Object(fields)) = whole.remove("data") {
        metadata.extend(fields);
    }
    without_paths(metadata)
}

fn finish(content: &str, mut metadata: Map<String, Value>, place: Place<'_>) -> Value {
    if let Some(cursor) = place.cursor {
        metadata.insert("cursor".to_owned(), Value::String(cursor.to_string()));
    }
    if !place.conversation.is_empty() {
        metadata.insert("conversation_id".to_owned(), json!(place.conversation));
        metadata.insert("thread_id".to_owned(), json!(place.conversation));
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    message.insert("content".to_owned(), json!(content));
    message.insert("metadata".to_owned(), Value::Object(metadata));
    Value::Object(message)
}

/// Python clients try to download whatever string stands under a key `path`: it becomes `path_`.
fn without_paths(object: Map<String, Value>) -> Map<String, Value> {
    let taken = object.contains_key("path_");
    let rename = if taken { "path__" } else { "path_" };
    object
        .into_iter()
        .map(|(key, value)| {
            let key = if key == "path" && value.is_string() { rename.to_owned() } else { key };
            (key, without_paths_inside(value))
        })
        .collect()
}

fn without_paths_inside(value: Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(without_paths(object)),
        Value::Array(values) => values.into_iter().map(without_paths_inside).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

#[cfg(test)]
mod tests;
