//! Tool calls as servers really send them.
use expect_test::expect;

use super::mock::{DONE, data, delta, finish};
use super::quirks::check;

const CALL: &str = r#"{"tool_calls":[{"index":0,"id":"a1","type":"function","function":{"name":"list_tasks","arguments":"{\"page\":"}}]}"#;
const REST: &str = r#"{"tool_calls":[{"index":0,"function":{"arguments":"2}"}}]}"#;

#[tokio::test]
async fn a_plain_call() {
    let body = [&delta(CALL), &delta(REST), &finish("tool_calls"), DONE].concat();
    check(
        body,
        expect![[r#"
        call list_tasks a1 {"page":2}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn call_without_index() {
    let first = r#"{"tool_calls":[{"id":"a1","type":"function","function":{"name":"list_tasks","arguments":"{\"page\":"}}]}"#;
    let rest = r#"{"tool_calls":[{"function":{"arguments":"2}"}}]}"#;
    check(
        [&delta(first), &delta(rest), &finish("tool_calls"), DONE].concat(),
        expect![[r#"
        call list_tasks a1 {"page":2}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn two_calls_without_index() {
    let both = r#"{"tool_calls":[{"id":"a1","function":{"name":"list_tasks","arguments":"{}"}},{"id":"a2","function":{"name":"list_environments","arguments":"{}"}}]}"#;
    check(
        [&delta(both), &finish("tool_calls"), DONE].concat(),
        expect![[r#"
        call list_tasks a1 {}
        call list_environments a2 {}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn two_calls_at_index_0() {
    let second = CALL.replace("a1", "a2").replace("list_tasks", "get_task_status");
    check(
        [&delta(CALL), &delta(REST), &delta(&second), &delta(REST), &finish("tool_calls"), DONE]
            .concat(),
        expect![[r#"
        call list_tasks a1 {"page":2}
        call get_task_status a2 {"page":2}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn two_calls_at_index_0_without_ids() {
    let call = |name: &str| {
        delta(&format!(
            r#"{{"tool_calls":[{{"index":0,"id":"","function":{{"name":"{name}","arguments":"{{}}"}}}}]}}"#
        ))
    };
    check(
        [&call("list_tasks"), &call("list_tasks"), &call("list_branches"), &finish("stop"), DONE]
            .concat(),
        expect![[r#"
        call list_tasks <fresh> {}
        call list_tasks <fresh> {}
        call list_branches <fresh> {}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn arguments_as_an_object() {
    let call = r#"{"tool_calls":[{"index":0,"id":"a1","function":{"name":"list_tasks","arguments":{"page":2}}}]}"#;
    check(
        [&delta(call), &finish("tool_calls"), DONE].concat(),
        expect![[r#"
        call list_tasks a1 {"page":2}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn arguments_null_or_absent() {
    let calls = r#"{"tool_calls":[{"index":0,"id":"a1","function":{"name":"list_tasks","arguments":null}},{"index":1,"id":"a2","function":{"name":"list_tasks"}}]}"#;
    check(
        [&delta(calls), &finish("tool_calls"), DONE].concat(),
        expect![[r#"
        call list_tasks a1 
        call list_tasks a2 
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn tool_type_is_empty() {
    let call = CALL.replace(r#""type":"function""#, r#""type":"""#);
    check(
        [&delta(&call), &delta(REST), &finish("tool_calls"), DONE].concat(),
        expect![[r#"
        call list_tasks a1 {"page":2}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn name_and_id_repeated_in_every_piece() {
    let rest = CALL.replace(r#""{\"page\":""#, r#""2}""#);
    check(
        [&delta(CALL), &delta(&rest), &finish("tool_calls"), DONE].concat(),
        expect![[r#"
        call list_tasks a1 {"page":2}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_new_id_in_every_piece() {
    let rest =
        r#"{"tool_calls":[{"index":0,"id":"zz","function":{"name":null,"arguments":"2}"}}]}"#;
    check(
        [&delta(CALL), &delta(rest), &finish("tool_calls"), DONE].concat(),
        expect![[r#"
        call list_tasks a1 {"page":2}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn the_same_id_for_two_calls() {
    let calls = r#"{"tool_calls":[{"index":0,"id":"a1","function":{"name":"list_tasks","arguments":"{}"}},{"index":1,"id":"a1","function":{"name":"list_branches","arguments":"{}"}}]}"#;
    check(
        [&delta(calls), &finish("tool_calls"), DONE].concat(),
        expect![[r#"
        call list_tasks a1 {}
        call list_branches <fresh> {}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn malformed_chunk_inside_a_call_is_never_guessed() {
    check(
        [&delta(CALL), &data(r#"{"choices":[{"del"#), &delta(REST), &finish("tool_calls"), DONE]
            .concat(),
        expect![[r#"
        Malformed
    "#]],
    )
    .await;
}

#[tokio::test]
async fn calls_without_finish_reason_need_done() {
    check(
        [&delta(CALL), &delta(REST), DONE].concat(),
        expect![[r#"
        call list_tasks a1 {"page":2}
        ToolCalls
    "#]],
    )
    .await;
    check(
        delta(CALL) + &delta(REST),
        expect![[r#"
        call list_tasks a1 {"page":2}
        Missing
    "#]],
    )
    .await;
}
