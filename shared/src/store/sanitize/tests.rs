use serde_json::{Value, json};

use super::{json as clean, text};

#[test]
fn nul_is_replaced_in_text_keys_and_strings() {
    assert_eq!(text("a\0b"), "a\u{fffd}b");
    let dirty = json!({"k\0": ["x\0", {"y": "\0"}], "n": 1});
    assert_eq!(*clean(&dirty), json!({"k\u{fffd}": ["x\u{fffd}", {"y": "\u{fffd}"}], "n": 1}));
}

#[test]
fn an_escape_that_is_written_out_stays() {
    assert_eq!(text(r"\u0000"), r"\u0000");
    let literal = json!({"text": r"\u0000"});
    assert_eq!(*clean(&literal), literal);
}

#[test]
fn what_is_stored_can_be_read_however_deep_it_was() {
    let deep = (0..300).fold(json!("core"), |inner, _| Value::Array(vec![inner]));
    let stored = serde_json::to_string(&*clean(&deep)).unwrap();
    assert!(serde_json::from_str::<Value>(&stored).is_ok());
}
