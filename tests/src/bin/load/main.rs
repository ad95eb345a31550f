//! `make bench`: what the fleet adds to the model's own first token, and what it costs.
//!
//! The same turns (50 tokens at 50 tokens/s) go to the scripted model directly and through gateway, NATS,
//! worker and Postgres; with one conversation, and with 100 at once. Every turn has a session of its own,
//! every conversation a user of its own. One JSON document on standard output.
//!
//! Then the same with 50 conversations, while 20 people send files of 10 MiB. Then the lists of a user with 10,000 conversations, one of them with 5,000 messages.
//!
//! `BENCH_CONVERSATIONS` (100), `BENCH_TURNS` (3, per conversation), `BENCH_SOLO_TURNS` (40),
//! `BENCH_TOKENS` (50), `BENCH_PACE_MS` (20), `BENCH_WORKERS` (2).
#![expect(clippy::disallowed_methods, reason = "tasks of the generator end with its process")]
#![expect(clippy::expect_used, reason = "a generator that can't measure stops")]
mod figures;
mod lists;
mod turns;
mod uploads;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::cluster::Cluster;
use tests::database::Database;
use tests::{place, token};

use figures::{Cost, Sample};
use turns::Target;

struct Plan {
    conversations: u64,
    turns: u64,
    solo_turns: u64,
    tokens: u64,
    pace_ms: u64,
    workers: u64,
}

fn number(name: &str, default: u64) -> u64 {
    place::variable(name).and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::main]
async fn main() {
    let plan = Plan {
        conversations: number("BENCH_CONVERSATIONS", 100),
        turns: number("BENCH_TURNS", 3),
        solo_turns: number("BENCH_SOLO_TURNS", 40),
        tokens: number("BENCH_TOKENS", 50),
        pace_ms: number("BENCH_PACE_MS", 20),
        workers: number("BENCH_WORKERS", 2),
    };
    let slots = (plan.conversations / plan.workers + 16).to_string();
    let mut cluster = Cluster::builder()
        .workers(usize::try_from(plan.workers).expect("a few workers"))
        .worker_env("WORKER_SLOTS", &slots)
        .worker_env("LOG", "warn")
        .gateway_env("LOG", "warn")
        .database(Database::durable().await)
        .start()
        .await;
    cluster.model.follow_demo_rules();
    let direct = Arc::new(Target::Model { url: cluster.model.url().to_owned() });
    let fleet = Arc::new(Target::Gateway { url: cluster.url() });

    run(&fleet, &plan, 1, 3).await;
    let solo_direct = run(&direct, &plan, 1, plan.solo_turns).await;
    let before = Cost::so_far(&mut cluster);
    let solo_fleet = run(&fleet, &plan, 1, plan.solo_turns).await;
    let solo_cost = Cost::so_far(&mut cluster).since(&before);
    let many_direct = run(&direct, &plan, plan.conversations, plan.turns).await;
    let before = Cost::so_far(&mut cluster);
    let many_fleet = run(&fleet, &plan, plan.conversations, plan.turns).await;
    let many_cost = Cost::so_far(&mut cluster).since(&before);

    let uploads = uploads::measure(&mut cluster, &plan).await;
    let lists = lists::measure(&cluster).await;

    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let report = json!({
        "setup": {
            "cores": cores, "gateways": 1, "workers": plan.workers, "tokens_per_turn": plan.tokens,
            "model_tokens_per_second": 1_000 / plan.pace_ms.max(1),
            "note": "load generator and model run on the same cores; starts are spread over the length of one turn",
        },
        "one_conversation": compare(&solo_direct, &solo_fleet, &solo_cost),
        "many_conversations": compare(&many_direct, &many_fleet, &many_cost),
        "uploads": uploads,
        "lists_ms": lists,
    });
    println!("{}", serde_json::to_string_pretty(&report).expect("JSON"));
}

fn compare(direct: &Run, fleet: &Run, cost: &Cost) -> Value {
    let (model, system) = (direct.sample.summary(direct.wall), fleet.sample.summary(fleet.wall));
    let over = |figure: &str, percentile: &str| {
        let of = |summary: &Value| summary[figure][percentile].as_f64().unwrap_or(0.0);
        ((of(&system) - of(&model)) * 100.0).round() / 100.0
    };
    json!({
        "conversations": fleet.conversations,
        "model_alone": model,
        "fleet": system,
        "overhead_ms": {
            "first_token": {"p50": over("first_token_ms", "p50"), "p99": over("first_token_ms", "p99")},
            "turn": {"p50": over("turn_ms", "p50"), "p99": over("turn_ms", "p99")},
        },
        "cpu_ms_per_1000_tokens": cost.per_thousand(fleet.sample.tokens()),
    })
}

struct Run {
    conversations: u64,
    sample: Sample,
    wall: Duration,
}

/// Every conversation does its turns one after the other; the conversations begin spread over one turn.
async fn run(target: &Arc<Target>, plan: &Plan, conversations: u64, turns: u64) -> Run {
    let length = Duration::from_millis(plan.tokens * plan.pace_ms);
    let text = format!("bench {} {}", plan.tokens, plan.pace_ms);
    let started = Instant::now();
    let mut tasks = Vec::new();
    for number in 0..conversations {
        let (target, text) = (Arc::clone(target), text.clone());
        let offset = length.mul_f64(
            f64::from(u32::try_from(number).unwrap_or(0))
                / f64::from(u32::try_from(conversations).unwrap_or(1)),
        );
        let tokens = plan.tokens;
        tasks.push(tokio::spawn(async move {
            tokio::time::sleep(offset).await;
            let user = format!("user-{}", uuid::Uuid::new_v4().simple());
            let caller = turns::Caller::new(&token::user(&user));
            let mut sample = Sample::default();
            for _ in 0..turns {
                sample.add(caller.turn(&target, &text, tokens).await);
            }
            sample
        }));
    }
    let mut sample = Sample::default();
    for task in tasks {
        sample.merge(task.await.expect("a conversation"));
    }
    Run { conversations, sample, wall: started.elapsed() }
}
