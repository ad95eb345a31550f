use serde_json::json;

use super::*;

fn call(text: &str, action: Action, files: Vec<Value>) -> ChatCall {
    ChatCall { text: text.to_owned(), files, action, ..ChatCall::default() }
}

fn file(path: &str, size: u64) -> Value {
    json!({"path": path, "size": size, "meta": {"_type": "gradio.FileData"}})
}

#[test]
fn a_file_that_was_uploaded_again_is_the_same_file() {
    let sent = |file: Value| digest(&call("look", Action::None, vec![file]));
    assert_eq!(sent(file("one/r.csv", 3)), sent(file("two/r.csv", 3)));
    assert_ne!(sent(file("one/r.csv", 3)), sent(file("one/r.csv", 4)));
    assert_ne!(sent(file("one/r.csv", 3)), sent(file("one/s.csv", 3)));
    assert_eq!(sent(json!("one/r.csv")), sent(json!("two/r.csv")));
}

#[test]
fn another_text_or_action_is_something_else() {
    let yes = Action::Confirm { call: None };
    let one = Action::Confirm { call: Some("call-1".to_owned()) };
    let said = [
        call("hi", Action::None, Vec::new()),
        call("hi!", Action::None, Vec::new()),
        call("hi", yes, Vec::new()),
        call("hi", one, Vec::new()),
        call("hi", Action::None, vec![file("one/r.csv", 3)]),
    ];
    let digests: std::collections::BTreeSet<_> = said.iter().map(digest).collect();
    assert_eq!(digests.len(), said.len());
}

/// Without an id, nothing less than the same bytes in the same conversation counts.
#[test]
fn a_repeat_without_an_id_is_the_same_in_everything() {
    let hi = call("hi", Action::None, vec![file("one/r.csv", 3)]);
    let elsewhere = ChatCall { conversation: Some("c".to_owned()), ..hi.clone() };
    let again = call("hi", Action::None, vec![file("two/r.csv", 3)]);
    assert_eq!(canonical(&hi), canonical(&hi.clone()));
    assert_ne!(canonical(&hi), canonical(&elsewhere));
    assert_ne!(canonical(&hi), canonical(&again));
}
