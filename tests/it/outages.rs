//! NATS and Postgres go away and come back, with a turn at every moment of its life: all of them end as if nothing
//! had happened, nothing happens twice, and who submits meanwhile is told so.
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::backend::FaultKind;
use tests::cluster::Cluster;
use tests::database::Database;
use tests::gradio::{Client, Submission, turn::Turn};
use tests::llm::reply::Reply;
use tests::process::wait_until;

/// What goes away, and for how long.
#[derive(Clone, Copy, PartialEq)]
enum Outage {
    Nats(Duration),
    /// Every database connection is cut; new ones are welcome at once.
    Connections,
    Postgres(Duration),
}

/// Where in its life a turn is when the outage begins.
#[derive(Clone, Copy, PartialEq)]
enum Moment {
    Stream,
    Tool,
    /// A card is open; it is confirmed when all is well again.
    Card,
    /// A confirmed call is being executed.
    Decision,
}

struct Act {
    name: &'static str,
    moment: Moment,
    /// The backend's, and the tool that asks for it.
    operation: &'static str,
    /// Whether what is going on ends before the outage does.
    ends_first: bool,
}

const fn act(name: &'static str, moment: Moment, operation: &'static str, ends_first: bool) -> Act {
    Act { name, moment, operation, ends_first }
}

const ACTS: [Act; 9] = [
    act("short-stream", Moment::Stream, "", true),
    act("long-stream", Moment::Stream, "", false),
    act("short-read", Moment::Tool, "search_dashboards", true),
    act("long-read", Moment::Tool, "health_summary", false),
    act("short-change", Moment::Tool, "create_branch", true),
    act("long-change", Moment::Tool, "start_task", false),
    act("open-card", Moment::Card, "deploy", false),
    act("short-decision", Moment::Decision, "commit", true),
    act("long-decision", Moment::Decision, "migrate", false),
];

/// Those of production, which outlast a restart.
const LONG_LEASES: Duration = Duration::from_secs(15);
const SHORT_LEASES: Duration = Duration::from_secs(2);
const ANSWER: &str = "one two three four five six seven eight nine ten eleven twelve";
/// Pieces of the answer.
const PIECES: u32 = 12;
/// Python clients wait so long for the answer to a join.
const JOIN_WITHIN: Duration = Duration::from_secs(5);

fn call(operation: &str, user: &str) -> Reply {
    let (tool, input) = match operation {
        "search_dashboards" => ("search_dashboards", json!({})),
        "health_summary" => ("get_health_summary", json!({})),
        "create_branch" => ("create_branch", json!({"dashboard_id": "42", "name": user})),
        "start_task" => ("run_validation", json!({"environment_id": "prod"})),
        "deploy" => ("deploy_dashboard", json!({"dashboard_id": "42", "environment_id": "prod"})),
        "commit" => ("commit_changes", json!({"dashboard_id": "42", "message": "fix"})),
        _ => (
            "execute_migration",
            json!({"source_env_id": "dev", "target_env_id": "prod", "dashboard_ids": ["42"], "replace_db": false}),
        ),
    };
    Reply::call(tool, input)
}

