//! Cancel: fast, partial text kept, only by the one who may.
use std::time::{Duration, Instant};

use serde_json::json;
use tests::backend::FaultKind;
use tests::cluster::Cluster;
use tests::gradio::Submission;
use tests::llm::reply::Reply;

const LONG: &str = "one two three four five six seven eight nine ten";

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_closes_the_models_socket_and_keeps_the_text() {
    let cluster = Cluster::builder().gateways(2).start().await;
    cluster.model.on("hello", [Reply::text(LONG).every_ms(150)]);
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&event, "stream_token").await;
    let cancelled_at = Instant::now();
    alice.cancel(&event).await;
    cluster.model.wait("the hang-up", |seen| seen.iter().any(|e| e.hung_up_at.is_some())).await;
    let hung_up = cluster.model.exchanges()[0].hung_up_at.unwrap() - cancelled_at;
    assert!(hung_up < Duration::from_millis(400), "the socket closed after {hung_up:?}");

    let turn = alice.finish(&event).await;
    assert_eq!(turn.status(), Some("cancelled"), "{:#?}", turn.values);
    assert!(turn.text().starts_with("one") && turn.text().len() < LONG.len(), "{:?}", turn.text());
    assert_eq!(turn.completed.as_ref().unwrap()["success"], true);
    alice.closed().await;
    let history = cluster.rest("alice").history("c1").await;
    let last = history.last().unwrap();
    assert_eq!(
        (last["finish"].as_str(), last["content"].as_str()),
        (Some("cancelled"), Some(turn.text()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_turn_knows_the_partial_text() {
    let cluster = Cluster::start().await;
    cluster
        .model
        .on("hello", [Reply::text("unfinished business of yesterday and more").every_ms(120)]);
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&event, "stream_token").await;
    alice.cancel(&event).await;
    alice.finish(&event).await;
    let next = alice.say("c1", "go on").await;
    assert_eq!(next.text(), "Done.");
    let request = cluster.model.requests().pop().unwrap().to_string();
    assert!(request.contains("unfin"), "{request}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_tool_does_not_delay_a_cancel() {
    let cluster = Cluster::start().await;
    cluster.backend.fault("search_dashboards", FaultKind::NeverAnswer, None);
    cluster.model.on("sales", [Reply::call("search_dashboards", json!({}))]);
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("sales dashboards", Some("c1"), None)).await;
    alice.until(&event, "tool_start").await;
    let cancelled_at = Instant::now();
    alice.cancel(&event).await;
    let turn = alice.finish(&event).await;
    assert_eq!(turn.status(), Some("cancelled"));
    assert!(cancelled_at.elapsed() < Duration::from_secs(1), "{:?}", cancelled_at.elapsed());
    assert_eq!(alice.say("c1", "go on").await.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_pair_of_event_and_session_cancels() {
    let cluster = Cluster::start().await;
    cluster.model.on("hello", [Reply::text("a b c d e f g h").every_ms(100)]);
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&event, "stream_token").await;
    let mut mallory = cluster.client("mallory");
    mallory.cancel(&event).await;
    mallory.set_session(alice.session());
    mallory.cancel(&event).await;
    let turn = alice.finish(&event).await;
    assert_eq!((turn.status(), turn.text()), (Some("completed"), "a b c d e f g h"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_without_a_token_is_that_of_the_stock_client() {
    let cluster = Cluster::start().await;
    cluster.model.on("hello", [Reply::text(LONG).every_ms(150)]);
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&event, "stream_token").await;
    let body = json!({"event_id": event, "session_hash": alice.session(), "fn_index": 0});
    let url = format!("{}/gradio_api/cancel", cluster.url());
    let answer = tests::place::http().post(url).json(&body).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(alice.finish(&event).await.status(), Some("cancelled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_finished_and_repeated_ids_are_answered_alike() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.finish(&event).await;
    for id in [event.as_str(), event.as_str(), "no-such-event", "agent.v1.>", "*"] {
        alice.cancel(id).await;
    }
    assert_eq!(alice.say("c1", "again").await.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_no_worker_has_begun_can_be_cancelled() {
    let mut cluster = Cluster::start().await;
    cluster.worker(0).freeze();
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.cancel(&event).await;
    cluster.worker(0).thaw();
    let turn = alice.finish(&event).await;
    assert_eq!(turn.status(), Some("cancelled"), "{:#?}", turn.values);
    assert_eq!(cluster.model.requests().len(), 0);
}
