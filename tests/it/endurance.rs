//! Ten thousand short turns, each in a session and a conversation of its own, leave nothing behind.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::nats::Nats;
use tests::process::Process;
use tests::{place, token};

const TURNS: usize = 10_000;
/// After so many, pools, caches and allocators have what they need.
const WARM: usize = 1_000;
const AT_ONCE: usize = 32;
/// A leak of 1 KiB per turn would be 9 MiB. An allocator's arenas move by less than this.
const GROWTH_KIB: u64 = 8 * 1024;
/// Idle connections to model and database come and go with the number of turns at once; a leak of one descriptor
/// per hundred turns would be more.
const MORE_DESCRIPTORS: u64 = 2 * AT_ONCE as u64;
/// A closed stream answers for its session for 5 s more.
const SETTLES_WITHIN: Duration = Duration::from_secs(20);

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    memory_kib: u64,
    descriptors: u64,
    threads: u64,
}

/// What NATS keeps for its clients.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    connections: Value,
    subscriptions: Value,
    consumers: Value,
    jobs: Value,
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_turns_leave_nothing_behind() {
    let slots = (2 * AT_ONCE).to_string();
    let builder = Cluster::builder().ack_wait(Duration::from_secs(15));
    let builder = builder.worker_env("WORKER_SLOTS", &slots);
    let builder = builder.worker_env("LOG", "warn").gateway_env("LOG", "warn");
    let mut cluster = builder.start().await;
    cluster.model.forget_requests();
    let fresh = kept(&cluster.nats).await;
    turns(&cluster, WARM).await;
    settle(&cluster.nats, &fresh).await;
    let warm = held(&mut cluster);
    turns(&cluster, TURNS - WARM).await;
    settle(&cluster.nats, &fresh).await;
    let tired = held(&mut cluster);
    for (before, after) in warm.iter().zip(&tired) {
        let grown = after.memory_kib.saturating_sub(before.memory_kib);
        assert!(grown < GROWTH_KIB, "memory: {before:?}, then {after:?}");
        assert!(after.descriptors < before.descriptors + MORE_DESCRIPTORS, "{before:?} {after:?}");
        assert!(after.threads <= before.threads + 4, "threads: {before:?}, then {after:?}");
    }
}

async fn turns(cluster: &Cluster, count: usize) {
    let left = Arc::new(AtomicUsize::new(count));
    let talking = (0..AT_ONCE).map(|number| {
        let (left, base) = (Arc::clone(&left), cluster.url());
        tokio::spawn(async move {
            let (http, user) = (place::http(), token::user(&format!("user-{number}")));
            let take =
                || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
            while take().is_ok() {
                turn(&http, &base, &user).await;
            }
        })
    });
    for talk in talking.collect::<Vec<_>>() {
        talk.await.unwrap();
    }
}

/// Joins, reads to `close_stream` and hangs up, as a stock client does.
async fn turn(http: &reqwest::Client, base: &str, user: &str) {
    let session = uuid::Uuid::new_v4().simple().to_string();
    let data = json!([{"text": "hello", "files": []}, null, null]);
    let body = json!({"data": data, "fn_index": 0, "session_hash": session});
    let join = http.post(format!("{base}/gradio_api/queue/join")).bearer_auth(user).json(&body);
    let joined = join.send().await.unwrap();
    assert_eq!(joined.status(), 200, "{:?}", joined.text().await);
    let url = format!("{base}/gradio_api/queue/data?session_hash={session}");
    let mut stream = http.get(url).bearer_auth(user).send().await.unwrap().bytes_stream();
    let mut text = String::new();
    while !text.contains("close_stream") {
        let piece = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
        text.push_str(&String::from_utf8_lossy(&piece.unwrap().unwrap().unwrap()));
    }
    let completed = text.lines().find(|line| line.contains("process_completed")).unwrap();
    assert!(completed.contains("\"success\":true") && completed.contains("Done."), "{text}");
}

/// Returns when there is nothing but what was there before the first turn.
async fn settle(nats: &Nats, fresh: &Kept) {
    let deadline = Instant::now() + SETTLES_WITHIN;
    loop {
        let left = kept(nats).await;
        if left == *fresh {
            return;
        }
        assert!(Instant::now() < deadline, "at first {fresh:?}, in the end {left:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn kept(nats: &Nats) -> Kept {
    let (subscriptions, jetstream) = (nats.page("/subsz").await, nats.page("/jsz?streams=1").await);
    let streams = jetstream["account_details"][0]["stream_detail"].as_array().unwrap();
    let jobs = streams.iter().find(|stream| stream["name"] == "AGENT_JOBS").unwrap();
    Kept {
        connections: nats.page("/connz").await["num_connections"].clone(),
        subscriptions: subscriptions["num_subscriptions"].clone(),
        consumers: jetstream["consumers"].clone(),
        jobs: jobs["state"]["messages"].clone(),
    }
}

fn held(cluster: &mut Cluster) -> [Held; 2] {
    [of(cluster.gateway(0)), of(cluster.worker(0))]
}

fn of(process: &Process) -> Held {
    let proc = std::path::PathBuf::from(format!("/proc/{}", process.pid()));
    let status = std::fs::read_to_string(proc.join("status")).unwrap();
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    Held {
        memory_kib: line("VmRSS:"),
        descriptors: std::fs::read_dir(proc.join("fd")).unwrap().count() as u64,
        threads: line("Threads:"),
    }
}
