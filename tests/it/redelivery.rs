//! Workers that die or freeze in the middle of a turn.
use std::time::Duration;

use serde_json::json;
use tests::backend::FaultKind;
use tests::cluster::Cluster;
use tests::gradio::{Client, Submission, turn::Turn};
use tests::llm::reply::Reply;
use tests::nats::Nats;
use tests::proxy::Proxy;

const ANSWER: &str = "one two three four five six seven eight nine ten";

/// Starts a turn whose worker is worker 0, the only one.
async fn under_way(cluster: &Cluster, client: &mut Client) -> String {
    cluster
        .model
        .on("hello", [Reply::text(ANSWER).every_ms(200), Reply::text(ANSWER).every_ms(20)]);
    let event = client.submit(Submission::new("hello", Some("c1"), None)).await;
    client.until(&event, "stream_token").await;
    event
}

async fn ended_well(cluster: &Cluster, turn: &Turn) {
    assert_eq!((turn.status(), turn.text()), (Some("completed"), ANSWER), "{:#?}", turn.values);
    assert_eq!(turn.tokens(), ANSWER);
    assert_eq!(turn.all("turn_end").len(), 1);
    let history = cluster.rest("alice").history("c1").await;
    let texts: Vec<&str> =
        history.iter().filter_map(|message| message["content"].as_str()).collect();
    assert_eq!(texts, ["hello", ANSWER]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_worker_finishes_the_turn_of_a_killed_one() {
    let mut cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    let event = under_way(&cluster, &mut alice).await;
    cluster.kill_worker(0);
    cluster.add_worker().await;
    let turn = alice.finish(&event).await;
    assert_eq!(turn.all("rewind").len(), 1, "{:?}", turn.types());
    ended_well(&cluster, &turn).await;
    assert_eq!(alice.say("c1", "again").await.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_slept_too_long_can_write_nothing() {
    let mut cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    let event = under_way(&cluster, &mut alice).await;
    cluster.worker(0).freeze();
    cluster.add_worker().await;
    let turn = alice.finish(&event).await;
    cluster.worker(0).thaw();
    ended_well(&cluster, &turn).await;
    assert_eq!(alice.say("c1", "again").await.text(), "Done.");
    ended_well_after_all(&cluster).await;
}

async fn ended_well_after_all(cluster: &Cluster) {
    tokio::time::sleep(Duration::from_secs(1)).await;
    let history = cluster.rest("alice").history("c1").await;
    let texts: Vec<&str> =
        history.iter().filter_map(|message| message["content"].as_str()).collect();
    assert_eq!(texts, ["hello", ANSWER, "again", "Done."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reading_call_is_made_again() {
    let mut cluster = Cluster::start().await;
    cluster.backend.fault("search_dashboards", FaultKind::NeverAnswer, Some(1));
    let search = Reply::call("search_dashboards", json!({}));
    cluster.model.on("dashboards", [search, Reply::text("Here.")]);
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("show dashboards", Some("c1"), None)).await;
    called(&cluster, "search_dashboards").await;
    cluster.kill_worker(0);
    cluster.add_worker().await;
    let turn = alice.finish(&event).await;
    assert_eq!(turn.text(), "Here.", "{:#?}", turn.values);
    assert_eq!(turn.all("tool_end").len(), 1);
}

async fn called(cluster: &Cluster, operation: &str) {
    let seen = || async { cluster.backend.calls_of(operation).len() == 1 };
    tests::process::wait_until("the call", Duration::from_secs(10), seen).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_may_have_happened_is_not_repeated() {
    let mut cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    crate::approval::card(&cluster, &mut alice, "c1").await;
    cluster.backend.fault("deploy", FaultKind::NeverAnswer, Some(1));
    let event = alice.submit(Submission::new("", Some("c1"), Some("confirm"))).await;
    called(&cluster, "deploy").await;
    cluster.kill_worker(0);
    cluster.add_worker().await;
    let turn = alice.finish(&event).await;
    assert_eq!(turn.one("tool_error")["code"], "OUTCOME_UNKNOWN", "{:#?}", turn.values);
    assert_eq!(cluster.backend.calls_of("deploy").len(), 1);
    assert_eq!(turn.status(), Some("completed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_outlives_a_restart_of_nats() {
    let mut cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    let event = under_way(&cluster, &mut alice).await;
    cluster.nats.restart().await;
    let turn = alice.finish(&event).await;
    assert_eq!((turn.status(), turn.text()), (Some("completed"), ANSWER), "{:#?}", turn.values);
    assert_eq!(turn.tokens(), ANSWER);
}

/// The last commit gives the lease back before the last event is out, and heartbeats go on in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_given_back_is_no_takeover() {
    let nats = Nats::start().await;
    let proxy = Proxy::start(nats.url().trim_start_matches("nats://")).await;
    let mut cluster = Cluster::builder()
        .workers_reach_nats_at(&format!("nats://127.0.0.1:{}", proxy.port()))
        .worker_env("HEARTBEAT_MS", "50")
        .start_with(nats)
        .await;
    let mut alice = cluster.client("alice");
    cluster.model.on("hello", [Reply::text("one").and_pause(Duration::from_millis(500))]);
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&event, "stream_token").await;
    proxy.delay(Duration::from_millis(200));
    let turn = alice.finish(&event).await;
    assert_eq!((turn.status(), turn.text()), (Some("completed"), "one"), "{:#?}", turn.values);
    let log = std::fs::read_to_string(cluster.worker(0).log()).unwrap();
    assert!(!log.contains("taken this conversation over"), "{log}");
}
