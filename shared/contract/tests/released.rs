//! What was released is still read, and what is written now can be read by what was released: versions run side by
//! side during an upgrade and a rollback. `released/<version>` holds the fixtures of that version, as they were.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of a test")]
use std::fs;
use std::path::{Path, PathBuf};

use contract::control::{Cancel, SessionAnswer, SessionAsk};
use contract::event::Envelope;
use contract::job::Job;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[test]
fn what_was_written_by_a_release_is_read_without_loss() {
    let mut seen = 0;
    for file in released() {
        let folder = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
        let old = read(&file);
        let again = match folder {
            "job" => again::<Job>(&old),
            "event" => again::<Envelope>(&old),
            "control" if old.get("ask").is_some() => again::<SessionAsk>(&old),
            "control" if old.get("answer").is_some() => again::<SessionAnswer>(&old),
            "control" => again::<Cancel>(&old),
            _ => continue,
        };
        let lost = missing(&old, &again, &|old, new| old == new);
        assert_eq!(lost, [""; 0], "{}", file.display());
        seen += 1;
    }
    assert!(seen > 40, "only {seen} messages");
}

/// Whoever knew only the release finds in today's messages all it looks for, of the kind it expects: nothing was
/// removed, renamed or changed in kind. What is new stands beside it and is skipped.
#[test]
fn what_is_written_now_has_all_that_a_release_reads() {
    for file in released() {
        let now = root().join("fixtures").join(relative(&file));
        assert!(now.exists(), "{} is gone", now.display());
        let is_name = file.ends_with("names.json");
        let same = |old: &Value, new: &Value| {
            if is_name { old == new } else { kind(old) == kind(new) }
        };
        let lost = missing(&read(&file), &read(&now), &same);
        assert_eq!(lost, [""; 0], "{}", file.display());
    }
}

fn again<T: DeserializeOwned + Serialize>(value: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(value.clone()).unwrap()).unwrap()
}

/// Paths of what `old` has and `new` has not, or not the same.
fn missing(old: &Value, new: &Value, same: &dyn Fn(&Value, &Value) -> bool) -> Vec<String> {
    let below = |name: &str, old: &Value, new: Option<&Value>| match new {
        None => vec![format!("/{name}")],
        Some(new) => {
            missing(old, new, same).iter().map(|rest| format!("/{name}{rest}")).collect::<Vec<_>>()
        }
    };
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            old.iter().flat_map(|(name, old)| below(name, old, new.get(name))).collect()
        }
        (Value::Array(old), Value::Array(new)) => old
            .iter()
            .enumerate()
            .flat_map(|(index, old)| below(&index.to_string(), old, new.get(index)))
            .collect(),
        (old, new) if same(old, new) => Vec::new(),
        (old, new) => vec![format!(": {old} became {new}")],
    }
}

const fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

fn released() -> Vec<PathBuf> {
    let mut found = vec![root().join("tests/released")];
    let mut files = Vec::new();
    while let Some(path) = found.pop() {
        if path.is_dir() {
            found.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Below the folder of its version.
fn relative(file: &Path) -> PathBuf {
    let below = file.strip_prefix(root().join("tests/released")).unwrap();
    below.components().skip(1).collect()
}

fn read(file: &Path) -> Value {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
