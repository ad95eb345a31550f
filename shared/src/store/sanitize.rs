//! Text on its way into Postgres, which can't hold U+0000, and JSON that must be readable when it comes back.
use std::borrow::Cow;

use contract::job::FileRef;
use serde_json::{Map, Value};

const NUL: char = '\0';
const REPLACEMENT: &str = "\u{fffd}";
/// Readers refuse JSON nested deeper than 128 levels. A branch below this level is kept as its text.
const JSON_LEVELS: usize = 100;

/// U+0000 becomes U+FFFD. A written-out `\u0000` (a backslash and five characters) is text like any other.
pub fn text(text: &str) -> Cow<'_, str> {
    if text.contains(NUL) {
        Cow::Owned(text.replace(NUL, REPLACEMENT))
    } else {
        Cow::Borrowed(text)
    }
}

/// As `text`, for every string and key.
pub fn json(value: &Value) -> Cow<'_, Value> {
    if is_clean(value, JSON_LEVELS) {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(cleaned(value, JSON_LEVELS))
    }
}

/// File references as they are stored.
pub fn files(files: &[FileRef]) -> Option<Value> {
    if files.is_empty() {
        return None;
    }
    let items = files.iter().map(|file| {
        serde_json::json!({
            "blob": text(&file.blob), "name": text(&file.name), "mime": text(&file.mime), "size": file.size,
        })
    });
    Some(Value::Array(items.collect()))
}

fn is_clean(value: &Value, levels: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => !text.contains(NUL),
        Value::Array(items) => levels > 0 && items.iter().all(|item| is_clean(item, levels - 1)),
        Value::Object(fields) => {
            levels > 0
                && fields
                    .iter()
                    .all(|(key, field)| !key.contains(NUL) && is_clean(field, levels - 1))
        }
    }
}

fn cleaned(value: &Value, levels: usize) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(string) => Value::String(text(string).into_owned()),
        Value::Array(_) | Value::Object(_) if levels == 0 => {
            Value::String(text(&value.to_string()).into_owned())
        }
        Value::Array(items) => items.iter().map(|item| cleaned(item, levels - 1)).collect(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, field)| (text(key).into_owned(), cleaned(field, levels - 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

#[cfg(test)]
mod tests;
