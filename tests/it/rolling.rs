//! A deploy: every worker is replaced again and again while fifty conversations go on. Nobody notices.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::cluster::{Builder, Cluster};
use tests::gradio::{Client, turn::Turn};
use tests::llm::reply::Reply;

const CONVERSATIONS: usize = 50;
const WORKERS: usize = 3;
/// One worker is told to stop this often.
const EVERY: Duration = Duration::from_secs(2);
/// A drain of 1 s, and what is handed over.
const STOPS_WITHIN: Duration = Duration::from_secs(8);
/// As in production: a job that was not given back at once would be seen, and a busy machine costs no lease.
const ACK_WAIT: Duration = Duration::from_secs(15);
/// So often each of them stops.
const RESTARTS: usize = 3;
/// Longer than a worker may go on after it was told to stop (`DRAIN_S`), shorter than three restarts.
const LONG: &str = "a stream that goes on for longer than any worker may drain, word for word for word until it ends";

/// What conversations do, in turn.
const PARTS: [Part; 5] = [Part::Plain, Part::Stream, Part::Read, Part::Change, Part::Confirm];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Plain,
    Stream,
    Read,
    Change,
    Confirm,
}

/// With `OTHER_RELEASE` (`tests/mixed.sh`) half of the fleet is that release's, and turns go from one to the other.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_notices_that_all_workers_are_replaced() {
    match tests::place::variable("OTHER_RELEASE") {
        None => replaced(Cluster::builder(), WORKERS, EVERY).await,
        // Slower: the first release took each hand-over of a turn for a death, and gave the turn up at the fifth.
        Some(folder) => {
            replaced(Cluster::builder().every_second_of(folder.into()), 4, 2 * EVERY).await;
        }
    }
}

async fn replaced(builder: Builder, workers: usize, every: Duration) {
    let builder = builder.gateways(2).workers(workers).ack_wait(ACK_WAIT);
    let mut cluster =
        builder.worker_env("DRAIN_S", "1").worker_env("WORKER_SLOTS", "40").start().await;
    script(&cluster);
    let stop = Arc::new(AtomicBool::new(false));
    let conversations = (0..CONVERSATIONS).map(|number| {
        let client = cluster.client_at(number % 2, &format!("user-{number}"));
        tokio::spawn(converse(client, number, Arc::clone(&stop)))
    });
    let conversations: Vec<_> = conversations.collect();
    for restart in 0..workers * RESTARTS {
        let due = Instant::now() + every;
        let worker = restart % workers;
        let status = cluster.worker(worker).stop(STOPS_WITHIN).await;
        assert!(status.success(), "worker {worker} ended with {status}");
        cluster.restart_worker(worker).await;
        tokio::time::sleep_until(due.into()).await;
    }
    stop.store(true, Ordering::SeqCst);
    let mut turns = Vec::new();
    for (number, conversation) in conversations.into_iter().enumerate() {
        let parts = conversation.await.unwrap();
        assert_eq!(stored(&cluster, number).await, expected(&parts), "conversation {number}");
        turns.extend(parts);
    }
    let changes = turns.iter().filter(|part| matches!(part, Part::Change | Part::Confirm)).count();
    let effects = cluster.backend.effects();
    assert_eq!(effects.len(), changes, "effects of {} turns", turns.len());
    let calls = cluster.backend.calls();
    let changing =
        calls.iter().filter(|call| ["start_task", "deploy"].contains(&call.operation.as_str()));
    assert_eq!(changing.count(), changes, "calls that change something");
    assert!(turns.len() > CONVERSATIONS * 3, "only {} turns", turns.len());
}

fn script(cluster: &Cluster) {
    let call = |tool: &str, input: Value| Reply::call(tool, input);
    let deploy = call("deploy_dashboard", json!({"dashboard_id": "42", "environment_id": "prod"}));
    let steps = |first: Reply| [first, Reply::text("All is well.").every_ms(30)];
    let model = &cluster.model;
    model.on_steps("Plain", [Reply::text("All is well.").every_ms(30)]);
    model.on_steps("Stream", [Reply::text(LONG).every_ms(150)]);
    model.on_steps("Read", steps(call("search_dashboards", json!({}))));
    model.on_steps("Change", steps(call("run_validation", json!({"environment_id": "prod"}))));
    model.on_steps("Confirm", steps(deploy));
}

/// Turn after turn, each with the next part, each checked.
async fn converse(mut client: Client, number: usize, stop: Arc<AtomicBool>) -> Vec<Part> {
    let mut done = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let part = PARTS[(number + done.len()) % PARTS.len()];
        let turn = client.say("c", &question(part, done.len())).await;
        if part == Part::Confirm {
            ended(&turn, "interrupted");
            assert!(turn.card().is_some(), "{turn:#?}");
            let confirmed = client.act("c", "confirm", "").await;
            says(&confirmed, answer(part));
        } else {
            says(&turn, answer(part));
        }
        done.push(part);
    }
    done
}

fn question(part: Part, number: usize) -> String {
    format!("{part:?} {number}")
}

fn answer(part: Part) -> &'static str {
    if part == Part::Stream { LONG } else { "All is well." }
}

/// What is to be read of a conversation afterwards.
fn expected(parts: &[Part]) -> Vec<String> {
    let numbered = parts.iter().enumerate();
    numbered
        .flat_map(|(number, part)| [question(*part, number), answer(*part).to_owned()])
        .collect()
}

async fn stored(cluster: &Cluster, number: usize) -> Vec<String> {
    let rows = cluster.rest(&format!("user-{number}")).history("c").await;
    let texts = rows.iter().filter_map(|row| row["content"].as_str());
    texts.filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

fn ended(turn: &Turn, status: &str) {
    assert_eq!(turn.all("turn_end").len(), 1, "{turn:#?}");
    assert_eq!((turn.error_code(), turn.status()), (None, Some(status)), "{turn:#?}");
    assert_eq!(turn.all("tool_error").len(), 0, "{turn:#?}");
}

fn says(turn: &Turn, text: &str) {
    ended(turn, "completed");
    assert_eq!((turn.text(), turn.tokens().as_str()), (text, text), "{turn:#?}");
}
