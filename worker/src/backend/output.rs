//! A tool's result made fit to be shown, stored and given to the model: no NUL, bounded, still valid JSON.
use contract::{limits, text};
use serde_json::{Map, Value, json};

/// Room for the mark.
const MARK_BYTES: usize = 256;
/// Items of a list and bytes of a text in the first try; every further one halves them.
const FIRST_ITEMS: usize = 4_096;
const FIRST_TEXT: usize = 32_768;

/// Small results stay as they are; of larger ones the beginning of every list and text is kept.
pub fn fit(value: Value) -> Value {
    let value = without_nul(value);
    let size = size_of(&value);
    if size <= limits::TOOL_OUTPUT_BYTES { value } else { reduce(&value, size) }
}

/// The beginning of an answer that was too large to read, as text.
pub fn beginning(bytes: &[u8]) -> Value {
    let head = bytes.get(..limits::TOOL_OUTPUT_BYTES / 4).unwrap_or(bytes);
    let text = String::from_utf8_lossy(head);
    let text = text.trim_end_matches(char::REPLACEMENT_CHARACTER).replace('\0', "\u{fffd}");
    let (text, _) = text::cut_bytes(&text, limits::TOOL_OUTPUT_BYTES / 4);
    json!({ "truncated": true, "note": NOTE, "beginning": text })
}

const NOTE: &str = "The result was too large and is incomplete. Ask for less: filter, or page with page and page_size.";

fn reduce(value: &Value, size: usize) -> Value {
    let (mut items, mut chars) = (FIRST_ITEMS, FIRST_TEXT);
    while items > 0 {
        let cut = cut(value, items, chars);
        if size_of(&cut) + MARK_BYTES <= limits::TOOL_OUTPUT_BYTES {
            return marked(cut, size);
        }
        items /= 2;
        chars = (chars / 2).max(64);
    }
    let text = value.to_string();
    beginning(text.as_bytes())
}

fn cut(value: &Value, items: usize, chars: usize) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => {
            let (kept, shortened) = text::cut_bytes(text, chars);
            if shortened { Value::String(format!("{kept}…")) } else { value.clone() }
        }
        Value::Array(list) => list.iter().take(items).map(|item| cut(item, items, chars)).collect(),
        Value::Object(map) => {
            let fields = map.iter().take(items.max(16));
            Value::Object(
                fields.map(|(key, field)| (key.clone(), cut(field, items, chars))).collect(),
            )
        }
    }
}

fn marked(value: Value, size: usize) -> Value {
    let mut map = match value {
        Value::Object(map) => map,
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)) => Map::from_iter([("items".to_owned(), other)]),
    };
    map.insert("truncated".to_owned(), Value::Bool(true));
    map.insert("truncated_from_bytes".to_owned(), json!(size));
    map.insert("note".to_owned(), Value::String(NOTE.to_owned()));
    Value::Object(map)
}

/// Postgres takes no NUL in text.
fn without_nul(value: Value) -> Value {
    let clean =
        |text: String| if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text };
    match value {
        Value::String(text) => Value::String(clean(text)),
        Value::Array(list) => list.into_iter().map(without_nul).collect(),
        Value::Object(map) => Value::Object(
            map.into_iter().map(|(key, field)| (clean(key), without_nul(field))).collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

fn size_of(value: &Value) -> usize {
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
