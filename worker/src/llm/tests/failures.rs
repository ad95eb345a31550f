//! Refusals, retries, silence, hanging up.
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};

use super::mock::{DONE, Mock, Reply, Then, data, delta, finish, question, text, transcript};
use crate::llm::{Llm, LlmFailure, Pictures, Piece};

fn good() -> Reply {
    Reply::stream([&text("Hi"), &finish("stop"), DONE].concat())
}

/// The transcript and how often the server was asked.
async fn check(replies: Vec<Reply>, expected: Expect) {
    let mock = Mock::start(replies).await;
    let said = transcript(mock.ask()).await;
    expected.assert_eq(&format!("{said}asked {}\n", mock.requests().len()));
}

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn refusals_of_every_shape_keep_their_status() {
    let refusals = [
        ("400 Bad Request", JSON, r#"{"object":"error","message":"too long","code":400}"#),
        ("404 Not Found", JSON, r#"{"error":"model \"x\" not found, try pulling it first"}"#),
        ("422 Unprocessable Entity", JSON, r#"{"detail":[{"loc":["body","tools"],"msg":"bad"}]}"#),
        (
            "401 Unauthorized",
            JSON,
            r#"{"error":{"message":"Incorrect API key provided: sk-x","code":"invalid_api_key"}}"#,
        ),
        ("403 Forbidden", "content-type: text/html\r\n", "<html><h1>403</h1></html>"),
        ("301 Moved Permanently", "location: http://127.0.0.1:1/\r\n", ""),
    ];
    for (line, headers, body) in refusals {
        check(
            vec![Reply::status(line, headers, body)],
            expect![[r#"
            Unavailable { retry_after: None }
            asked 1
        "#]],
        )
        .await;
    }
}

#[tokio::test]
async fn transient_refusals_are_tried_three_times() {
    let plain = Reply::status("429 Too Many Requests", "content-type: text/plain\r\n", "slow down");
    check(
        vec![plain],
        expect![[r#"
        Unavailable { retry_after: None }
        asked 3
    "#]],
    )
    .await;
    let gateway =
        Reply::status("502 Bad Gateway", "content-type: text/html\r\n", "<html>nginx</html>");
    check(
        vec![gateway.clone(), gateway, good()],
        expect![[r#"
        text "Hi"
        Stop
        asked 3
    "#]],
    )
    .await;
    check(
        vec![Reply::status("500 Internal Server Error", "", ""), good()],
        expect![[r#"
        text "Hi"
        Stop
        asked 2
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_filtered_request_is_a_refusal() {
    for body in [
        r#"{"error":{"message":"The response was filtered","code":"content_filter","innererror":{}}}"#,
        r#"{"error":{"message":"no","type":"content_policy_violation"}}"#,
    ] {
        check(
            vec![Reply::status("400 Bad Request", JSON, body)],
            expect![[r#"
            Refused
            asked 1
        "#]],
        )
        .await;
    }
}

#[tokio::test]
async fn retry_after_is_honoured() {
    let busy = Reply::status("429 Too Many Requests", "retry-after: 1\r\n", "{}");
    let mock = Mock::start(vec![busy, good()]).await;
    assert_eq!(transcript(mock.ask()).await, "text \"Hi\"\nStop\n");
    let asked = mock.requests();
    assert!(asked[1].at - asked[0].at >= Duration::from_secs(1));
}

#[test]
fn retry_after_in_seconds_or_as_a_date() {
    let at = |text: &str| {
        let now = std::time::UNIX_EPOCH + Duration::from_secs(1_445_412_440);
        let headers = [(reqwest::header::RETRY_AFTER, text.parse().unwrap())];
        crate::llm::wire::retry_after(&headers.into_iter().collect(), now)
    };
    assert_eq!(at("3"), Some(Duration::from_secs(3)));
    assert_eq!(at("0.5"), Some(Duration::from_millis(500)));
    assert_eq!(at("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(40)));
    assert_eq!(at("Wed, 21 Oct 2015 07:20:00 GMT"), None);
    assert_eq!(at("-3"), None);
    assert_eq!(at("soon"), None);
}

#[tokio::test]
async fn a_long_retry_after_is_reported_not_waited_for() {
    let busy = Reply::status("429 Too Many Requests", "retry-after: 120\r\n", "{}");
    let mock = Mock::start(vec![busy]).await;
    let mut config = mock.config();
    config.total_timeout = Duration::from_secs(5);
    let mut completion = Llm::new(config).unwrap().stream(&question(), &Pictures::new(), &[]);
    let retry_after = Some(Duration::from_secs(120));
    assert_eq!(completion.next().await, Err(LlmFailure::Unavailable { retry_after }));
    assert_eq!(mock.requests().len(), 1);
}

#[tokio::test]
async fn an_error_object_before_the_first_token_is_tried_again() {
    let failed = Reply::stream(data(r#"{"error":{"message":"overloaded","code":503}}"#));
    check(
        vec![failed, good()],
        expect![[r#"
        text "Hi"
        Stop
        asked 2
    "#]],
    )
    .await;
    check(
        vec![Reply::stream(data(r#"{"error":{"code":400,"message":"bad"}}"#))],
        expect![[r#"
        Unavailable { retry_after: None }
        asked 1
    "#]],
    )
    .await;
    check(
        vec![Reply::stream(data(r#"{"error":{"code":"content_filter"}}"#))],
        expect![[r#"
        Refused
        asked 1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn nothing_is_repeated_after_the_first_token() {
    check(
        vec![Reply::chunked(&text("Hi")).then(Then::Reset), good()],
        expect![[r#"
        text "Hi"
        Unavailable { retry_after: None }
        asked 1
    "#]],
    )
    .await;
    let call = r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}"#;
    check(
        vec![Reply::chunked(&delta(call)).then(Then::Reset), good()],
        expect![[r#"
        Unavailable { retry_after: None }
        asked 1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_reset_before_the_first_token_is_tried_again() {
    check(
        vec![
            Reply { pieces: vec![], then: Then::Reset },
            Reply::chunked(": x\n\n").then(Then::Reset),
            good(),
        ],
        expect![[r#"
        text "Hi"
        Stop
        asked 3
    "#]],
    )
    .await;
}

#[tokio::test]
async fn nobody_listens() {
    let mock = Mock::start(vec![good()]).await;
    let mut config = mock.config();
    drop(mock);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    config.base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let mut completion = Llm::new(config).unwrap().stream(&question(), &Pictures::new(), &[]);
    assert_eq!(completion.next().await, Err(LlmFailure::Unavailable { retry_after: None }));
}

#[tokio::test]
async fn silence_before_the_first_token() {
    for reply in
        [Reply { pieces: vec![], then: Then::Hang }, Reply::stream(": wait\n\n").then(Then::Hang)]
    {
        let mock = Mock::start(vec![reply]).await;
        let mut config = mock.config();
        config.first_token_timeout = Duration::from_millis(200);
        let mut completion = Llm::new(config).unwrap().stream(&question(), &Pictures::new(), &[]);
        let asked = Instant::now();
        assert_eq!(completion.next().await, Err(LlmFailure::Unavailable { retry_after: None }));
        assert!(asked.elapsed() < Duration::from_secs(2));
        assert_eq!(mock.requests().len(), 1);
        mock.hung_up().await;
    }
}

#[tokio::test]
async fn silence_in_the_middle_keeps_the_text() {
    let mock = Mock::start(vec![Reply::stream(text("Hi")).then(Then::Hang)]).await;
    let mut config = mock.config();
    config.idle_timeout = Duration::from_millis(200);
    let completion = Llm::new(config).unwrap().stream(&question(), &Pictures::new(), &[]);
    assert_eq!(transcript(completion).await, "text \"Hi\"\nUnavailable { retry_after: None }\n");
    mock.hung_up().await;
}

#[tokio::test]
async fn an_endless_answer_ends() {
    let mock = Mock::start(vec![Reply::stream(text("Hi")).then(Then::Hang)]).await;
    let mut config = mock.config();
    config.total_timeout = Duration::from_millis(300);
    let completion = Llm::new(config).unwrap().stream(&question(), &Pictures::new(), &[]);
    assert_eq!(transcript(completion).await, "text \"Hi\"\nUnavailable { retry_after: None }\n");
}

#[tokio::test]
async fn dropping_closes_the_socket() {
    let mock = Mock::start(vec![Reply::stream(text("Hi")).then(Then::Hang)]).await;
    let mut completion = mock.ask();
    assert_eq!(completion.next().await, Ok(Piece::Text("Hi".to_owned())));
    let dropped = Instant::now();
    drop(completion);
    mock.hung_up().await;
    assert!(dropped.elapsed() < Duration::from_millis(250), "{:?}", dropped.elapsed());
}

#[tokio::test]
async fn dropping_before_the_headers_closes_the_socket() {
    let mock = Mock::start(vec![Reply { pieces: vec![], then: Then::Hang }]).await;
    let mut completion = mock.ask();
    let waiting = tokio::time::timeout(Duration::from_millis(100), completion.next()).await;
    assert!(waiting.is_err());
    drop(completion);
    mock.hung_up().await;
}

#[tokio::test]
async fn next_is_cancel_safe() {
    let mut reply = Reply::stream("");
    reply.pieces.extend(
        [&text("Привет"), &text(" мир"), &finish("stop"), DONE].concat().bytes().map(|b| vec![b]),
    );
    let mock = Mock::start(vec![reply]).await;
    let mut completion = mock.ask();
    let mut said = String::new();
    loop {
        let Ok(item) = tokio::time::timeout(Duration::from_micros(100), completion.next()).await
        else {
            continue;
        };
        match item.unwrap() {
            Piece::Text(text) => said.push_str(&text),
            Piece::Done(_) => break,
        }
    }
    assert_eq!(said, "Привет мир");
    assert_eq!(mock.requests().len(), 1);
}

#[tokio::test]
async fn a_summary_is_a_whole_text() {
    let mock = Mock::start(vec![good(), Reply::stream([&finish("stop"), DONE].concat())]).await;
    let llm = Llm::new(mock.config()).unwrap();
    let messages = question().messages;
    assert_eq!(llm.complete(&messages, 100).await, Ok("Hi".to_owned()));
    assert_eq!(llm.complete(&messages, 100).await, Err(LlmFailure::Malformed));
    assert_eq!(mock.requests()[0].body["max_tokens"], 100);
}

#[tokio::test]
async fn a_line_without_end_is_cut_off() {
    let mock =
        Mock::start(vec![Reply::stream(format!("{}data: {}", text("Hi"), "x".repeat(3_000_000)))])
            .await;
    assert_eq!(transcript(mock.ask()).await, "text \"Hi\"\nUnavailable { retry_after: None }\n");
}