/// What is to be the same with and without an outage.
#[derive(Debug, PartialEq)]
struct Seen {
    frames: Vec<String>,
    tokens: String,
    text: String,
    history: Vec<(String, String)>,
    effects: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_restart_of_nats() {
    survive(Outage::Nats(Duration::from_millis(300)), LONG_LEASES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_away_for_longer_than_the_ack_wait() {
    survive(Outage::Nats(Duration::from_millis(3_500)), SHORT_LEASES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_database_connection_cut() {
    survive(Outage::Connections, LONG_LEASES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_away_for_longer_than_a_lease() {
    survive(Outage::Postgres(Duration::from_secs(5)), SHORT_LEASES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_away_for_less_than_a_lease() {
    survive(Outage::Postgres(Duration::from_secs(5)), LONG_LEASES).await;
}

async fn survive(outage: Outage, ack_wait: Duration) {
    let database = match outage {
        Outage::Postgres(_) => Database::durable().await,
        Outage::Nats(_) | Outage::Connections => Database::fresh().await,
    };
    let builder = Cluster::builder().workers(2).worker_env("TURNS_PER_USER", "100");
    let mut cluster = builder.ack_wait(ack_wait).database(database).start().await;
    let mut calm = HashMap::new();
    for act in &ACTS {
        let mut played = Playing::new(&cluster, act, "calm");
        played.script(&cluster, Duration::ZERO);
        played.reach_the_moment(&cluster).await;
        calm.insert(act.name, played.end(&cluster).await);
    }
    let mut all = Vec::new();
    for act in &ACTS {
        let playing = Playing::new(&cluster, act, "rough");
        playing.script(&cluster, outage.time_for(act));
        all.push(playing);
    }
    let reaching = all.iter_mut().map(|playing| playing.reach_the_moment(&cluster));
    futures_util::future::join_all(reaching).await;

    let impatient = Impatient::start(&cluster);
    outage.happen(&mut cluster).await;
    let back = || async { cluster.ready_count().await == 3 };
    wait_until("all ready again", Duration::from_secs(20), back).await;
    let ending = all.iter_mut().map(|playing| playing.end(&cluster));
    let ended = futures_util::future::join_all(ending).await;
    for (playing, mut seen) in all.iter().zip(ended) {
        if outage.may_hide_an_outcome(ack_wait) && playing.outcome_unknown {
            assert!(seen.effects <= 1, "{seen:?}");
            seen.effects = calm[playing.act.name].effects;
            seen.frames = seen
                .frames
                .into_iter()
                .map(|frame| frame.replace("tool_error", "tool_end"))
                .collect();
        }
        assert_eq!(seen, calm[playing.act.name], "{}", playing.act.name);
    }
    impatient.was_answered().await;
    for playing in &mut all {
        let next = playing.client.say("c", "and now?").await;
        assert_eq!(next.text(), "Done.", "after {}: {:#?}", playing.act.name, next.values);
    }
}

impl Outage {
    fn time_for(self, act: &Act) -> Duration {
        let down = match self {
            Self::Nats(down) | Self::Postgres(down) => down,
            Self::Connections => Duration::from_millis(600),
        };
        if act.ends_first { down / 2 } else { down + Duration::from_millis(1_200) }
    }

    /// A worker that can't prove its lease and its job for so long stops: what a call did meanwhile stays unknown.
    fn may_hide_an_outcome(self, ack_wait: Duration) -> bool {
        match self {
            Self::Nats(down) | Self::Postgres(down) => down >= ack_wait,
            Self::Connections => false,
        }
    }

    /// From the first moment until the server is back.
    async fn happen(self, cluster: &mut Cluster) {
        match self {
            Self::Nats(down) => {
                cluster.nats.kill();
                let killed = Instant::now();
                if down > Duration::from_secs(1) {
                    self.shows(cluster).await;
                    let (status, answer) = cluster.client("bob").join(message("hello")).await;
                    assert_eq!((status, &answer["code"]), (503, &json!("UNAVAILABLE")), "{answer}");
                }
                tokio::time::sleep(down.saturating_sub(killed.elapsed())).await;
                cluster.nats.start_again().await;
            }
            Self::Connections => cluster.database.terminate_backends().await,
            Self::Postgres(down) => {
                cluster.database.server().unwrap().stop();
                let stopped = Instant::now();
                self.shows(cluster).await;
                unknown_conversations_are_refused(cluster).await;
                tokio::time::sleep(down.saturating_sub(stopped.elapsed())).await;
                cluster.database.server().unwrap().start_again().await;
            }
        }
    }

    /// Nobody says that it is ready.
    async fn shows(self, cluster: &Cluster) {
        let noticed = || async { cluster.ready_count().await == 0 };
        wait_until("nobody ready", Duration::from_secs(4), noticed).await;
    }
}

/// Without the database nobody knows whose they are.
async fn unknown_conversations_are_refused(cluster: &Cluster) {
    let mut client = cluster.client("bob");
    let conversation = uuid::Uuid::new_v4().to_string();
    let turn = client.say(&conversation, "hello").await;
    assert_eq!(turn.error_code(), Some("UNAVAILABLE"), "{:#?}", turn.values);
}

fn message(text: &str) -> Submission {
    Submission::new(text, Some("c"), None)
}

/// One act on the stage.
struct Playing {
    act: &'static Act,
    user: String,
    client: Client,
    event: String,
    outcome_unknown: bool,
}

impl Playing {
    fn new(cluster: &Cluster, act: &'static Act, mood: &str) -> Playing {
        let user = format!("{mood}-{}", act.name);
        let client = cluster.client(&user);
        Playing { act, user, client, event: String::new(), outcome_unknown: false }
    }

    /// What model and backend do; what is going on takes `time`.
    fn script(&self, cluster: &Cluster, time: Duration) {
        let time_ms = u64::try_from(time.as_millis()).unwrap();
        let plain = Reply::text(ANSWER);
        let steps = match self.act.moment {
            Moment::Stream => vec![plain.every_ms(time_ms / u64::from(PIECES))],
            Moment::Tool | Moment::Card | Moment::Decision => {
                vec![call(self.act.operation, &self.user), plain]
            }
        };
        cluster.model.on_steps(&self.user, steps);
        if matches!(self.act.moment, Moment::Tool | Moment::Decision) && !time.is_zero() {
            cluster.backend.fault(self.act.operation, FaultKind::DelayMs(time_ms), Some(1));
        }
    }

    async fn reach_the_moment(&mut self, cluster: &Cluster) {
        let text = format!("do it, {}", self.user);
        let calls = cluster.backend.calls_of(self.act.operation).len();
        self.event = self.client.submit(message(&text)).await;
        match self.act.moment {
            Moment::Stream => {
                self.client.until(&self.event, "stream_token").await;
                return;
            }
            Moment::Tool => {}
            Moment::Card | Moment::Decision => {
                let asked = self.client.finish(&self.event).await;
                assert!(asked.card().is_some(), "{:#?}", asked.values);
                if self.act.moment == Moment::Card {
                    return;
                }
                self.confirm().await;
            }
        }
        let called = || async { cluster.backend.calls_of(self.act.operation).len() > calls };
        wait_until("the call", Duration::from_secs(10), called).await;
    }

    async fn confirm(&mut self) {
        let decision = Submission::new("", Some("c"), Some("confirm"));
        self.event = self.client.submit(decision).await;
    }

    async fn end(&mut self, cluster: &Cluster) -> Seen {
        if self.act.moment == Moment::Card {
            self.confirm().await;
        }
        let turn = self.client.finish(&self.event).await;
        assert_eq!(turn.all("turn_end").len(), 1, "{:#?}", turn.values);
        let history = cluster.rest(&self.user).history("c").await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let history = history
            .iter()
            .map(|row| (text(&row["role"]), text(&row["content"]).replace(&self.user, "")))
            .collect();
        let effects = cluster.backend.effects_of(self.act.operation);
        let effects = effects.iter().filter(|effect| effect.user == self.user).count();
        self.outcome_unknown =
            turn.all("tool_error").iter().any(|e| e["code"] == "OUTCOME_UNKNOWN");
        Seen {
            frames: frames(&turn),
            tokens: turn.tokens(),
            text: turn.text().to_owned(),
            history,
            effects,
        }
    }
}

/// What is left on the screen besides the streamed text: a `rewind` takes back what came after its cursor.
fn frames(turn: &Turn) -> Vec<String> {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
    let mut shown: Vec<(Option<u64>, &str)> = Vec::new();
    for value in &turn.values {
        let meta = &value["metadata"];
        match meta["type"].as_str().unwrap_or("plain") {
            "rewind" => shown.retain(|(cursor, _)| *cursor <= number(&meta["to_cursor"])),
            "stream_token" => {}
            kind => shown.push((number(&meta["cursor"]), kind)),
        }
    }
    shown.into_iter().map(|(_, kind)| kind.to_owned()).collect()
}

/// Submits all the time, always in a new conversation.
struct Impatient {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<(Client, Vec<Joined>)>,
}

struct Joined {
    status: u16,
    answer: Value,
    took: Duration,
}

impl Impatient {
    fn start(cluster: &Cluster) -> Impatient {
        let mut client = cluster.client("impatient");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut joins = Vec::new();
            while !stopped.load(Ordering::SeqCst) {
                let conversation = format!("impatient-{}", joins.len());
                let submission = Submission::new(&conversation, Some(&conversation), None);
                let started = Instant::now();
                let (status, answer) = client.join(submission).await;
                joins.push(Joined { status, answer, took: started.elapsed() });
                if status == 200 {
                    client.open_stream();
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            (client, joins)
        });
        Impatient { stop, task }
    }

    /// Each join was refused in time, or its turn ended.
    async fn was_answered(self) {
        self.stop.store(true, Ordering::SeqCst);
        let (mut client, joins) = self.task.await.unwrap();
        for Joined { status, answer, took } in joins {
            assert!(took < JOIN_WITHIN, "a join took {took:?}: {status} {answer}");
            if status != 200 {
                assert_eq!((status, &answer["code"]), (503, &json!("UNAVAILABLE")), "{answer}");
                continue;
            }
            client.open_stream();
            let turn = client.finish(answer["event_id"].as_str().unwrap()).await;
            let answered = turn.text() == "Done." && turn.all("turn_end").len() == 1;
            assert!(answered || turn.error_code() == Some("UNAVAILABLE"), "{:#?}", turn.values);
        }
    }
}
