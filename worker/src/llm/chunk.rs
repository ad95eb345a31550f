//! One chunk of a model's stream, read as leniently as it can be: only malformed JSON is an error.
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// What a chunk says, whatever the server left out or typed differently.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunk {
    pub text: String,
    /// The model is thinking: no text, but alive.
    pub reasoning: bool,
    pub calls: Vec<CallPart>,
    pub finish: Option<String>,
    pub usage: Option<Tokens>,
    pub error: Option<StreamedError>,
}

/// A piece of a tool call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallPart {
    pub index: Option<u64>,
    pub id: Option<String>,
    pub name: Option<String>,
    pub arguments: Arguments,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Arguments {
    #[default]
    None,
    /// The next piece of a JSON text.
    Text(String),
    /// Some servers send the object itself, whole.
    Whole(Value),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
}

/// An error object inside a stream whose status was 200. Its text stays here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamedError {
    pub status: Option<u16>,
    pub filtered: bool,
}

impl<'de> Deserialize<'de> for Chunk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self::read(&value))
    }
}

impl Chunk {
    fn read(value: &Value) -> Self {
        let error = value.get("error").filter(|error| !error.is_null()).map(StreamedError::read);
        let usage = value.get("usage").and_then(Tokens::read);
        let Some(choice) = value.get("choices").and_then(first_choice) else {
            return Self { error, usage, ..Self::default() };
        };
        let delta =
            choice.get("delta").filter(|delta| delta.is_object()).or_else(|| choice.get("message"));
        let part = |key: &str| delta.and_then(|delta| delta.get(key));
        let mut text = part("content").map(text_of).unwrap_or_default();
        if let Some(refusal) = part("refusal").and_then(Value::as_str) {
            text.push_str(refusal);
        }
        let thinks = |key: &str| part(key).is_some_and(|value| !text_of(value).is_empty());
        Self {
            text,
            reasoning: thinks("reasoning_content") || thinks("reasoning"),
            calls: part("tool_calls").map(CallPart::read_all).unwrap_or_default(),
            finish: choice.get("finish_reason").and_then(filled),
            usage: usage.or_else(|| choice.get("usage").and_then(Tokens::read)),
            error,
        }
    }
}

impl CallPart {
    fn read_all(value: &Value) -> Vec<Self> {
        match value {
            Value::Array(items) => {
                items.iter().filter(|item| item.is_object()).map(Self::read).collect()
            }
            Value::Object(_) => vec![Self::read(value)],
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        }
    }

    fn read(value: &Value) -> Self {
        let function = value.get("function").unwrap_or(value);
        Self {
            index: value.get("index").and_then(number),
            id: value.get("id").and_then(filled),
            name: function.get("name").and_then(filled),
            arguments: function.get("arguments").map(Arguments::read).unwrap_or_default(),
        }
    }
}

impl Arguments {
    fn read(value: &Value) -> Self {
        match value {
            Value::Null => Self::None,
            Value::String(text) if text.is_empty() => Self::None,
            Value::String(text) => Self::Text(text.clone()),
            Value::Object(_) | Value::Array(_) | Value::Bool(_) | Value::Number(_) => {
                Self::Whole(value.clone())
            }
        }
    }
}

impl Tokens {
    fn read(value: &Value) -> Option<Self> {
        let tokens = |key: &str| value.get(key).and_then(number);
        let (input, output) = (tokens("prompt_tokens"), tokens("completion_tokens"));
        if input.is_none() && output.is_none() {
            return None;
        }
        Some(Self { input: input.unwrap_or_default(), output: output.unwrap_or_default() })
    }
}

impl StreamedError {
    pub(super) fn read(error: &Value) -> Self {
        let status = ["code", "status", "status_code"]
            .iter()
            .find_map(|key| error.get(key).and_then(number));
        Self {
            status: status.and_then(|status| u16::try_from(status).ok()),
            filtered: is_filtered(error),
        }
    }
}

/// Whether an error object says that a content filter stopped the request.
fn is_filtered(error: &Value) -> bool {
    let names = ["content_filter", "content_policy_violation", "responsible_ai_policy_violation"];
    ["code", "type"].iter().filter_map(|key| error.get(key).and_then(Value::as_str)).any(|code| {
        let code = code.to_ascii_lowercase();
        names.iter().any(|name| code == *name)
    })
}

/// We ask for one answer: a server that sends several is read by its first.
fn first_choice(choices: &Value) -> Option<&Value> {
    choices.as_array()?.iter().find(|choice| choice.get("index").and_then(number).unwrap_or(0) == 0)
}

/// A string, or an array of content parts; thoughts among the parts are left out.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text").or(Some(part))?.as_str()).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn filled(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}

/// A count, also as a float or a string.
fn number(value: &Value) -> Option<u64> {
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    if let Some(text) = value.as_str() {
        return text.trim().parse().ok();
    }
    let float = value.as_f64().filter(|float| *float >= 0.0 && *float < 9e15)?;
    format!("{float:.0}").parse().ok()
}
