//! Workers that are told to stop: what ends in time ends here, the rest goes on elsewhere at once.
use std::time::{Duration, Instant};

use serde_json::json;
use tests::backend::FaultKind;
use tests::cluster::Cluster;
use tests::database::Database;
use tests::event_log::EventLog;
use tests::gradio::Submission;
use tests::llm::reply::Reply;
use tests::nats::Nats;
use tests::process::wait_until;
use tests::proxy::Proxy;

use crate::approval::deploy;

/// A hand-over takes milliseconds; what waits for the ack wait of two seconds takes longer than this.
const AT_ONCE: Duration = Duration::from_millis(1_500);
/// What the worker takes behind `DRAIN_S` when everything hangs.
const EXIT: Duration = Duration::from_secs(15);
const ANSWER: &str = "one two three four five six seven eight nine ten";

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_ends_within_the_grace_ends_here() {
    let mut cluster = Cluster::start().await;
    let log = EventLog::open(&cluster.nats).await;
    let mut alice = cluster.client("alice");
    cluster.model.on("hello", [Reply::text(ANSWER).every_ms(150)]);
    let turn = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&turn, "stream_token").await;
    cluster.add_worker().await;
    cluster.worker(0).ask_to_stop();
    let ended = alice.finish(&turn).await;
    assert_eq!((ended.status(), ended.text()), (Some("completed"), ANSWER));
    assert!(log.of(&turn).iter().all(|seen| seen.envelope.attempt <= 1));
    let status = cluster.worker(0).ends_within(EXIT).await;
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    log.check(&turn).await;
}

/// Five deploys in the middle of one answer: no pause, no repeated token, and no poison.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_outlives_five_deploys() {
    let mut cluster = Cluster::builder().worker_env("DRAIN_S", "0").start().await;
    let log = EventLog::open(&cluster.nats).await;
    let slow = (0..5).map(|_| Reply::text(ANSWER).every_ms(100).then_hang());
    cluster.model.on("hello", slow.chain([Reply::text(ANSWER)]));
    let mut alice = cluster.client("alice");
    let turn = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    for old in 0..5 {
        cluster.add_worker().await;
        cluster
            .model
            .wait("the attempt", |seen| {
                seen.len() == old + 1 && seen.last().is_some_and(|last| last.chunks_sent > 2)
            })
            .await;
        let told = Instant::now();
        cluster.worker(old).ask_to_stop();
        let attempt = u32::try_from(old).unwrap() + 2;
        let took = log.attempt(&turn, attempt).await - told;
        assert!(took < AT_ONCE, "hand-over {old}: {took:?}");
        let status = cluster.worker(old).ends_within(EXIT).await;
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
    }
    let ended = alice.finish(&turn).await;
    assert_eq!((ended.status(), ended.text()), (Some("completed"), ANSWER), "{:#?}", ended.values);
    assert_eq!(ended.tokens(), ANSWER);
    log.check(&turn).await;
}

/// One call has its outcome in time and one never: neither is made twice, and the outcome that is known is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_under_way_settles_before_the_hand_over() {
    let mut cluster = Cluster::builder().worker_env("DRAIN_S", "0").start().await;
    let log = EventLog::open(&cluster.nats).await;
    cluster.backend.fault("commit", FaultKind::DelayMs(1_500), Some(1));
    cluster.backend.fault("deploy", FaultKind::NeverAnswer, Some(1));
    let commit = Reply::call("commit_changes", json!({"dashboard_id": "42", "message": "m"}));
    cluster.model.on_steps("commit it", [commit, Reply::text("Committed.")]);
    cluster.model.on_steps("deploy it", [deploy(), Reply::text("Deployed.")]);
    let (alice, known) = crate::takeover::confirmed(&cluster, "alice", "commit it").await;
    let (carol, unknown) = crate::takeover::confirmed(&cluster, "carol", "deploy it").await;
    let under_way = || async { cluster.backend.calls().len() == 2 };
    wait_until("both calls", Duration::from_secs(10), under_way).await;
    cluster.worker(0).ask_to_stop();
    cluster.add_worker().await;
    let known_ended = alice.finish(&known).await;
    assert_eq!(known_ended.all("tool_end").len(), 1, "{:#?}", known_ended.values);
    assert_eq!(known_ended.text(), "Committed.");
    let unknown_ended = carol.finish(&unknown).await;
    let error = unknown_ended.one("tool_error");
    assert_eq!(error["code"], "OUTCOME_UNKNOWN", "{:#?}", unknown_ended.values);
    let status = cluster.worker(0).ends_within(EXIT).await;
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    assert_eq!(cluster.backend.effects_of("commit").len(), 1);
    assert_eq!(cluster.backend.calls().len(), 2);
    log.check(&known).await;
    log.check(&unknown).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_hands_over_at_once() {
    let mut cluster = Cluster::builder().worker_env("DRAIN_S", "60").start().await;
    let log = EventLog::open(&cluster.nats).await;
    cluster.model.on("hello", [Reply::text("Hel").then_hang(), Reply::text("Hello.")]);
    let mut alice = cluster.client("alice");
    let turn = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&turn, "stream_token").await;
    cluster.add_worker().await;
    cluster.worker(0).ask_to_stop();
    cluster.worker(0).logs("Draining", 1).await;
    assert_eq!(log.of(&turn).iter().map(|seen| seen.envelope.attempt).max(), Some(1));
    let told = Instant::now();
    cluster.worker(0).ask_to_stop();
    let took = log.attempt(&turn, 2).await - told;
    assert!(took < AT_ONCE, "{took:?}");
    let status = cluster.worker(0).ends_within(EXIT).await;
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    assert_eq!(alice.finish(&turn).await.text(), "Hello.");
}

