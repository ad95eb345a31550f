//! A person asks, the fleet answers: streaming, conversations, several gateways, reattaching.
use std::time::Duration;

use serde_json::json;
use tests::cluster::Cluster;
use tests::gradio::Submission;
use tests::llm::reply::Reply;
use tests::transcript;

const ANSWER: &str = "Привет! Чем могу помочь сегодня?";

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_streams_and_ends_with_the_whole_text() {
    let cluster = Cluster::start().await;
    cluster.model.on("привет", [Reply::text(ANSWER).every_ms(30)]);
    let mut alice = cluster.client("alice");
    let turn = alice.say("c1", "привет").await;
    let expected = format!("tokens {ANSWER:?}\nturn_end completed\nplain {ANSWER:?}");
    assert_eq!(transcript::of(&turn), expected);
    assert!(turn.all("stream_token").len() > 3, "{:#?}", turn.values);
    alice.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_token_does_not_wait_for_the_rest() {
    let cluster = Cluster::start().await;
    cluster
        .model
        .on("slow", [Reply::text("one two three four five six seven eight").every_ms(150)]);
    let turn = cluster.client("alice").say("c1", "slow").await;
    let spread = turn.times[turn.all("stream_token").len() - 1] - turn.times[0];
    assert!(spread > Duration::from_millis(700), "tokens came within {spread:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_value_names_conversation_and_cursor() {
    let cluster = Cluster::start().await;
    let turn = cluster.client("alice").say("my talk", "hello").await;
    let mut last = 0;
    for value in &turn.values {
        let meta = &value["metadata"];
        assert_eq!(meta["conversation_id"], "my talk", "{value}");
        assert_eq!(value["role"], "assistant", "{value}");
        if meta.get("type").is_some() {
            let cursor: u64 = meta["cursor"].as_str().unwrap().parse().unwrap();
            assert!(cursor >= last, "cursors go back in {:#?}", turn.values);
            last = cursor;
            assert_eq!(meta["thread_id"], "my talk", "{value}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_conversation_a_new_one_begins() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    let mut ids = Vec::new();
    for reference in [None, Some("")] {
        let event = alice.submit(Submission::new("hello", reference, None)).await;
        let turn = alice.finish(&event).await;
        let id = turn.values[0]["metadata"]["conversation_id"].as_str().unwrap().to_owned();
        assert_eq!(id.len(), 36, "{id}");
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1]);
    let history = cluster.rest("alice").history(&ids[0]).await;
    assert_eq!(history.len(), 2, "{history:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_the_seeds_are_understood() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    let message = json!({"text": "hello", "files": []});
    let forms = [
        Submission::raw(json!([message, "c1", null])),
        Submission::raw(json!([message])).with("event_data", json!(["c1", null])),
        Submission::raw(json!([message])).with("event_data", json!("c1")),
        Submission::raw(json!([null, "c1", null, "hello", []])),
        Submission::raw(json!(["hello", "c1", null, null, null])),
        Submission::raw(json!([message, null, "c1", null])),
        Submission::raw(json!({"text": "hello", "conversation_id": "c1"})),
    ];
    for form in forms {
        let shown = format!("{form:?}");
        let event = alice.submit(form).await;
        let turn = alice.finish(&event).await;
        assert_eq!(turn.error_code(), None, "{shown}");
        assert_eq!(turn.text(), "Done.", "{shown}");
    }
    let asked = cluster.model.requests();
    assert!(asked.iter().all(|request| request.to_string().contains("hello")));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_submissions_share_one_stream() {
    let cluster = Cluster::start().await;
    cluster.model.on("first", [Reply::text("one one one one one").every_ms(80)]);
    cluster.model.on("second", [Reply::text("two two two two two").every_ms(80)]);
    let mut alice = cluster.client("alice");
    let first = alice.submit(Submission::new("first", Some("c1"), None)).await;
    let second = alice.submit(Submission::new("second", Some("c2"), None)).await;
    let (first, second) = (alice.finish(&first).await, alice.finish(&second).await);
    assert_eq!((first.text(), second.text()), ("one one one one one", "two two two two two"));
    alice.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_opens_late_gets_everything() {
    let cluster = Cluster::start().await;
    cluster.model.on("hello", [Reply::text("a b c d e f").every_ms(20)]);
    let mut alice = cluster.client("alice");
    let (status, answer) = alice.join(Submission::new("hello", Some("c1"), None)).await;
    assert_eq!(status, 200);
    cluster.model.wait("the whole answer", |seen| seen.iter().any(|e| e.finished)).await;
    alice.open_stream();
    let turn = alice.finish(answer["event_id"].as_str().unwrap()).await;
    assert_eq!(turn.text(), "a b c d e f");
    assert_eq!(turn.tokens(), "a b c d e f");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_gateway_serves_any_request() {
    let cluster = Cluster::builder().gateways(2).workers(2).start().await;
    let mut alice = cluster.client("alice");
    for round in 0..6 {
        cluster.model.queue(Reply::text("a b c d e f").every_ms(10));
        let turn = alice.say(&format!("c{round}"), "hello").await;
        assert_eq!(turn.text(), "a b c d e f");
        alice.closed().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_simple_call_streams_and_completes() {
    let cluster = Cluster::start().await;
    let text =
        cluster.client("alice").call(json!([{"text": "hello", "files": []}, "c1", null])).await;
    assert!(text.contains("event: complete"), "{text}");
    assert!(text.contains("Done."), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_not_a_cancel() {
    let cluster = Cluster::start().await;
    cluster.model.on("hello", [Reply::text("one two three four five six").every_ms(100)]);
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&event, "stream_token").await;
    alice.hang_up().await;
    cluster.model.wait("the whole answer", |seen| seen.iter().all(|e| e.finished)).await;
    let mut tab = alice.another_tab();
    let turn = tab.act("c1", "attach", "").await;
    assert_eq!(turn.text(), "one two three four five six");
    assert_eq!(turn.tokens(), "one two three four five six");
    let history = cluster.rest("alice").history("c1").await;
    assert_eq!(history.last().unwrap()["finish"], "completed", "{history:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tab_attaches_to_a_live_turn_through_another_gateway() {
    let cluster = Cluster::builder().gateways(2).start().await;
    cluster.model.on("hello", [Reply::text("a b c d e f g h i j").every_ms(100)]);
    let mut alice = cluster.client_at(0, "alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    let seen = alice.until(&event, "stream_token").await;
    let mut tab = cluster.client_at(1, "alice");
    let whole = tab.act("c1", "attach", "").await;
    assert_eq!(whole.tokens(), "a b c d e f g h i j");
    let mut third = cluster.client_at(1, "alice");
    let rest = third.act("c1", &format!("attach:{}", seen.cursor()), "").await;
    assert!(!rest.tokens().starts_with('a') && rest.tokens().ends_with('j'), "{}", rest.tokens());
    assert_eq!(rest.text(), "a b c d e f g h i j");
    assert_eq!(alice.finish(&event).await.text(), "a b c d e f g h i j");
}

#[tokio::test(flavor = "multi_thread")]
async fn attaching_to_nothing_is_a_clear_error() {
    let cluster = Cluster::start().await;
    let turn = cluster.client("alice").act("never used", "attach", "").await;
    assert_eq!(turn.error_code(), Some("NOT_FOUND"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_busy_is_asked_again() {
    let cluster = Cluster::start().await;
    cluster.model.on(
        "hello",
        [Reply::refusal(429).retry_after(0), Reply::refusal(503), Reply::text("at last")],
    );
    let turn = cluster.client("alice").say("c1", "hello").await;
    assert_eq!(turn.text(), "at last");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_down_is_an_error_without_details() {
    let cluster = Cluster::start().await;
    cluster.model.on("hello", (0..20).map(|_| Reply::refusal(500)));
    let turn = cluster.client("alice").say("c1", "hello").await;
    assert_eq!(turn.error_code(), Some("LLM_UNAVAILABLE"));
    let error = turn.one("error");
    assert_eq!(error["retryable"], true);
    assert!(!error.to_string().contains("model.internal"), "a host leaked: {error}");
    assert_eq!(turn.values.last().unwrap()["metadata"]["type"], "error");
    let next = cluster.client("alice").say("c1", "again").await;
    assert_eq!(next.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_before_the_model_broke_off_is_kept() {
    let cluster = Cluster::start().await;
    let broken = || Reply::text("half an ans").every_ms(20).then_cut();
    cluster.model.on("hello", (0..6).map(|_| broken()));
    let mut alice = cluster.client("alice");
    let turn = alice.say("c1", "hello").await;
    assert_eq!(turn.error_code(), Some("LLM_UNAVAILABLE"));
    assert!(turn.tokens().contains("half an ans"), "{:#?}", turn.values);
    let history = cluster.rest("alice").history("c1").await;
    let last = history.last().unwrap();
    assert_eq!((&last["finish"], last["role"].as_str()), (&json!("failed"), Some("assistant")));
    assert!(last["content"].as_str().unwrap().contains("half an ans"), "{last}");
}
