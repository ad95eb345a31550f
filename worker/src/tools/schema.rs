//! JSON schemas: derived from the tools' types, in the plain form that every model server takes, and checked by it.
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Description and parameters of a tool.
pub fn of<T: JsonSchema>() -> (String, Value) {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    let Some(object) = schema.as_object_mut() else { return (String::new(), schema) };
    let description = match object.shift_remove("description") {
        Some(Value::String(text)) => text,
        Some(_) | None => String::new(),
    };
    if !object.contains_key("properties") {
        object.insert("properties".to_owned(), json!({}));
    }
    (description, schema)
}

/// Optional values are absent, not null; what no server needs goes.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for noise in ["$schema", "title", "format"] {
                object.shift_remove(noise);
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.shift_remove("default");
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            }
            without_null(object);
            for (key, inner) in object.iter_mut() {
                if key == "properties" {
                    // Keys are names here: a property may be called `title`.
                    inner.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(simplify);
                } else {
                    simplify(inner);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn without_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = object.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let Some(Value::Array(choices)) = object.get_mut("anyOf") else { return };
    choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
    if let [Value::Object(only)] = choices.as_slice() {
        let only = only.clone();
        object.shift_remove("anyOf");
        for (key, value) in only {
            object.entry(key).or_insert(value);
        }
    }
}

/// The value as the schema wants it, or everything that is wrong with it, for the model to read.
///
/// Three slips of models lose nothing when mended, and are: null for an absent value, a number where an id is text,
/// digits in quotes where a number belongs.
pub fn fit(schema: &Value, mut value: Value) -> Result<Value, String> {
    let mut problems = Vec::new();
    check(schema, &mut value, "", &mut problems);
    if problems.is_empty() { Ok(value) } else { Err(problems.join("; ")) }
}

fn check(schema: &Value, value: &mut Value, at: &str, problems: &mut Vec<String>) {
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    mend(kind, value);
    let mut wrong = |text: String| problems.push(format!("{} {text}", named(at)));
    if !is_a(kind, value) {
        wrong(format!("must be {}", with_article(kind)));
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        wrong(format!("must be one of {}", allowed.join(", ")));
    }
    match value {
        Value::String(text) => {
            bounds(schema, ["minLength", "maxLength"], text.chars().count(), "characters", wrong)
        }
        Value::Number(number) => range(schema, number.as_f64().unwrap_or_default(), wrong),
        Value::Array(items) => {
            bounds(schema, ["minItems", "maxItems"], items.len(), "items", wrong);
            if let Some(inner) = schema.get("items") {
                for (n, item) in items.iter_mut().enumerate() {
                    check(inner, item, &format!("{at}[{n}]"), problems);
                }
            }
        }
        Value::Object(object) => fields(schema, object, at, problems),
        Value::Null | Value::Bool(_) => {}
    }
}

fn fields(schema: &Value, object: &mut Map<String, Value>, at: &str, problems: &mut Vec<String>) {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required = schema.get("required").and_then(Value::as_array);
    let required: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    object.retain(|key, value| {
        !value.is_null() || !properties.contains_key(key) || required.contains(&key.as_str())
    });
    let place = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    for key in required.iter().filter(|key| !object.contains_key(**key)) {
        problems.push(format!("{} is missing", named(&place(key))));
    }
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (key, value) in object.iter_mut() {
        match properties.get(key) {
            Some(inner) => check(inner, value, &place(key), problems),
            None if closed => {
                let known: Vec<&str> = properties.keys().map(String::as_str).collect();
                let shown: String = key.chars().take(60).collect();
                problems.push(format!(
                    "{} is no argument; there are: {}",
                    named(&place(&shown)),
                    known.join(", ")
                ));
            }
            None => {}
        }
    }
}

fn mend(kind: &str, value: &mut Value) {
    let mended = match (kind, &*value) {
        ("string", Value::Number(number)) if number.is_i64() || number.is_u64() => {
            Value::String(number.to_string())
        }
        ("integer", Value::String(text)) => match text.trim().parse::<i64>() {
            Ok(number) => Value::from(number),
            Err(_) => return,
        },
        ("integer", Value::Number(number)) if number.is_f64() => match whole(number.as_f64()) {
            Some(number) => Value::from(number),
            None => return,
        },
        _ => return,
    };
    *value = mended;
}

fn whole(number: Option<f64>) -> Option<i64> {
    let number = number.filter(|number| number.fract() == 0.0 && number.abs() < 9e15)?;
    format!("{number:.0}").parse().ok()
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    }
}

fn bounds(
    schema: &Value,
    keys: [&str; 2],
    found: usize,
    unit: &str,
    mut wrong: impl FnMut(String),
) {
    let bound =
        |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let [least, most] = keys.map(bound);
    if let Some(least) = least.filter(|least| found < *least) {
        wrong(format!("must have at least {least} {unit}"));
    }
    if let Some(most) = most.filter(|most| found > *most) {
        wrong(format!("must have at most {most} {unit}"));
    }
}

fn range(schema: &Value, found: f64, mut wrong: impl FnMut(String)) {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    if let Some(least) = bound("minimum").filter(|least| found < *least) {
        wrong(format!("must be at least {least}"));
    }
    if let Some(most) = bound("maximum").filter(|most| found > *most) {
        wrong(format!("must be at most {most}"));
    }
}

fn named(at: &str) -> String {
    if at.is_empty() { "the arguments".to_owned() } else { format!("`{at}`") }
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {kind}")
}
