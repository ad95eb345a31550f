//! The facts of a fleet that has nothing to change.
use std::time::Duration;

use contract::control::{WorkerReport, WorkerSettings};
use contract::ids::{ConversationId, TurnId, UserId};
use contract::job::JobKind;
use shared::bus::jobs::listing::{Content, Entry};
use shared::bus::survey::{Clock, ConsumerState, Server, StreamState, Survey};
use shared::bus::topology::Options;
use shared::bus::workers::Heard;
use shared::runtime::clock;
use shared::store::migrate::{Migration, State};
use shared::store::overview::{Database, LeaseRow};
use time::OffsetDateTime;

use crate::doctor::facts::{DatabaseFacts, Facts, JetStreamFacts, NatsFacts};
use crate::doctor::secrets::{self, Secret};
use crate::doctor::settings::Settings;

pub fn now() -> OffsetDateTime {
    clock::parse("2026-11-30T20:05:00Z").unwrap()
}

/// Asked and answered within 20 ms.
pub fn clock_ahead_by(ms: i64) -> Clock {
    let ahead = time::Duration::milliseconds(ms);
    let half = Duration::from_millis(10);
    Clock { at: now() + ahead, asked_at: now() - half, heard_at: now() + half }
}

pub fn worker(name: &str) -> Heard {
    let report = WorkerReport {
        worker: name.to_owned(),
        version: "1.2.3".to_owned(),
        slots: 8,
        running: 1,
        draining: false,
        started_at: "2026-11-30T12:00:00.000Z".to_owned(),
        clock: clock::rfc3339(now()),
        settings: WorkerSettings {
            ack_wait_ms: 15_000,
            lease_ms: 15_000,
            heartbeat_ms: 4_000,
            drain_ms: 25_000,
            database_pool: 16,
        },
    };
    let clock = clock_ahead_by(0);
    Heard { report, asked_at: clock.asked_at, heard_at: clock.heard_at }
}

fn stream(name: &str) -> StreamState {
    StreamState {
        name: name.to_owned(),
        messages: 0,
        oldest_at: None,
        bytes: 0,
        max_messages: None,
        max_bytes: Some(1_000),
        refuses_when_full: false,
        replicas: 1,
        missing_replicas: 0,
    }
}

pub fn turn(n: u32) -> TurnId {
    format!("0199c1a2-0001-7000-8000-{n:012}").parse().unwrap()
}

fn conversation(n: u32) -> ConversationId {
    format!("5f0c7d1e-6a55-4d0b-9f43-{n:012}").parse().unwrap()
}

/// The job of a turn, so many seconds old.
pub fn job(n: u32, age_s: u64) -> Entry {
    let user = UserId::try_from("alice".to_owned()).unwrap();
    Entry {
        stored_at: Some(now() - Duration::from_secs(age_s)),
        conversation: Some(conversation(n)),
        content: Some(Content { turn: turn(n), user, kind: JobKind::Message }),
    }
}

pub fn lease(n: u32, owner: &str, left_ms: i64) -> LeaseRow {
    LeaseRow {
        conversation: conversation(n),
        turn: turn(n),
        user: "alice".to_owned(),
        owner: owner.to_owned(),
        epoch: 1,
        left_ms,
        kind: Some("message".to_owned()),
        status: Some("running".to_owned()),
        attempt: Some(1),
        started_at: Some(now()),
    }
}

fn migration(version: i64) -> Migration {
    Migration { version, name: format!("step {version}"), state: State::Applied }
}

pub fn facts() -> Facts {
    let queue = StreamState {
        messages: 1,
        max_messages: Some(100),
        refuses_when_full: true,
        ..stream("AGENT_JOBS")
    };
    let consumer = ConsumerState {
        ack_wait: Duration::from_secs(15),
        waiting_pulls: 2,
        pending: 0,
        in_hand: 1,
        redelivered: 0,
    };
    let survey = Survey {
        streams: vec![queue, stream("AGENT_EVENTS"), stream("AGENT_DLQ")],
        consumer: Some(consumer),
        clock: Some(clock_ahead_by(0)),
    };
    let server = Server {
        version: "2.12.3".to_owned(),
        is_recent_enough: true,
        max_payload_bytes: 1_048_576,
    };
    let database = Database {
        version: "17.2".to_owned(),
        version_number: 170_002,
        max_connections: 97,
        connections: 12,
        is_standby: false,
        now: now(),
    };
    let good = |name: &'static str| Secret { name, state: secrets::State::Good };
    Facts {
        now: now(),
        settings: Settings {
            topology: Options { replicas: 1, ack_wait: Duration::from_secs(15) },
            lease: Duration::from_secs(15),
            heartbeat: Duration::from_secs(4),
            drain: Duration::from_secs(25),
            termination_grace: Some(Duration::from_secs(40)),
            gateway_connections: 10,
            gateways: 2,
            waiting_over: Duration::from_secs(60),
        },
        secrets: ["SEAL_KEY", "JWT_SECRET", "SERVICE_CLIENT_SECRET"].map(good).into(),
        nats: Ok(NatsFacts {
            server,
            jetstream: Ok(JetStreamFacts {
                mismatches: Vec::new(),
                survey,
                jobs: vec![job(1, 300), job(2, 1)],
            }),
            workers: Ok(vec![worker("w1"), worker("w2")]),
        }),
        database: Ok(DatabaseFacts {
            server: database,
            clock: clock_ahead_by(0),
            migrations: Ok(vec![migration(1), migration(2)]),
            leases: Ok(vec![lease(1, "w1", 12_000)]),
        }),
    }
}
