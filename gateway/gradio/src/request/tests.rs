use serde_json::json;

use super::*;

#[track_caller]
fn call(body: Value) -> ChatCall {
    let mut body = body;
    body["session_hash"] = json!("s");
    body["fn_index"] = json!(0);
    parse_join(body.to_string().as_bytes()).unwrap().call
}

#[track_caller]
fn refused(body: Value) -> Refused {
    parse_join(body.to_string().as_bytes()).unwrap_err()
}

fn chat(text: &str, conversation: Option<&str>, action: Action) -> ChatCall {
    ChatCall {
        text: text.to_owned(),
        files: Vec::new(),
        conversation: conversation.map(str::to_owned),
        action,
        message_id: None,
    }
}

const CONFIRM: Action = Action::Confirm { call: None };

#[test]
fn arrays_are_the_parameters_in_order() {
    let hi = json!({"text": "hi", "files": []});
    let cases = [
        (json!([hi, "c", "confirm", null, null]), Some("c"), CONFIRM),
        (json!([hi, "c", "confirm"]), Some("c"), CONFIRM),
        (json!([hi, "c", null, null, null]), Some("c"), Action::None),
        (json!([hi, "", "", "", []]), None, Action::None),
        (json!([hi]), None, Action::None),
        (
            json!(["hi", "c", "deny:call-1"]),
            Some("c"),
            Action::Deny { call: Some("call-1".into()) },
        ),
        (json!([hi, null, "confirm", null, null]), None, CONFIRM),
    ];
    for (data, conversation, action) in cases {
        let got = call(json!({ "data": data.clone() }));
        assert_eq!(got, chat("hi", conversation, action), "{data}");
    }
}

#[test]
fn the_fourth_value_is_the_clients_own_id_of_the_message() {
    let hi = json!({"text": "hi", "files": []});
    let empty = json!({"text": "", "files": []});
    let none = Action::None;
    let cases = [
        (json!({"data": [hi, "c", null, "m-1"]}), Some("c"), none.clone()),
        (json!({"data": [hi, "c", null, "m-1", null, null]}), Some("c"), none.clone()),
        (json!({"data": [hi, "c", "confirm", "m-1", "", []]}), Some("c"), CONFIRM),
        (json!({"data": [hi, null, null, "m-1"]}), None, none.clone()),
        (json!({"data": [hi, null, "confirm", "m-1", null, null]}), None, CONFIRM),
        (json!({"data": [empty, "c", null, "m-1", "hi", null]}), Some("c"), none.clone()),
        (json!({"data": [hi, null, "c", null, "m-1"]}), Some("c"), none.clone()),
        (json!({"data": [hi, null, "c", "confirm", "m-1", null]}), Some("c"), CONFIRM),
        (
            json!({"data": {"message": hi, "conversation_id": "c", "client_message_id": "m-1"}}),
            Some("c"),
            none.clone(),
        ),
        (
            json!({"data": [hi, null, null, null, null, null], "event_data": ["c", "confirm", "m-1"]}),
            Some("c"),
            CONFIRM,
        ),
        (
            json!({"data": [hi, "c", null, "m-1"], "event_data": [null, null, "m-2"]}),
            Some("c"),
            none,
        ),
    ];
    for (body, conversation, action) in cases {
        let expected =
            ChatCall { message_id: Some("m-1".to_owned()), ..chat("hi", conversation, action) };
        assert_eq!(call(body.clone()), expected, "{body}");
    }
}

/// A tab that was open before this version came sends the parameters as it once read them.
#[test]
fn five_values_are_what_clients_of_the_version_before_send() {
    let empty = json!({"text": "", "files": []});
    let cases = [
        (json!([empty, null, null, "hi", []]), None, Action::None),
        (json!([empty, "c", "confirm", "hi", null]), Some("c"), CONFIRM),
        (json!([null, "c", null, "hi", null]), Some("c"), Action::None),
    ];
    for (data, conversation, action) in cases {
        let got = call(json!({ "data": data.clone() }));
        assert_eq!(got, chat("hi", conversation, action), "{data}");
    }
    let word = call(json!({"data": [empty, null, null, "confirm", []]}));
    assert_eq!(word, chat("confirm", None, Action::None));
}

