use contract::event::{Card, CardCall, Resolution, Timings, Usage};
use contract::ids::ConfirmationId;
use expect_test::{Expect, expect};
use uuid::Uuid;

use super::*;

const PLACE: Place<'_> = Place { cursor: Some(41), conversation: "conv-1" };

#[track_caller]
fn check(event: &Event, expected: Expect) {
    let value = value(event, PLACE).map_or("no value".to_owned(), |value| value.to_string());
    expected.assert_eq(&value);
}

#[test]
fn tokens_carry_their_text_in_the_metadata() {
    let token = Event::StreamToken { token: "При".to_owned() };
    check(
        &token,
        expect![[
            r#"{"role":"assistant","content":"","metadata":{"type":"stream_token","token":"При","cursor":"41","conversation_id":"conv-1","thread_id":"conv-1"}}"#
        ]],
    );
}

#[test]
fn tool_outputs_have_no_path() {
    let end = Event::ToolEnd {
        tool_call_id: "call-1".to_owned(),
        tool: "get_dashboard".to_owned(),
        output: json!({"path": "/d/42", "items": [{"path": "a", "path_": "b"}, {"path": {"path": 7}}]}),
    };
    check(
        &end,
        expect![[
            r#"{"role":"assistant","content":"","metadata":{"type":"tool_end","tool_call_id":"call-1","tool":"get_dashboard","output":{"path_":"/d/42","items":[{"path__":"a","path_":"b"},{"path":{"path":7}}]},"cursor":"41","conversation_id":"conv-1","thread_id":"conv-1"}}"#
        ]],
    );
}

#[test]
fn a_card_belongs_to_the_conversation_as_the_client_knows_it() {
    let call = CardCall {
        tool_call_id: "call-1".to_owned(),
        tool: "deploy_dashboard".to_owned(),
        input: json!({"id": 42}),
        prompt: "Deploy 42?".to_owned(),
    };
    let card = Event::ConfirmRequired(Card {
        confirmation_id: ConfirmationId(Uuid::from_u128(7)),
        prompt: "Deploy 42?".to_owned(),
        thread_id: Uuid::from_u128(9).to_string(),
        calls: vec![call],
        expires_at: "2026-11-30T20:00:00Z".to_owned(),
    });
    check(
        &card,
        expect![[
            r#"{"role":"assistant","content":"","metadata":{"type":"confirm_required","confirmation_id":"00000000-0000-0000-0000-000000000007","prompt":"Deploy 42?","thread_id":"conv-1","calls":[{"tool_call_id":"call-1","tool":"deploy_dashboard","input":{"id":42},"prompt":"Deploy 42?"}],"expires_at":"2026-11-30T20:00:00Z","cursor":"41","conversation_id":"conv-1"}}"#
        ]],
    );
}

#[test]
fn errors_say_whether_to_try_again() {
    let error = Event::Error {
        code: ErrorCode::ConversationBusy,
        detail: "Busy.".to_owned(),
        extra: Some(json!({"turn_id": "t", "code": "mine"})),
    };
    check(
        &error,
        expect![[
            r#"{"role":"assistant","content":"","metadata":{"type":"error","code":"CONVERSATION_BUSY","detail":"Busy.","retryable":true,"turn_id":"t","cursor":"41","conversation_id":"conv-1","thread_id":"conv-1"}}"#
        ]],
    );
}

#[test]
fn other_events_are_their_fields() {
    let resolved = Event::ConfirmResolved {
        confirmation_id: ConfirmationId(Uuid::from_u128(7)),
        result: Resolution::Denied,
        reason: None,
        tool_call_ids: vec!["call-1".to_owned()],
    };
    check(
        &resolved,
        expect![[
            r#"{"role":"assistant","content":"","metadata":{"type":"confirm_resolved","confirmation_id":"00000000-0000-0000-0000-000000000007","result":"denied","tool_call_ids":["call-1"],"cursor":"41","conversation_id":"conv-1","thread_id":"conv-1"}}"#
        ]],
    );
    let rewind = Event::Rewind { to_cursor: "17".to_owned() };
    check(
        &rewind,
        expect![[
            r#"{"role":"assistant","content":"","metadata":{"type":"rewind","to_cursor":"17","cursor":"41","conversation_id":"conv-1","thread_id":"conv-1"}}"#
        ]],
    );
    check(
        &Event::Message { content: "whole".to_owned() },
        expect![[
            r#"{"role":"assistant","content":"whole","metadata":{"cursor":"41","conversation_id":"conv-1","thread_id":"conv-1"}}"#
        ]],
    );
    check(&Event::Attempt { attempt: 1, worker: "w".to_owned() }, expect!["no value"]);
}

#[test]
fn a_turn_ends_with_numbers_if_there_are_any() {
    let mut end = TurnEnd { status: TurnStatus::Completed, text: None, usage: None, timings: None };
    assert_eq!(turn_end(&end, PLACE), None);
    end.usage = Some(Usage { input_tokens: 1, output_tokens: 2, steps: 1 });
    end.timings = Some(Timings { queue_ms: 1, first_token_ms: None, total_ms: 3 });
    expect![[r#"{"role":"assistant","content":"","metadata":{"type":"turn_end","status":"completed","usage":{"input_tokens":1,"output_tokens":2,"steps":1},"timings":{"queue_ms":1,"total_ms":3},"cursor":"41","conversation_id":"conv-1","thread_id":"conv-1"}}"#]].assert_eq(&turn_end(&end, PLACE).unwrap().to_string());
    let closing = closing("Hi.", TurnId(Uuid::from_u128(5)), TurnStatus::Completed, PLACE);
    expect![[r#"{"role":"assistant","content":"Hi.","metadata":{"turn_id":"00000000-0000-0000-0000-000000000005","status":"completed","cursor":"41","conversation_id":"conv-1","thread_id":"conv-1"}}"#]].assert_eq(&closing.to_string());
}