/// A long ack wait, so that a job which fell between two workers shows.
#[tokio::test(flavor = "multi_thread")]
async fn no_job_falls_between_two_workers() {
    let ack_wait = Duration::from_secs(20);
    let mut cluster = Cluster::builder().workers(3).ack_wait(ack_wait).start().await;
    let log = EventLog::open(&cluster.nats).await;
    let mut clients: Vec<_> = (0..40).map(|n| cluster.client(&format!("user-{n}"))).collect();
    let mut turns = Vec::new();
    for (n, client) in clients.iter_mut().enumerate() {
        if n == 10 || n == 25 {
            cluster.worker(n / 20).ask_to_stop();
        }
        let submitted = Instant::now();
        let turn = client.submit(Submission::new("hello", Some("c1"), None)).await;
        turns.push((turn, submitted));
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    for ((turn, submitted), client) in turns.iter().zip(&clients) {
        assert_eq!(client.finish(turn).await.text(), "Done.");
        let began = log.wait(turn, "attempt", |seen| seen.attempt > 0).await.at;
        assert!(began - *submitted < ack_wait / 2, "{:?}", began - *submitted);
    }
    for old in 0..2 {
        let status = cluster.worker(old).ends_within(EXIT).await;
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
    }
}

/// A worker that reaches a store through the proxy. Nothing can be given back when that is cut; but the process goes,
/// and another worker takes the turn over.
async fn stopped_behind(mut cluster: Cluster, proxy: Proxy, different: &[(&str, &str)]) {
    let log = EventLog::open(&cluster.nats).await;
    cluster.model.on("hello", [Reply::text("Hel").then_hang(), Reply::text("Hello.")]);
    let mut alice = cluster.client("alice");
    let turn = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&turn, "stream_token").await;
    proxy.swallow(true);
    cluster.worker(0).ask_to_stop();
    let status = cluster.worker(0).ends_within(Duration::from_secs(1) + EXIT).await;
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    cluster.add_worker_with(different).await;
    assert_eq!(alice.finish(&turn).await.text(), "Hello.");
    log.check(&turn).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stops_while_nats_is_out_of_reach() {
    let nats = Nats::start().await;
    let proxy = Proxy::start(nats.url().trim_start_matches("nats://")).await;
    let (direct, url) = (nats.url(), format!("nats://127.0.0.1:{}", proxy.port()));
    let builder = Cluster::builder().worker_env("DRAIN_S", "1").workers_reach_nats_at(&url);
    let cluster = builder.start_with(nats).await;
    stopped_behind(cluster, proxy, &[("NATS_URL", &direct)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stops_while_postgres_is_out_of_reach() {
    let database = Database::fresh().await;
    let (proxy, url) = crate::takeover::proxied(&database).await;
    let direct = database.url().to_owned();
    let builder = Cluster::builder().worker_env("DRAIN_S", "1").database(database);
    let cluster = builder.worker_env("DATABASE_URL", &url).start().await;
    stopped_behind(cluster, proxy, &[("DATABASE_URL", &direct)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stops_before_it_is_ready() {
    let mut cluster = Cluster::start().await;
    let unmigrated = Nats::start().await;
    cluster.start_worker_with(&[("NATS_URL", &unmigrated.url())]);
    cluster.worker(1).logs("Not ready", 1).await;
    cluster.worker(1).ask_to_stop();
    let status = cluster.worker(1).ends_within(EXIT).await;
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}
