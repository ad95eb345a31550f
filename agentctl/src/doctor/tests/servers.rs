//! NATS and Postgres.
use std::time::Duration;

use expect_test::expect;
use shared::bus::topology::Mismatch;
use shared::store::migrate::{Migration, State};

use super::healthy::{facts, now};
use super::sick::{check, consumer, database, jetstream, nats, stream};
use crate::doctor::facts::Facts;
use crate::doctor::rules;
use crate::view::View as _;

fn mismatch(thing: &str, field: &str, found: &str, wanted: &str) -> Mismatch {
    let [thing, field, found, wanted] = [thing, field, found, wanted].map(str::to_owned);
    Mismatch { thing, field, wanted, found }
}

#[test]
fn a_healthy_fleet_has_nothing_to_change() {
    check(
        |_| {},
        expect![[r#"
        nothing to change
    "#]],
    );
    expect![[r#"
        ok     NATS 2.12.3 is recent enough
        ok     max_payload of NATS is 1048576 bytes, 262144 are needed
        ok     JetStream answers
        ok     streams and consumer are as wanted
        ok     0 of 1 jobs in hand were delivered before
        ok     no dead letters
        ok     stream AGENT_JOBS is 1 % full
        ok     stream AGENT_EVENTS is 0 % full
        ok     stream AGENT_DLQ is 0 % full
        ok     Postgres 17.2 is recent enough
        ok     the pools of 2 workers and 2 gateways fit: 52 of 97 connections
        ok     all migrations are applied
        ok     ack wait, lease, heartbeat and drain agree
        ok     2 workers answer
        ok     the workers' ack wait is the consumer's
        ok     no job waits for long
        ok     no turn waits for a takeover
        ok     all clocks agree with that of Postgres
        ok     SEAL_KEY can be used
        ok     JWT_SECRET can be used
        ok     SERVICE_CLIENT_SECRET can be used
        nothing to change
    "#]]
    .assert_eq(&rules::apply(&facts()).text());
}

#[test]
fn what_can_not_be_reached_is_one_line_each() {
    check(
        |facts| {
            facts.nats = Err("connecting to NATS: Connection refused".to_owned());
            facts.database = Err("connecting to Postgres: timed out".to_owned());
        },
        expect![[r#"
            error  NATS can't be reached: connecting to NATS: Connection refused; look at NATS_URL, NATS_CREDS, NATS_CA and at the server
            error  Postgres can't be reached: connecting to Postgres: timed out; look at DATABASE_URL and at the server
            errors: 2, warnings: 0
        "#]],
    );
    check(
        |facts| nats(facts).jetstream = Err("nobody answers".to_owned()),
        expect![[r#"
        error  JetStream does not answer: nobody answers; switch JetStream on (`jetstream {}` in nats-server.conf) and give this user its rights
        errors: 1, warnings: 0
    "#]],
    );
    check(
        |facts| nats(facts).workers = Err("not connected".to_owned()),
        expect![[r#"
        error  the workers can't be asked: not connected; look at the NATS permissions of this user
        errors: 1, warnings: 0
    "#]],
    );
}

#[test]
fn an_old_or_narrow_server_is_told() {
    check(
        |facts| {
            let server = &mut nats(facts).server;
            server.version = "2.11.0".to_owned();
            (server.is_recent_enough, server.max_payload_bytes) = (false, 65_536);
            let version = mismatch("NATS server", "version", "2.11.0", "at least 2.12.0");
            jetstream(facts).mismatches.push(version);
        },
        expect![[r#"
            error  NATS 2.11.0 ignores settings it does not know; use nats-server 2.12 or newer
            error  max_payload of NATS is 65536 bytes, jobs and events need 262144; set `max_payload: 1MB` in nats-server.conf
            errors: 2, warnings: 0
        "#]],
    );
}

#[test]
fn definitions_that_differ_are_told_with_the_way_out() {
    check(
        |facts| {
            let missing = |thing: &str| mismatch(thing, "existence", "missing", "present");
            jetstream(facts).mismatches =
                vec![missing("stream AGENT_JOBS"), missing("consumer workers")];
        },
        expect![[r#"
            error  stream AGENT_JOBS is missing; run `gateway migrate`
            errors: 1, warnings: 0
        "#]],
    );
    check(
        |facts| {
            consumer(facts).ack_wait = Duration::from_secs(15);
            facts.settings.topology.ack_wait = Duration::from_secs(20);
            jetstream(facts).mismatches = vec![
                mismatch("stream AGENT_EVENTS", "max_age", "1", "2"),
                mismatch("consumer workers", "ack_wait", "15000000000", "20000000000"),
            ];
        },
        expect![[r#"
            error  stream AGENT_EVENTS: `max_age` is 1, wanted 2; run `gateway migrate`
            error  consumer workers has an ack wait of 15000 ms, ACK_WAIT_MS here is 20000; set ACK_WAIT_MS alike everywhere, then run `gateway migrate`
            errors: 2, warnings: 0
        "#]],
    );
}

#[test]
fn full_streams_and_lost_copies_are_told() {
    check(
        |facts| {
            stream(facts, "AGENT_JOBS").messages = 80;
            let events = stream(facts, "AGENT_EVENTS");
            (events.bytes, events.replicas, events.missing_replicas) = (999, 3, 1);
        },
        expect![[r#"
            error  stream AGENT_JOBS is 80 % full; it refuses what does not fit; add workers, or look for what fills it
            warn   stream AGENT_EVENTS is 99 % full; its oldest messages go early; look for what fills it
            warn   stream AGENT_EVENTS has 3 copies, NATS_REPLICAS here is 1; set NATS_REPLICAS alike everywhere, then run `gateway migrate`
            warn   1 of 3 copies of stream AGENT_EVENTS are away or behind; look at the NATS servers
            errors: 1, warnings: 3
        "#]],
    );
    check(
        |facts| stream(facts, "AGENT_JOBS").messages = 79,
        expect![[r#"
        nothing to change
    "#]],
    );
}

#[test]
fn dead_letters_wait_for_somebody() {
    let dead = |letters: u64| {
        move |facts: &mut Facts| {
            let stream = stream(facts, "AGENT_DLQ");
            stream.messages = letters;
            stream.oldest_at = Some(now() - Duration::from_secs(7_500));
        }
    };
    check(
        dead(1),
        expect![[r#"
        warn   1 dead letter waits, for 2h5m; settle it with `agentctl dead-letters`
        errors: 0, warnings: 1
    "#]],
    );
    check(
        dead(3),
        expect![[r#"
        warn   3 dead letters wait, the oldest for 2h5m; settle them with `agentctl dead-letters`
        errors: 0, warnings: 1
    "#]],
    );
}

#[test]
fn many_redeliveries_are_told_and_a_few_are_not() {
    let redelivered = |again: u64, in_hand: u64| {
        move |facts: &mut Facts| {
            (consumer(facts).redelivered, consumer(facts).in_hand) = (again, in_hand);
        }
    };
    check(
        redelivered(5, 20),
        expect![[r#"
        warn   5 of 20 jobs in hand were delivered before; look for workers that die, hang, or lose NATS or Postgres
        errors: 0, warnings: 1
    "#]],
    );
    check(
        redelivered(4, 4),
        expect![[r#"
        nothing to change
    "#]],
    );
    check(
        redelivered(5, 21),
        expect![[r#"
        nothing to change
    "#]],
    );
}

#[test]
fn a_postgres_that_will_not_do_is_told() {
    check(
        |facts| {
            let server = &mut database(facts).server;
            server.version = "14.9".to_owned();
            (server.version_number, server.is_standby) = (140_009, true);
            server.connections = 90;
        },
        expect![[r#"
            error  Postgres 14.9 is too old; use Postgres 15 or newer
            error  DATABASE_URL leads to a standby, which takes no writes; let DATABASE_URL lead to the primary
            warn   90 of 97 connections to Postgres are taken; raise max_connections, or lower DATABASE_POOL and DATABASE_CONNECTIONS
            errors: 2, warnings: 1
        "#]],
    );
}

#[test]
fn pools_must_fit() {
    check(
        |facts| database(facts).server.max_connections = 51,
        expect![[r#"
        warn   the pools of 2 workers and 2 gateways may hold 52 connections, Postgres gives 51; raise max_connections, or lower DATABASE_POOL and DATABASE_CONNECTIONS
        errors: 0, warnings: 1
    "#]],
    );
    check(
        |facts| database(facts).server.max_connections = 52,
        expect![[r#"
        nothing to change
    "#]],
    );
}

#[test]
fn each_migration_is_judged() {
    check(
        |facts| {
            let migration = |version: i64, state: State| {
                let name = format!("step {version}");
                Migration { version, name, state }
            };
            database(facts).migrations = Ok(vec![
                migration(1, State::Applied),
                migration(2, State::Changed),
                migration(3, State::Failed),
                migration(4, State::Pending),
                migration(5, State::Unknown),
            ]);
            database(facts).leases = Err("no such table".to_owned());
        },
        expect![[r#"
            error  migration 2 (step 2) was applied in another form; deploy the release that belongs to this database
            error  migration 3 (step 3) failed half-way; repair the database, then run `gateway migrate`
            error  migration 4 (step 4) is not applied; run `gateway migrate`
            errors: 3, warnings: 0
        "#]],
    );
    check(
        |facts| database(facts).leases = Err("permission denied".to_owned()),
        expect![[r#"
        error  the leases can't be read: permission denied; give this user the right to read the tables
        errors: 1, warnings: 0
    "#]],
    );
}
