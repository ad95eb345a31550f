//! Streams as servers really send them.
use std::borrow::Borrow;

use expect_test::{Expect, expect};

use super::mock::{DONE, Mock, Reply, Then, data, delta, finish, text, transcript};

pub async fn check(body: impl AsRef<[u8]>, expected: impl Borrow<Expect>) {
    check_reply(Reply::stream(body.as_ref()), expected).await;
}

async fn check_reply(reply: Reply, expected: impl Borrow<Expect>) {
    let mock = Mock::start(vec![reply]).await;
    expected.borrow().assert_eq(&transcript(mock.ask()).await);
}

#[tokio::test]
async fn a_plain_answer() {
    let body = [
        &delta(r#"{"role":"assistant","content":""}"#),
        &text("Hel"),
        &text("lo"),
        &finish("stop"),
        DONE,
    ]
    .concat();
    check(
        body,
        expect![[r#"
        text "Hello"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn role_is_empty() {
    check(
        [&delta(r#"{"role":"","content":"Hi"}"#), &finish("stop"), DONE].concat(),
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn id_created_object_and_model_missing() {
    check(
        [&data(r#"{"choices":[{"delta":{"content":"Hi"}}]}"#), &finish("stop"), DONE].concat(),
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn id_created_object_and_model_null() {
    let chunk = r#"{"id":null,"created":null,"object":null,"model":null,"choices":[{"index":null,"delta":{"content":"Hi"}}]}"#;
    check(
        [&data(chunk), &finish("stop"), DONE].concat(),
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn created_is_a_float_and_service_tier_unknown() {
    let chunk = r#"{"id":7,"created":1717.25,"service_tier":"on_demand","choices":[{"index":0.0,"delta":{"content":"Hi"}}]}"#;
    check(
        [&data(chunk), &finish("stop"), DONE].concat(),
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn finish_reason_abort() {
    check(
        [&text("Hi"), &finish("abort"), DONE].concat(),
        expect![[r#"
        text "Hi"
        Missing
    "#]],
    )
    .await;
}

#[tokio::test]
async fn finish_reason_empty() {
    check(
        [&text("Hi"), &finish(""), DONE].concat(),
        expect![[r#"
        text "Hi"
        Missing
    "#]],
    )
    .await;
}

#[tokio::test]
async fn finish_reason_in_capitals_length_and_filter() {
    check(
        [&text("Hi"), &finish("STOP"), DONE].concat(),
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
    check(
        [&text("Hi"), &finish("length"), DONE].concat(),
        expect![[r#"
        text "Hi"
        Length
    "#]],
    )
    .await;
    check(
        [&finish("content_filter"), DONE].concat(),
        expect![[r#"
        ContentFilter
    "#]],
    )
    .await;
}

#[tokio::test]
async fn finish_reason_then_empty_ones() {
    check(
        [&text("Hi"), &finish("stop"), &delta("{}"), &finish(""), DONE].concat(),
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn choices_null_missing_or_empty_and_delta_missing() {
    let body = [
        &data(r#"{"choices":null}"#),
        &data(r#"{"model":"m"}"#),
        &data(r#"{"choices":[]}"#),
        &data(r#"{"choices":[{"index":0}]}"#),
        &data(r#"{"choices":[{"index":0,"delta":null}]}"#),
        &data(r#"{"choices":{}}"#),
        &data("[]"),
        &data("null"),
        &text("Hi"),
        &data(r#"{"choices":[{"finish_reason":"stop"}]}"#),
        DONE,
    ];
    check(
        body.concat(),
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn content_null_beside_thoughts() {
    let body = [
        &delta(r#"{"content":null,"reasoning_content":"Let me think"}"#),
        &delta(r#"{"content":null,"reasoning":"more"}"#),
        &text("<think>kept</think>Hi"),
        &finish("stop"),
        DONE,
    ];
    check(
        body.concat(),
        expect![[r#"
        text "<think>kept</think>Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn content_in_parts() {
    let parts = r#"{"content":[{"type":"thinking","thinking":[{"text":"no"}]},{"type":"text","text":"Hi"}]}"#;
    check(
        [&delta(parts), &finish("stop"), DONE].concat(),
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_refusal_is_shown() {
    check(
        [&delta(r#"{"content":null,"refusal":"I can't."}"#), &finish("stop"), DONE].concat(),
        expect![[r#"
        text "I can't."
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn comments_crlf_ids_and_no_space() {
    let body = [": OPENROUTER PROCESSING\n\n", &text("Hi"), &finish("stop"), DONE].concat();
    let hi = expect![[r#"
        text "Hi"
        Stop
    "#]];
    check(&body, &hi).await;
    check(body.replace('\n', "\r\n"), &hi).await;
    check(body.replace("data: ", "data:"), &hi).await;
    check(body.replace("data: ", "id: 1\nretry: 5\ndata: "), hi).await;
}

#[tokio::test]
async fn pings() {
    let body = [
        "event: ping\ndata: {}\n\n",
        &text("Hi"),
        "event: keepalive\ndata: x\n\n",
        &finish("stop"),
        DONE,
    ];
    check(
        body.concat(),
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn one_event_on_several_data_lines() {
    let body = "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    check(
        body,
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn error_object_after_text_keeps_the_text() {
    let body = text("Hi") + &data(r#"{"error":{"message":"secret stack at 10.0.0.1","code":429}}"#);
    check(
        body,
        expect![[r#"
        text "Hi"
        Unavailable { retry_after: None }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn malformed_chunk_inside_text() {
    check(
        [&text("Hi"), &data(r#"{"choices":[{"del"#), &finish("stop"), DONE].concat(),
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn closed_without_done() {
    check(
        text("Hi") + &finish("stop"),
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn closed_without_finish_reason() {
    check(
        [&text("Hi"), DONE].concat(),
        expect![[r#"
        text "Hi"
        Missing
    "#]],
    )
    .await;
    check(
        text("Hi"),
        expect![[r#"
        text "Hi"
        Missing
    "#]],
    )
    .await;
    check(
        "",
        expect![[r#"
        Missing
    "#]],
    )
    .await;
}

#[tokio::test]
async fn last_event_without_blank_line() {
    let body = [text("Hi").as_str(), finish("stop").trim_end()].concat();
    check(
        body,
        expect![[r#"
        text "Hi"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn reset_in_a_chunked_body() {
    check_reply(
        Reply::chunked(&text("Hi")).then(Then::Reset),
        expect![[r#"
        text "Hi"
        Unavailable { retry_after: None }
    "#]],
    )
    .await;
    check_reply(
        Reply::chunked(&text("Hi")),
        expect![[r#"
        text "Hi"
        Unavailable { retry_after: None }
    "#]],
    )
    .await;
}

#[tokio::test]
async fn leading_bom() {
    let body = ["\u{feff}", &text("Hi"), &finish("stop"), DONE].concat();
    let expected = expect![[r#"
        text "Hi"
        Stop
    "#]];
    check(&body, &expected).await;
    let mut reply = Reply::stream("");
    reply.pieces.extend(body.bytes().map(|byte| vec![byte]));
    check_reply(reply, expected).await;
}

#[tokio::test]
async fn an_invalid_byte_costs_one_character() {
    let mut body = text("Hi X you").into_bytes();
    let at = body.iter().position(|byte| *byte == b'X').unwrap();
    body[at] = 0xff;
    body.extend_from_slice(finish("stop").as_bytes());
    check(
        body,
        expect![[r#"
        text "Hi � you"
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn content_type_missing_or_plain() {
    for kind in ["", "content-type: text/plain; charset=utf-8\r\n"] {
        let body = [&text("Hi"), &finish("stop"), DONE].concat();
        check_reply(
            Reply::status("200 OK", kind, &body),
            expect![[r#"
            text "Hi"
            Stop
        "#]],
        )
        .await;
    }
}

#[tokio::test]
async fn json_or_a_page_in_place_of_a_stream() {
    let json = r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
    let reply = Reply::status("200 OK", "content-type: application/json\r\n", json);
    check_reply(
        reply,
        expect![[r#"
        Malformed
    "#]],
    )
    .await;
    let reply = Reply::status("200 OK", "content-type: text/html\r\n", "<html>Sign in</html>");
    check_reply(
        reply,
        expect![[r#"
        Malformed
    "#]],
    )
    .await;
}
