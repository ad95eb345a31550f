//! The doctor on a healthy fleet, and with one thing broken after the other.
use std::time::{Duration, Instant};

use contract::subject;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tests::agentctl::Agentctl;
use tests::cluster::Cluster;
use tests::place;

/// What the doctor finds: the lines without the count at the end.
async fn findings(agentctl: &Agentctl) -> Vec<String> {
    let answer = agentctl.run(&["doctor"]).await;
    assert_eq!(answer.err, "", "{answer:?}");
    let mut lines: Vec<String> = answer.out.lines().map(str::to_owned).collect();
    let last = lines.pop().unwrap();
    assert_eq!(answer.code == 0, last == "nothing to change", "{answer:?}");
    assert_eq!(answer.code == 0, lines.is_empty(), "{answer:?}");
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_nothing_in_a_healthy_fleet_and_each_thing_in_a_sick_one() {
    let cluster = Cluster::builder().workers(2).start().await;
    let agentctl = cluster.agentctl();
    assert_eq!(findings(&agentctl).await, [""; 0]);
    let verbose = agentctl.run(&["doctor", "--verbose"]).await.ok();
    assert!(
        verbose.lines().count() > 15 && verbose.contains("ok     2 workers answer"),
        "{verbose}"
    );
    for secret in [tests::token::SECRET, tests::cluster::SEAL_KEY, "secret"] {
        assert!(!verbose.contains(secret), "{verbose}");
    }

    let told = [
        (
            agentctl.with("ACK_WAIT_MS", "3000"),
            "error  consumer workers has an ack wait of 2000 ms, ACK_WAIT_MS here is 3000; \
            set ACK_WAIT_MS alike everywhere, then run `gateway migrate`",
        ),
        (
            agentctl.with("JWT_SECRET", "too-short"),
            "error  JWT_SECRET: has less than 32 bytes; set JWT_SECRET anew",
        ),
        (
            agentctl.with("SEAL_KEY", "bm90LTMyLWJ5dGVz"),
            "error  SEAL_KEY: a sealing key must be 32 bytes in base64; set SEAL_KEY anew",
        ),
        (
            agentctl.without("SERVICE_CLIENT_SECRET"),
            "warn   SERVICE_CLIENT_SECRET is not set here and was not checked; \
            run the doctor with the variables of gateway and worker",
        ),
        (
            agentctl.with("TERMINATION_GRACE_S", "19"),
            "error  TERMINATION_GRACE_S=19 kills workers that still drain (DRAIN_S=5); \
            raise the orchestrator's grace to 20 s, or lower DRAIN_S",
        ),
        (
            agentctl.with("LEASE_MS", "2500"),
            "error  LEASE_MS=2500 is longer than ACK_WAIT_MS=2000: a redelivered job waits for the lease; \
            set LEASE_MS to at most 2000",
        ),
    ];
    for (told, expected) in told {
        assert_eq!(findings(&told).await, [expected]);
    }
    missing_parts(&cluster, &agentctl).await;
}

async fn missing_parts(cluster: &Cluster, agentctl: &Agentctl) {
    let pool = cluster.database.pool().await;
    let forget = "UPDATE _sqlx_migrations SET version = version + 9000 WHERE version = 4";
    sqlx::query(forget).execute(&pool).await.unwrap();
    let expected = ["error  migration 4 (confirmations) is not applied; run `gateway migrate`"];
    assert_eq!(findings(agentctl).await, expected);
    let remember = "UPDATE _sqlx_migrations SET version = version - 9000 WHERE version = 9004";
    sqlx::query(remember).execute(&pool).await.unwrap();

    let client = cluster.nats.client().await;
    let context = async_nats::jetstream::new(client.clone());
    let letter = json!({"v": 1, "reason": "a test", "job": {}}).to_string();
    let to = subject::DEAD_LETTERS_ALL.replace('*', &uuid::Uuid::nil().to_string());
    context.publish(to, letter.into()).await.unwrap().await.unwrap();
    let found = findings(agentctl).await;
    assert!(
        found.len() == 1 && found[0].starts_with("warn   1 dead letter waits, for "),
        "{found:?}"
    );
    agentctl.run(&["dlq", "discard", "1", "--yes"]).await.ok();

    let skewed = skewed_worker(client).await;
    let found = findings(agentctl).await;
    let clock = "error  the clock of worker skewed is ";
    let ahead =
        " s ahead of that of Postgres; let NTP set the clocks; jobs and tokens expire by them";
    assert!(
        found.len() == 1 && found[0].starts_with(clock) && found[0].ends_with(ahead),
        "{found:?}"
    );
    skewed.abort();
    let _ = skewed.await;
    assert_eq!(findings(agentctl).await, [""; 0]);

    context.delete_stream(subject::STREAM_CONTROL).await.unwrap();
    let expected = ["error  stream AGENT_CTL is missing; run `gateway migrate`"];
    assert_eq!(findings(agentctl).await, expected);
}

/// Answers as the others do, with a clock 30 seconds ahead.
async fn skewed_worker(client: async_nats::Client) -> tokio::task::JoinHandle<()> {
    let settings = json!({"ack_wait_ms": 2_000, "lease_ms": 2_000, "heartbeat_ms": 500, "drain_ms": 5_000,
        "database_pool": 16});
    let mut asks = client.subscribe(subject::WORKERS).await.unwrap();
    // An answer to something later: the server knows the subscription.
    async_nats::jetstream::new(client.clone()).query_account().await.unwrap();
    tokio::spawn(async move {
        while let Some(ask) = asks.next().await {
            let clock = time::OffsetDateTime::now_utc() + Duration::from_secs(30);
            let clock = clock.format(&time::format_description::well_known::Rfc3339).unwrap();
            let answer = json!({"answer": "report", "worker": "skewed", "version": env!("CARGO_PKG_VERSION"),
                "slots": 8, "running": 0, "draining": false, "started_at": clock, "clock": clock,
                "settings": settings});
            client.publish(ask.reply.unwrap(), answer.to_string().into()).await.unwrap();
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_down_is_said_in_seconds() {
    let mut cluster = Cluster::start().await;
    let agentctl = cluster.agentctl();
    let nobody = format!("127.0.0.1:{}", place::free_port());
    let without_nats = agentctl.with("NATS_URL", &format!("nats://{nobody}"));
    let without_database = agentctl.with("DATABASE_URL", &format!("postgres://x@{nobody}/x"));
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = format!("nats://{}", mute.local_addr().unwrap());
    let commands: [&[&str]; 4] = [&["turns"], &["workers"], &["dlq"], &["drain", "worker-0"]];
    for agentctl in [&without_nats, &agentctl.with("NATS_URL", &mute)] {
        for command in commands {
            let started = Instant::now();
            let refused = agentctl.run(command).await.refused();
            assert!(refused.starts_with("agentctl: connecting to NATS"), "{command:?}: {refused}");
            // Four seconds are what is allowed; the rest is for a busy machine.
            assert!(
                started.elapsed() < Duration::from_secs(15),
                "{command:?}: {:?}",
                started.elapsed()
            );
        }
    }
    for command in [&["turns"], &["leases"]] {
        let refused = without_database.run(command).await.refused();
        assert!(refused.starts_with("agentctl: connecting to Postgres"), "{refused}");
    }
    let found = findings(&without_nats).await;
    assert!(
        found.len() == 1 && found[0].starts_with("error  NATS can't be reached: "),
        "{found:?}"
    );
    let found = findings(&without_database).await;
    assert!(
        found.len() == 1 && found[0].starts_with("error  Postgres can't be reached: "),
        "{found:?}"
    );

    let unset = agentctl.without("DATABASE_URL").run(&["turns"]).await;
    assert_eq!((unset.code, unset.err.as_str()), (64, "agentctl: DATABASE_URL: is required\n"));
    assert_eq!(agentctl.run(&["dance"]).await.code, 2);

    cluster.kill_worker(0);
    let none = "error  no worker answers; start workers, or look at their logs";
    assert_eq!(findings(&agentctl).await, [none]);
    let json = agentctl.run(&["doctor", "--json"]).await;
    let json: Value = serde_json::from_str(&json.out).unwrap();
    let finding = &json["findings"][0];
    assert_eq!(
        (&finding["severity"], &finding["what"]),
        (&"error".into(), &"no worker answers".into())
    );
}
