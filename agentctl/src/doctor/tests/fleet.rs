//! Workers, what they do, and what everybody is told.
use std::time::Duration;

use expect_test::expect;

use super::healthy::{clock_ahead_by, job, lease, now, turn, worker};
use super::sick::{check, consumer, database, jetstream, workers};
use crate::doctor::facts::Facts;
use crate::doctor::secrets;

#[test]
fn settings_must_agree_with_each_other() {
    check(
        |facts| facts.settings.heartbeat = Duration::from_millis(7_501),
        expect![[r#"
        error  HEARTBEAT_MS=7501 is more than half of ACK_WAIT_MS=15000 or LEASE_MS=15000; set HEARTBEAT_MS to at most 7500
        errors: 1, warnings: 0
    "#]],
    );
    check(
        |facts| facts.settings.lease = Duration::from_millis(15_001),
        expect![[r#"
        error  LEASE_MS=15001 is longer than ACK_WAIT_MS=15000: a redelivered job waits for the lease; set LEASE_MS to at most 15000
        errors: 1, warnings: 0
    "#]],
    );
    check(
        |facts| facts.settings.termination_grace = Some(Duration::from_secs(39)),
        expect![[r#"
        error  TERMINATION_GRACE_S=39 kills workers that still drain (DRAIN_S=25); raise the orchestrator's grace to 40 s, or lower DRAIN_S
        errors: 1, warnings: 0
    "#]],
    );
    check(
        |facts| facts.settings.termination_grace = None,
        expect![[r#"
        nothing to change
    "#]],
    );
}

#[test]
fn without_workers_nothing_goes() {
    check(
        |facts| workers(facts).clear(),
        expect![[r#"
        error  no worker answers; start workers, or look at their logs
        errors: 1, warnings: 0
    "#]],
    );
    check(
        |facts| {
            workers(facts).clear();
            consumer(facts).waiting_pulls = 0;
            jetstream(facts).jobs.push(job(3, 61));
        },
        expect![[r#"
            error  no worker answers; start workers, or look at their logs
            error  1 job waited, the oldest for 1m1s, and no worker pulls; start workers, or look at their logs
            errors: 2, warnings: 0
        "#]],
    );
}

#[test]
fn workers_must_agree_with_the_consumer_and_with_each_other() {
    check(
        |facts| {
            let second = &mut workers(facts)[1].report;
            second.version = "1.3.0".to_owned();
            second.settings.ack_wait_ms = 2_000;
            second.settings.drain_ms = 5_000;
        },
        expect![[r#"
            error  worker w2 runs with ACK_WAIT_MS=2000, the consumer has 15000; set ACK_WAIT_MS alike everywhere, run `gateway migrate`, restart the worker
            warn   DRAIN_S differs between workers: 25 (w1), 5 (w2); finish the roll-out, or configure them alike
            warn   the version differs between workers: 1.2.3 (w1), 1.3.0 (w2); finish the roll-out, or configure them alike
            error  worker w2: HEARTBEAT_MS=4000 is more than half of ACK_WAIT_MS=2000 or LEASE_MS=15000; set HEARTBEAT_MS to at most 1000
            error  worker w2: LEASE_MS=15000 is longer than ACK_WAIT_MS=2000: a redelivered job waits for the lease; set LEASE_MS to at most 2000
            errors: 3, warnings: 2
        "#]],
    );
    check(
        |facts| workers(facts).push(worker("w1")),
        expect![[r#"
        error  2 workers are called w1, which owns their leases; give every worker a WORKER_NAME of its own
        errors: 1, warnings: 0
    "#]],
    );
}

#[test]
fn the_owner_of_a_lease_should_answer() {
    check(
        |facts| {
            let leases = database(facts).leases.as_mut().unwrap();
            leases.extend([lease(7, "w9", 1), lease(8, "w9", 9_000), lease(9, "w8", -1)]);
        },
        expect![[r#"
            warn   worker w9 holds 2 live leases and does not answer; look whether it is dead or cut off; others go on when its leases run out
            errors: 0, warnings: 1
        "#]],
    );
}

#[test]
fn jobs_that_wait_say_why() {
    let waits = |pulls: u64, running: u64| {
        move |facts: &mut Facts| {
            jetstream(facts).jobs.extend([job(3, 61), job(4, 200)]);
            consumer(facts).waiting_pulls = pulls;
            workers(facts).iter_mut().for_each(|heard| heard.report.running = running);
        }
    };
    check(
        waits(1, 0),
        expect![[r#"
        warn   2 jobs could not begin yet, the oldest for 3m20s, although workers are free; look at the workers' logs
        errors: 0, warnings: 1
    "#]],
    );
    check(
        waits(0, 8),
        expect![[r#"
        warn   2 jobs waited, the oldest for 3m20s; all 16 slots are taken; add workers, or raise WORKER_SLOTS
        errors: 0, warnings: 1
    "#]],
    );
    check(
        waits(0, 7),
        expect![[r#"
        error  2 jobs waited, the oldest for 3m20s, and no worker pulls; start workers, or look at their logs
        errors: 1, warnings: 0
    "#]],
    );
}

#[test]
fn a_turn_that_lost_its_worker_should_be_taken_over() {
    let expired = |left_ms: i64| {
        move |facts: &mut Facts| {
            database(facts).leases = Ok(vec![lease(1, "w1", left_ms)]);
            assert_eq!(jetstream(facts).jobs[0].content.as_ref().unwrap().turn, turn(1));
        }
    };
    check(
        expired(-20_000),
        expect![[r#"
        nothing to change
    "#]],
    );
    check(
        expired(-65_000),
        expect![[r#"
            warn   1 turn lost the worker and waits for another, the longest for 1m5s; start workers, or look at their logs
            errors: 0, warnings: 1
        "#]],
    );
    check(
        |facts| {
            database(facts).leases = Ok(vec![lease(1, "w1", -65_000)]);
            jetstream(facts).jobs.clear();
        },
        expect![[r#"
            nothing to change
        "#]],
    );
}

#[test]
fn clocks_must_agree_with_postgres() {
    let worker_ahead = |ms: i64| {
        move |facts: &mut Facts| {
            let ahead = clock_ahead_by(ms).at;
            workers(facts)[0].report.clock = shared::runtime::clock::rfc3339(ahead);
        }
    };
    check(
        worker_ahead(-1_021),
        expect![[r#"
        nothing to change
    "#]],
    );
    check(
        worker_ahead(1_022),
        expect![[r#"
        warn   the clock of worker w1 is 1.0 s ahead of that of Postgres; let NTP set the clocks; jobs and tokens expire by them
        errors: 0, warnings: 1
    "#]],
    );
    check(
        worker_ahead(12_340),
        expect![[r#"
        error  the clock of worker w1 is 12.3 s ahead of that of Postgres; let NTP set the clocks; jobs and tokens expire by them
        errors: 1, warnings: 0
    "#]],
    );
    check(
        |facts| jetstream(facts).survey.clock = Some(clock_ahead_by(-2_000)),
        expect![[r#"
        warn   the clock of NATS is 2.0 s behind that of Postgres; let NTP set the clocks; jobs and tokens expire by them
        errors: 0, warnings: 1
    "#]],
    );
    // It is Postgres that differs from everybody.
    check(
        |facts| database(facts).clock = clock_ahead_by(6_000),
        expect![[r#"
        error  the clock of NATS is 6.0 s behind that of Postgres; let NTP set the clocks; jobs and tokens expire by them
        error  the clock of this host is 6.0 s behind that of Postgres; let NTP set the clocks; jobs and tokens expire by them
        error  the clock of worker w1 is 6.0 s behind that of Postgres; let NTP set the clocks; jobs and tokens expire by them
        error  the clock of worker w2 is 6.0 s behind that of Postgres; let NTP set the clocks; jobs and tokens expire by them
        errors: 4, warnings: 0
    "#]],
    );
    check(
        |facts| {
            facts.database = Err("gone".to_owned());
            jetstream(facts).survey.clock = Some(clock_ahead_by(2_000));
        },
        expect![[r#"
            error  Postgres can't be reached: gone; look at DATABASE_URL and at the server
            warn   the clock of this host is 2.0 s behind that of NATS; let NTP set the clocks; jobs and tokens expire by them
            warn   the clock of worker w1 is 2.0 s behind that of NATS; let NTP set the clocks; jobs and tokens expire by them
            warn   the clock of worker w2 is 2.0 s behind that of NATS; let NTP set the clocks; jobs and tokens expire by them
            errors: 1, warnings: 3
        "#]],
    );
}

#[test]
fn a_slow_answer_says_little_about_a_clock() {
    check(
        |facts| {
            let slow = &mut workers(facts)[0];
            slow.asked_at = now() - Duration::from_secs(4);
            slow.report.clock = shared::runtime::clock::rfc3339(clock_ahead_by(500).at);
        },
        expect![[r#"
            nothing to change
        "#]],
    );
}

#[test]
fn secrets_are_judged_without_being_shown() {
    check(
        |facts| {
            facts.secrets[0].state =
                secrets::State::Bad("a sealing key must be 32 bytes in base64".to_owned());
            facts.secrets[1].state = secrets::State::Absent;
        },
        expect![[r#"
            error  SEAL_KEY: a sealing key must be 32 bytes in base64; set SEAL_KEY anew
            warn   JWT_SECRET is not set here and was not checked; run the doctor with the variables of gateway and worker
            errors: 1, warnings: 1
        "#]],
    );
}
