//! What an operator sees and does, on a real fleet.
mod dead_letters;
mod doctor;

use std::time::Duration;

use serde_json::Value;
use tests::agentctl::Agentctl;
use tests::cluster::Cluster;
use tests::gradio::{Client, Submission};
use tests::llm::reply::Reply;
use tests::process::wait_until;

const ANSWER: &str = "one two three four five six seven eight nine ten";

async fn streaming(client: &mut Client, conversation: &str) -> String {
    let event = client.submit(Submission::new("tell me", Some(conversation), None)).await;
    client.until(&event, "stream_token").await;
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_and_what_waits_is_listed() {
    let cluster = Cluster::builder().worker_env("WORKER_SLOTS", "1").start().await;
    let agentctl = cluster.agentctl();
    let (mut alice, mut bob) = (cluster.client("alice"), cluster.client("bob"));
    crate::approval::card(&cluster, &mut alice, "deploying").await;
    cluster.model.on("tell me", [Reply::text(ANSWER).then_hang(), Reply::text(ANSWER)]);
    let running = streaming(&mut alice, "c1").await;
    let waiting = bob.submit(Submission::new("tell me", Some("c2"), None)).await;
    let queued = || async {
        let seen = agentctl.json(&["turns"]).await;
        seen["waiting"].as_array().unwrap().len() == 1
    };
    wait_until("the second job waits", Duration::from_secs(20), queued).await;

    let seen = agentctl.json(&["turns"]).await;
    let (turn, job) = (&seen["turns"][0], &seen["waiting"][0]);
    assert_eq!(seen["turns"].as_array().unwrap().len(), 1, "{seen:#}");
    assert_eq!((&turn["turn_id"], &turn["user_id"]), (&running.as_str().into(), &"alice".into()));
    assert_eq!((&turn["worker"], &turn["status"]), (&"worker-0".into(), &"running".into()));
    assert_eq!((&turn["attempt"], &turn["kind"]), (&1.into(), &"message".into()));
    assert!((1..=2_000).contains(&turn["lease_left_ms"].as_i64().unwrap()), "{turn:#}");
    assert_eq!((&job["turn_id"], &job["user_id"]), (&waiting.as_str().into(), &"bob".into()));
    assert_eq!((&seen["cards"]["open"], seen["cards"]["oldest_at"].is_string()), (&1.into(), true));

    let text = agentctl.run(&["turns"]).await.ok();
    assert!(text.contains("running") && text.contains("queued"), "{text}");
    assert!(text.contains("1 card open"), "{text}");
    assert!(!text.contains("tell me") && !text.contains("v1."), "{text}");
    let of_bob = agentctl.json(&["turns", "--user", "bob"]).await;
    assert_eq!((count(&of_bob, "turns"), count(&of_bob, "waiting")), (0, 1), "{of_bob:#}");
    let named = ["turns", "--user", "alice", "--conversation", "c1"];
    let of_c1 = agentctl.json(&named).await;
    assert_eq!((count(&of_c1, "turns"), &of_c1["cards"]["open"]), (1, &0.into()), "{of_c1:#}");

    let leases = agentctl.json(&["leases"]).await;
    let lease = &leases["leases"][0];
    assert_eq!((&lease["turn_id"], &lease["owner"]), (&turn["turn_id"], &"worker-0".into()));
    assert_eq!(lease["stale"], false);
    let workers = agentctl.json(&["workers"]).await;
    let worker = &workers["workers"][0];
    assert_eq!((&worker["worker"], &worker["slots"]), (&"worker-0".into(), &1.into()));
    assert_eq!((&worker["running"], &worker["draining"]), (&1.into(), &false.into()));

    alice.cancel(&running).await;
    alice.finish(&running).await;
    bob.finish(&waiting).await;
    idle(&agentctl).await;
}

fn count(seen: &Value, key: &str) -> usize {
    seen[key].as_array().unwrap().len()
}

async fn idle(agentctl: &Agentctl) {
    let nothing = || async {
        let seen = agentctl.json(&["turns"]).await;
        count(&seen, "turns") + count(&seen, "waiting") == 0
    };
    wait_until("nothing runs", Duration::from_secs(20), nothing).await;
}

/// The worker that runs the only turn.
async fn owner(agentctl: &Agentctl) -> (usize, String) {
    let seen = agentctl.json(&["turns"]).await;
    let name = seen["turns"][0]["worker"].as_str().unwrap().to_owned();
    (name.trim_start_matches("worker-").parse().unwrap(), name)
}

async fn exits_well(cluster: &mut Cluster, worker: usize) {
    let process = cluster.worker(worker);
    let mut status = None;
    let gone = || {
        status = process.exited();
        std::future::ready(status.is_some())
    };
    wait_until("the end of the worker", Duration::from_secs(20), gone).await;
    assert!(status.unwrap().success(), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_finishes_its_turn_and_leaves() {
    let mut cluster = Cluster::builder().workers(2).worker_env("DRAIN_S", "30").start().await;
    let agentctl = cluster.agentctl();
    cluster.model.on("tell me", [Reply::text(ANSWER).every_ms(200)]);
    let mut alice = cluster.client("alice");
    let event = streaming(&mut alice, "c1").await;
    let (worker, name) = owner(&agentctl).await;
    let told = agentctl.run(&["drain", &name]).await.ok();
    assert_eq!(told.trim(), format!("{name} stopped: 1 turns ended there, 0 handed over"));
    exits_well(&mut cluster, worker).await;
    let turn = alice.finish(&event).await;
    assert_eq!((turn.status(), turn.text()), (Some("completed"), ANSWER), "{:#?}", turn.values);
    assert_eq!(turn.all("rewind").len(), 0, "{:?}", turn.types());
    // The other one goes on.
    assert_eq!(alice.say("c1", "again").await.text(), "Done.");

    let unknown = agentctl.run(&["drain", "worker-9"]).await.refused();
    let other = format!("worker-{}", 1 - worker);
    assert_eq!(
        unknown,
        format!("agentctl: no worker called `worker-9` answers; those that do: {other}")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_hands_over_what_does_not_end() {
    let mut cluster = Cluster::builder().workers(2).worker_env("DRAIN_S", "1").start().await;
    let agentctl = cluster.agentctl();
    let slow = Reply::text(ANSWER).every_ms(50).then_hang();
    cluster.model.on("tell me", [slow, Reply::text(ANSWER)]);
    let mut alice = cluster.client("alice");
    let event = streaming(&mut alice, "c1").await;
    let (worker, name) = owner(&agentctl).await;
    let drained = agentctl.json(&["drain", &name, "--wait", "40"]).await;
    assert_eq!((&drained["outcome"], &drained["handed_over"]), (&"stopped".into(), &1.into()));
    exits_well(&mut cluster, worker).await;
    let turn = alice.finish(&event).await;
    assert_eq!((turn.status(), turn.text()), (Some("completed"), ANSWER), "{:#?}", turn.values);
    assert_eq!(turn.all("turn_end").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_takes_long_is_said_to() {
    let cluster = Cluster::builder().worker_env("DRAIN_S", "30").start().await;
    let agentctl = cluster.agentctl();
    cluster.model.on("tell me", [Reply::text(ANSWER).every_ms(50).then_hang()]);
    let mut alice = cluster.client("alice");
    let event = streaming(&mut alice, "c1").await;
    let told = agentctl.run(&["drain", "worker-0", "--wait", "0"]).await;
    assert_eq!((told.code, told.err.as_str()), (1, ""), "{told:?}");
    assert_eq!(told.out.trim(), "worker-0 still drains after 0s, with 1 turns running");
    let workers = agentctl.run(&["workers"]).await.ok();
    assert!(workers.contains("draining"), "{workers}");
    alice.cancel(&event).await;
    alice.finish(&event).await;
}