#[test]
fn an_id_that_could_be_an_action_is_refused() {
    let longest = "x".repeat(128);
    let join = |id: Value| json!({"data": ["hi", "c", null, id], "session_hash": "s"});
    assert_eq!(call(join(json!(longest))).message_id, Some(longest.clone()));
    assert_eq!(call(join(json!("deny_this"))).message_id, Some("deny_this".to_owned()));
    assert_eq!(call(join(json!(""))).message_id, None);
    let long = longest + "x";
    for id in [long.as_str(), "confirm", " deny:1", "attach:7", "attach:x", "resume", " ", "a\nb"] {
        assert_eq!(refused(join(json!(id))), Refused::MessageId, "{id}");
    }
    let wrong = Refused::WrongType { field: "client_message_id", expected: "a text" };
    assert_eq!(refused(join(json!(7))), wrong);
    assert_eq!(Refused::MessageId.status(), 400);
}

#[test]
fn an_explicit_null_for_the_hidden_state_shifts_the_rest() {
    let hi = json!({"text": "hi", "files": []});
    let cases = [
        (json!([hi, null, "c", "confirm"]), Some("c"), CONFIRM),
        (json!([hi, null, "c", "confirm", null]), Some("c"), CONFIRM),
        (json!([hi, null, "c", null]), Some("c"), Action::None),
        (json!([hi, null, "c", null, null]), Some("c"), Action::None),
        (json!(["hi", null, "c", "deny", []]), Some("c"), Action::Deny { call: None }),
        (json!([hi, null, null, null]), None, Action::None),
        (json!([hi, null, null, "confirm"]), None, CONFIRM),
    ];
    for (data, conversation, action) in cases {
        let got = call(json!({ "data": data.clone() }));
        assert_eq!(got, chat("hi", conversation, action), "{data}");
    }
    let empty = call(json!({"data": ["", null, "c", "attach:7", null]}));
    assert_eq!(empty, chat("", Some("c"), Action::Attach { after: 7 }));
}

#[test]
fn the_third_argument_of_submit_is_read_too() {
    let empty = json!({"text": "", "files": []});
    let hi = json!({"text": "hi", "files": []});
    let cases = [
        (json!([hi, null, null, null, null]), json!(["c", "confirm"]), Some("c"), CONFIRM),
        (json!([empty, null, null, "hi", []]), json!(["c", null]), Some("c"), Action::None),
        (json!(["hi", "d", "confirm", null, null]), json!(["c", "deny"]), Some("d"), CONFIRM),
        (json!([hi, null, null, null, null]), json!("c"), Some("c"), Action::None),
        (json!([hi, "", "", null, null]), json!(["c", ""]), Some("c"), Action::None),
        (json!([hi, null, null, null, null]), json!(7), None, Action::None),
        (json!([hi, null, null, null, null]), json!({"a": 1}), None, Action::None),
        (json!([hi, null, null, null, null]), json!([]), None, Action::None),
        (json!([hi, null, null, null, null]), json!([1, 2]), None, Action::None),
    ];
    for (data, event_data, conversation, action) in cases {
        let got = call(json!({"data": data, "event_data": event_data}));
        assert_eq!(got, chat("hi", conversation, action), "{event_data}");
    }
}

#[test]
fn objects_are_read_by_name() {
    let named = json!({"message": {"text": "hi"}, "conversation_id": "c", "action": "resume"});
    assert_eq!(call(json!({ "data": named })), chat("hi", Some("c"), Action::Resume));
    let flat = json!({"text": "hi", "files": null});
    assert_eq!(call(json!({ "data": flat })), chat("hi", None, Action::None));
    let plain = parse_call(json!({"message": "hi", "conversation_id": "c"}).to_string().as_bytes());
    let expected = PlainCall { session_hash: None, call: chat("hi", Some("c"), Action::None) };
    assert_eq!(plain.unwrap(), expected);
}

