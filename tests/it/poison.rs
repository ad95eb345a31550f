//! Jobs that kill their workers: given up after the third, in the open, whoever dies on the way there.
use std::time::Duration;

use contract::event::Event;
use serde_json::{Value, json};
use tests::backend::FaultKind;
use tests::cluster::Cluster;
use tests::event_log::EventLog;
use tests::gradio::{Client, Submission, turn::Turn};
use tests::llm::reply::Reply;
use tests::nats::Nats;
use tests::process::wait_until;
use tests::proxy::Proxy;

/// Long enough for a worker whose every word to NATS takes its time.
const ACK_WAIT: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_three_workers_is_given_up() {
    let mut cluster = Cluster::start().await;
    let log = EventLog::open(&cluster.nats).await;
    cluster.model.on("hello", (0..5).map(|_| Reply::text("deadly").then_hang()));
    let mut alice = cluster.client("alice");
    let turn = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    for attempt in 1..=3 {
        said(&log, &turn, attempt).await;
        cluster.add_worker().await;
        cluster.kill_worker(usize::try_from(attempt).unwrap() - 1);
    }
    let ended = alice.finish(&turn).await;
    given_up(&cluster, &log, &ended, &turn, "deadly").await;
    assert_eq!(alice.say("c1", "again").await.text(), "Done.");
}

/// The text of an earlier step is kept, too, and no tool stays open on the screen.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_and_said_is_kept() {
    let mut cluster = Cluster::start().await;
    let log = EventLog::open(&cluster.nats).await;
    let search = Reply::text("Looking.").and_call("search_dashboards", json!({}));
    let backup = Reply::text("Saving.").and_call("run_backup", json!({"environment_id": "prod"}));
    cluster.model.on_steps("hello", [search, backup]);
    cluster.backend.fault("start_task", FaultKind::NeverAnswer, None);
    let mut alice = cluster.client("alice");
    let turn = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    let called = || async { cluster.backend.calls_of("start_task").len() == 1 };
    wait_until("the call", Duration::from_secs(10), called).await;
    last_attempt(&cluster).await;
    cluster.add_worker().await;
    cluster.kill_worker(0);
    let ended = alice.finish(&turn).await;
    given_up(&cluster, &log, &ended, &turn, "Looking.\n\nSaving.").await;
    assert_eq!(ended.all("tool_end").len(), 1, "{:#?}", ended.values);
    assert_eq!(ended.one("tool_error")["code"], "OUTCOME_UNKNOWN", "{:#?}", ended.values);
    cluster.backend.clear_faults();
    assert_eq!(alice.say("c1", "again").await.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_behind_the_letter_loses_nothing() {
    let stage = Stage::prepare().await;
    let letter = || async { letters(&stage.cluster).await.len() == 1 };
    wait_until("the letter", Duration::from_secs(20), letter).await;
    stage.goes_on().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_behind_the_commit_loses_nothing() {
    let stage = Stage::prepare().await;
    let pool = stage.cluster.database.pool().await;
    let committed = || async {
        let count = "SELECT count(*) FROM turns WHERE status = 'failed'";
        sqlx::query_scalar::<_, i64>(count).fetch_one(&pool).await.unwrap() == 1
    };
    wait_until("the commit", Duration::from_secs(20), committed).await;
    stage.goes_on().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_behind_the_error_loses_nothing() {
    let stage = Stage::prepare().await;
    let is_error = |seen: &contract::event::Envelope| matches!(seen.event, Event::Error { .. });
    stage.log.wait(&stage.turn, "error", is_error).await;
    stage.goes_on().await;
}

/// A turn whose last attempt has died, and a worker that gives it up, slowly: it sees NATS through a proxy that takes
/// its time.
struct Stage {
    cluster: Cluster,
    log: EventLog,
    alice: Client,
    turn: String,
    _proxy: Proxy,
}

impl Stage {
    async fn prepare() -> Stage {
        let nats = Nats::start().await;
        let proxy = Proxy::start(nats.url().trim_start_matches("nats://")).await;
        let slow = format!("nats://127.0.0.1:{}", proxy.port());
        let mut cluster = Cluster::builder().ack_wait(ACK_WAIT).start_with(nats).await;
        let log = EventLog::open(&cluster.nats).await;
        cluster.model.on("hello", [Reply::text("deadly").then_hang()]);
        let mut alice = cluster.client("alice");
        let turn = alice.submit(Submission::new("hello", Some("c1"), None)).await;
        said(&log, &turn, 1).await;
        last_attempt(&cluster).await;
        cluster.add_worker_with(&[("NATS_URL", &slow)]).await;
        proxy.delay(Duration::from_millis(200));
        cluster.kill_worker(0);
        Stage { cluster, log, alice, turn, _proxy: proxy }
    }

    /// The slow worker dies now, and another one brings the turn to its end.
    async fn goes_on(mut self) {
        self.cluster.kill_worker(1);
        assert!(self.log.of(&self.turn).iter().all(|seen| !seen.envelope.event.is_terminal()));
        self.cluster.add_worker().await;
        let ended = self.alice.finish(&self.turn).await;
        given_up(&self.cluster, &self.log, &ended, &self.turn, "deadly").await;
    }
}

/// The worker of this attempt has written.
async fn said(log: &EventLog, turn: &str, attempt: u32) {
    log.wait(turn, "token", |seen| {
        seen.attempt == attempt && matches!(seen.event, Event::StreamToken { .. })
    })
    .await;
}

/// As if two workers had died before.
async fn last_attempt(cluster: &Cluster) {
    let statement = "UPDATE turns SET attempts = 3 WHERE status = 'running'";
    tests::database::execute(cluster.database.url(), statement).await.unwrap();
}

async fn given_up(cluster: &Cluster, log: &EventLog, ended: &Turn, turn: &str, text: &str) {
    assert_eq!(ended.error_code(), Some("WORKER_CRASHED"), "{:#?}", ended.values);
    assert_eq!((ended.status(), ended.tokens().as_str()), (Some("failed"), text));
    log.check(turn).await;
    let letters = letters(cluster).await;
    assert_eq!(letters.len(), 1, "{letters:#?}");
    let letter = letters[0].to_string();
    assert!(letter.contains(turn), "{letter}");
    assert!(!letter.contains("user_token") && !letter.contains("v1."), "{letter}");
    let history = cluster.rest("alice").history("c1").await;
    let answer = history.iter().find(|message| message["role"] == "assistant").unwrap();
    assert_eq!(answer["content"], text, "{history:#?}");
    let finish = "SELECT finish FROM agent_messages WHERE role = 'assistant' ORDER BY id LIMIT 1";
    let pool = cluster.database.pool().await;
    let finish: String = sqlx::query_scalar(finish).fetch_one(&pool).await.unwrap();
    assert_eq!(finish, "failed");
}

async fn letters(cluster: &Cluster) -> Vec<Value> {
    let context = async_nats::jetstream::new(cluster.nats.client().await);
    let stream = context.get_stream(contract::subject::STREAM_DEAD_LETTERS).await.unwrap();
    let mut letters = Vec::new();
    for sequence in 1..=stream.cached_info().state.last_sequence {
        let letter = stream.get_raw_message(sequence).await.unwrap();
        letters.push(serde_json::from_slice(&letter.payload).unwrap());
    }
    letters
}
