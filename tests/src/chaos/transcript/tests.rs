//! What is left of a series of values.
use serde_json::json;

use super::*;

/// Values as `kind:cursor:rest`.
fn screen(values: &[&str]) -> (Vec<String>, String) {
    let mut turn = Turn::default();
    for value in values {
        let mut parts = value.splitn(3, ':');
        let mut part = || parts.next().unwrap_or_default();
        let (kind, cursor, rest) = (part(), part(), part());
        let metadata = json!({
            "type": kind, "cursor": cursor, "token": rest, "to_cursor": rest, "tool_call_id": rest,
            "tool": "t", "input": {}, "output": 1, "code": "C", "status": rest,
        });
        turn.values.push(json!({"role": "assistant", "content": "", "metadata": metadata}));
    }
    let (mut names, mut tokens) = (Names::default(), String::new());
    (fold(&turn, &mut names, &mut tokens), tokens)
}

#[test]
fn text_after_a_rewind_is_gone_and_cards_stay() {
    let values = [
        "stream_token:1:a·1 ",
        "stream_token:2:b·1 ",
        "tool_start:3:x",
        "rewind:4:1",
        "stream_token:5:b·2 ",
        "tool_start:6:x",
        "tool_end:7:x",
        "turn_end:8:completed",
    ];
    let (lines, tokens) = screen(&values);
    let expected =
        [r#"text "a""#, "start call1 t {}", r#"text "b""#, "result call1 1", "end completed"];
    assert_eq!(lines, expected);
    assert_eq!(tokens, "a·1 b·2 ");
}

#[test]
fn text_that_comes_twice_is_seen_twice() {
    let (lines, _) = screen(&["stream_token:1:a·1 ", "stream_token:2:a·2 "]);
    assert_eq!(lines, [r#"text "a a""#]);
}

#[test]
fn the_same_card_twice_is_one_and_another_call_is_another() {
    let values =
        ["tool_start:1:x", "tool_start:2:x", "tool_start:3:y", "tool_end:4:y", "tool_end:5:x"];
    let (lines, _) = screen(&values);
    assert_eq!(lines, ["start call1 t {}", "start call2 t {}", "result call1 1", "result call2 1"]);
}