#[test]
fn files_come_from_the_message_or_beside_it() {
    let file = json!({"path": "id/a.csv", "meta": {"_type": "gradio.FileData"}});
    let inside = call(json!({"data": [{"text": "hi", "files": [file]}, null, "c", null]}));
    assert_eq!((inside.files, inside.conversation), (vec![file.clone()], Some("c".to_owned())));
    let beside = call(json!({"data": [{"text": "", "files": []}, null, null, "hi", [file]]}));
    assert_eq!((beside.files, beside.text.as_str()), (vec![file], "hi"));
}

#[test]
fn a_word_without_a_meaning_confirms_nothing() {
    for word in ["Confirm", "yes", "b", "resume:1", "confirmed"] {
        let got = call(json!({"data": ["hi", "c", word]}));
        assert_eq!(got, chat("hi", Some("c"), Action::Unknown), "{word}");
    }
    assert_eq!(call(json!({"data": ["hi", "c", " confirm "]})).action, CONFIRM);
}

#[test]
fn text_for_postgres_has_no_nul() {
    assert_eq!(call(json!({"data": ["a\0b"]})).text, "a\u{fffd}b");
}

#[test]
fn refusals_say_what_is_wrong() {
    let wrong = |field, expected| Refused::WrongType { field, expected };
    let join = |data: Value| json!({"data": data, "session_hash": "s", "fn_index": 0});
    assert_eq!(parse_join(b"{").unwrap_err(), Refused::NotJson);
    assert_eq!(parse_join(b"[]").unwrap_err(), wrong("the body", "an object"));
    assert_eq!(refused(json!({"data": [], "fn_index": 0})), Refused::NoSession);
    assert_eq!(refused(json!({"session_hash": 7})), wrong("session_hash", "a text"));
    let long = json!({"session_hash": "x".repeat(129)});
    assert_eq!(refused(long), Refused::SessionTooLong);
    let unknown = json!({"session_hash": "s", "fn_index": 987_654});
    assert_eq!(refused(unknown), Refused::UnknownFunction("987654".to_owned()));
    assert_eq!(refused(join(json!("hi"))), wrong("data", "an array or an object"));
    assert_eq!(refused(join(json!([7]))), wrong("message", "a text or an object"));
    assert_eq!(refused(join(json!([{"text": 7}]))), wrong("message.text", "a text"));
    assert_eq!(refused(join(json!([{"files": "a"}]))), wrong("message.files", "a list"));
    assert_eq!(refused(join(json!(["hi", 7]))), wrong("conversation_id", "a text"));
    assert_eq!(refused(join(json!(["hi", "c", 7]))), wrong("action", "a text"));
    assert_eq!(refused(join(json!(["hi", "c", "attach:x"]))), Refused::Cursor);
    assert_ne!(Refused::NotJson.status(), 422);
}

/// What real clients sent to Gradio 6 (whose `/chat` has a hidden state as second input).
#[test]
fn recorded_requests_mean_what_their_caller_meant() {
    let recorded = include_str!("recorded.jsonl");
    for line in recorded.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let mut body = case["body"].clone();
        body["fn_index"] = json!(0);
        let got = parse_join(body.to_string().as_bytes()).unwrap().call;
        let action = match got.action {
            Action::None => Value::Null,
            Action::Confirm { call: None } => json!("confirm"),
            other @ (Action::Confirm { .. }
            | Action::Deny { .. }
            | Action::Resume
            | Action::Attach { .. }
            | Action::Unknown) => json!(format!("{other:?}")),
        };
        let meant = json!([got.text, got.files.len(), got.conversation, action]);
        assert_eq!(meant, case["meant"], "{}", case["name"]);
    }
}
