//! The next worker after one that died, lies frozen, or was cut off: when it begins, and what the old one may still do.
use std::time::{Duration, Instant};

use serde_json::json;
use tests::backend::FaultKind;
use tests::cluster::{Builder, Cluster};
use tests::database::Database;
use tests::event_log::EventLog;
use tests::gradio::{Client, Submission, turn::Turn};
use tests::llm::reply::Reply;
use tests::nats::Nats;
use tests::process::wait_until;
use tests::proxy::Proxy;

use crate::approval::deploy;

/// The harness runs workers with this.
const ACK_WAIT: Duration = Duration::from_secs(2);
/// The promise is one second; the rest is for a machine that has other things to do.
const SLACK: Duration = Duration::from_secs(2);
/// What a frozen worker was about to wait for: longer than it takes to freeze it.
const PAUSE: Duration = Duration::from_secs(3);
const UNPROVED: &str = "can't prove that the turn is its own";

/// Killed at different places between two heartbeats.
#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_begins_when_the_ack_wait_is_over() {
    let mut cluster = Cluster::start().await;
    let log = EventLog::open(&cluster.nats).await;
    cluster.model.on("hello", (0..6).map(|_| Reply::text("Hel").then_hang()));
    let mut turns = Vec::new();
    for n in 0..6 {
        let mut alice = cluster.client(&format!("user-{n}"));
        let turn = alice.submit(Submission::new("hello", Some("c1"), None)).await;
        log.attempt(&turn, 1).await;
        turns.push((alice, turn));
        tokio::time::sleep(Duration::from_millis(90)).await;
    }
    cluster.add_worker().await;
    cluster.kill_worker(0);
    let killed = Instant::now();
    for (alice, turn) in &turns {
        let took = log.attempt(turn, 2).await - killed;
        assert!(took <= ACK_WAIT + SLACK, "{took:?}");
        let ended = alice.finish(turn).await;
        assert_eq!((ended.status(), ended.text()), (Some("completed"), "Done."));
        log.check(turn).await;
    }
}

/// A frozen worker wakes up with a model's and a backend's pause just over: both are asked by its successor only.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_wakes_up_too_late_asks_nobody() {
    let mut cluster = Cluster::start().await;
    let log = EventLog::open(&cluster.nats).await;
    let refusal = Reply::refusal(503).retry_after(PAUSE.as_secs());
    cluster.model.on("model", [refusal, Reply::text("Model.")]);
    let search = Reply::call("search_dashboards", json!({}));
    cluster.model.on_steps("backend", [search, Reply::text("Backend.")]);
    cluster.backend.fault("search_dashboards", FaultKind::BusyFor(PAUSE.as_secs()), Some(1));
    let (mut alice, mut bob) = (cluster.client("alice"), cluster.client("bob"));
    let asks_backend = alice.submit(Submission::new("backend", Some("c1"), None)).await;
    let asked = || async { cluster.backend.calls_of("search_dashboards").len() == 1 };
    let asks_model = bob.submit(Submission::new("model", Some("c1"), None)).await;
    wait_until("the read", Duration::from_secs(10), asked).await;
    cluster.model.wait("both", |seen| seen.len() == 2).await;
    let over = tokio::time::Instant::now() + PAUSE;
    cluster.worker(0).freeze();
    cluster.add_worker().await;
    let (backend, model) = (alice.finish(&asks_backend).await, bob.finish(&asks_model).await);
    assert_eq!((backend.text(), model.text()), ("Backend.", "Model."));
    tokio::time::sleep_until(over).await;
    let before = (cluster.backend.calls().len(), cluster.model.requests().len());
    cluster.worker(0).thaw();
    cluster.worker(0).logs(UNPROVED, 2).await;
    assert_eq!((cluster.backend.calls().len(), cluster.model.requests().len()), before);
    assert_eq!(before.0, 2, "one call each");
    log.check(&asks_backend).await;
    log.check(&asks_model).await;
    assert_eq!(alice.say("c1", "again").await.text(), "Done.");
}

/// Frozen between the journal's intent and the request.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_wakes_up_too_late_changes_nothing() {
    let mut cluster = Cluster::start().await;
    let log = EventLog::open(&cluster.nats).await;
    let mut alice = cluster.client("alice");
    crate::approval::card(&cluster, &mut alice, "c1").await;
    let pause_ms = u64::try_from(PAUSE.as_millis()).unwrap();
    cluster.backend.fault("service_token", FaultKind::DelayMs(pause_ms), Some(1));
    let turn = alice.submit(Submission::new("", Some("c1"), Some("confirm"))).await;
    let pool = cluster.database.pool().await;
    let intent = || async {
        let count = "SELECT count(*) FROM checkpoint_writes WHERE state = 'intent'";
        sqlx::query_scalar::<_, i64>(count).fetch_one(&pool).await.unwrap() == 1
    };
    wait_until("the intent", Duration::from_secs(10), intent).await;
    let over = tokio::time::Instant::now() + PAUSE;
    cluster.worker(0).freeze();
    cluster.add_worker().await;
    let ended = alice.finish(&turn).await;
    assert_eq!(ended.one("tool_error")["code"], "OUTCOME_UNKNOWN", "{:#?}", ended.values);
    tokio::time::sleep_until(over).await;
    cluster.worker(0).thaw();
    cluster.worker(0).logs(UNPROVED, 1).await;
    assert_eq!(alice.say("c1", "again").await.text(), "Done.");
    assert_eq!(cluster.backend.calls_of("deploy").len(), 0);
    log.check(&turn).await;
}

/// Two workers, the first of which reaches one of its stores through a proxy, and two turns of it with a call under
/// way that changes something: one call ends while the store is out of reach, one after the turn is another's.
struct Cut {
    cluster: Cluster,
    log: EventLog,
    proxy: Proxy,
    quick: (Client, String),
    slow: (Client, String),
}

impl Cut {
    async fn prepare(builder: Builder, nats: Nats, proxy: Proxy) -> Cut {
        let cluster = builder.start_with(nats).await;
        let log = EventLog::open(&cluster.nats).await;
        cluster.backend.fault("commit", FaultKind::DelayMs(1_000), Some(1));
        cluster.backend.fault("deploy", FaultKind::DelayMs(6_000), Some(1));
        let commit = Reply::call("commit_changes", json!({"dashboard_id": "42", "message": "m"}));
        cluster.model.on_steps("commit it", [commit, Reply::text("Committed.")]);
        cluster.model.on_steps("deploy it", [deploy(), Reply::text("Deployed.")]);
        let quick = confirmed(&cluster, "alice", "commit it").await;
        let slow = confirmed(&cluster, "carol", "deploy it").await;
        let under_way = || async { cluster.backend.calls().len() == 2 };
        wait_until("both calls", Duration::from_secs(10), under_way).await;
        Cut { cluster, log, proxy, quick, slow }
    }

    /// The successor goes on, in time; both turns as the user saw them.
    async fn taken_over(&mut self, different: &[(&str, &str)]) -> (Turn, Turn) {
        self.proxy.swallow(true);
        let over = Instant::now() + ACK_WAIT;
        self.cluster.add_worker_with(different).await;
        let due = over.max(Instant::now()) + SLACK;
        for turn in [&self.quick.1, &self.slow.1] {
            let began = self.log.attempt(turn, 2).await;
            assert!(began <= due, "{:?} too late", began - due);
        }
        let quick = self.quick.0.finish(&self.quick.1).await;
        let slow = self.slow.0.finish(&self.slow.1).await;
        assert_eq!((quick.status(), slow.status()), (Some("completed"), Some("completed")));
        (quick, slow)
    }

    /// The worker comes back to its senses: it has done nothing in between, and takes turns again.
    async fn healed(mut self) {
        self.proxy.swallow(false);
        self.proxy.cut();
        self.cluster.worker(0).logs(UNPROVED, 2).await;
        let cluster = &self.cluster;
        wait_until("ready", Duration::from_secs(40), || async { cluster.ready_count().await == 3 })
            .await;
        self.cluster.kill_worker(1);
        assert_eq!(self.quick.0.say("c1", "again").await.text(), "Done.");
        for operation in ["commit", "deploy"] {
            assert_eq!(self.cluster.backend.calls_of(operation).len(), 1, "{operation}");
        }
        self.log.check(&self.quick.1).await;
        self.log.check(&self.slow.1).await;
    }
}

/// A proxy to the database, and the address behind it.
pub async fn proxied(database: &Database) -> (Proxy, String) {
    let (server, name) = database.url().rsplit_once('@').unwrap().1.split_once('/').unwrap();
    let proxy = Proxy::start(server).await;
    let url = format!("postgres://postgres@127.0.0.1:{}/{name}", proxy.port());
    (proxy, url)
}

/// A confirmed call, on its way.
pub async fn confirmed(cluster: &Cluster, user: &str, text: &str) -> (Client, String) {
    let mut client = cluster.client(user);
    let asked = client.say("c1", text).await;
    assert!(asked.card().is_some(), "{:#?}", asked.values);
    let turn = client.submit(Submission::new("", Some("c1"), Some("confirm"))).await;
    (client, turn)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_cut_off_nats_alone_gives_its_turns_up() {
    let nats = Nats::start().await;
    let proxy = Proxy::start(nats.url().trim_start_matches("nats://")).await;
    let url = format!("nats://127.0.0.1:{}", proxy.port());
    let direct = nats.url();
    let builder = Cluster::builder().workers_reach_nats_at(&url);
    let mut cut = Cut::prepare(builder, nats, proxy).await;
    let (quick, slow) = cut.taken_over(&[("NATS_URL", &direct)]).await;
    // Postgres could be reached: the next worker finds the outcome there.
    assert_eq!(quick.all("tool_end").len(), 1, "{:#?}", quick.values);
    assert_eq!(slow.one("tool_error")["code"], "OUTCOME_UNKNOWN", "{:#?}", slow.values);
    cut.healed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_cut_off_postgres_alone_gives_its_turns_up() {
    let database = Database::fresh().await;
    let direct = database.url().to_owned();
    let (proxy, url) = proxied(&database).await;
    let builder = Cluster::builder().database(database).worker_env("DATABASE_URL", &url);
    let mut cut = Cut::prepare(builder, Nats::start().await, proxy).await;
    let (quick, slow) = cut.taken_over(&[("DATABASE_URL", &direct)]).await;
    for turn in [quick, slow] {
        assert_eq!(turn.one("tool_error")["code"], "OUTCOME_UNKNOWN", "{:#?}", turn.values);
    }
    cut.healed().await;
}
