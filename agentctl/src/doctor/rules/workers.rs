//! Workers: that there are some, and that they agree with the consumer and with each other.
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::control::{WorkerReport, WorkerSettings};

use crate::doctor::facts::Facts;
use crate::doctor::report::Report;
use crate::doctor::rules::count;
use crate::doctor::rules::pairs::{self, Timing};
use crate::view;

pub fn apply(facts: &Facts, report: &mut Report) {
    let Ok(nats) = &facts.nats else { return };
    let workers: Vec<&WorkerReport> = match &nats.workers {
        Ok(heard) => heard.iter().map(|heard| &heard.report).collect(),
        Err(problem) => {
            let what = format!("the workers can't be asked: {problem}");
            report.error(what, "look at the NATS permissions of this user");
            return;
        }
    };
    if workers.is_empty() {
        report.error("no worker answers", "start workers, or look at their logs");
        return;
    }
    report.ok(format!("{} answer", count(workers.len(), "worker")));
    same_names(&workers, report);
    with_the_consumer(facts, &workers, report);
    with_each_other(&workers, report);
    with_themselves(facts, &workers, report);
    silent_owners(facts, &workers, report);
}

fn same_names(workers: &[&WorkerReport], report: &mut Report) {
    let mut seen = BTreeMap::new();
    for worker in workers {
        *seen.entry(&worker.worker).or_insert(0) += 1;
    }
    for (name, times) in seen.into_iter().filter(|(_, times)| *times > 1) {
        let what = format!("{times} workers are called {name}, which owns their leases");
        report.error(what, "give every worker a WORKER_NAME of its own");
    }
}

fn with_the_consumer(facts: &Facts, workers: &[&WorkerReport], report: &mut Report) {
    let consumer = facts.jetstream().and_then(|jetstream| jetstream.survey.consumer);
    let Some(wanted) = consumer.map(|consumer| view::millis(consumer.ack_wait)) else { return };
    let mut is_fine = true;
    for worker in workers.iter().filter(|worker| worker.settings.ack_wait_ms != wanted) {
        is_fine = false;
        let (name, has) = (&worker.worker, worker.settings.ack_wait_ms);
        report.error(
            format!("worker {name} runs with ACK_WAIT_MS={has}, the consumer has {wanted}"),
            "set ACK_WAIT_MS alike everywhere, run `gateway migrate`, restart the worker",
        );
    }
    if is_fine {
        report.ok("the workers' ack wait is the consumer's");
    }
}

type Reading = fn(&WorkerReport) -> String;

fn with_each_other(workers: &[&WorkerReport], report: &mut Report) {
    let readings: [(&str, Reading); 5] = [
        ("LEASE_MS", |worker| worker.settings.lease_ms.to_string()),
        ("HEARTBEAT_MS", |worker| worker.settings.heartbeat_ms.to_string()),
        ("DRAIN_S", |worker| (worker.settings.drain_ms / 1_000).to_string()),
        ("DATABASE_POOL", |worker| worker.settings.database_pool.to_string()),
        ("the version", |worker| worker.version.clone()),
    ];
    for (name, read) in readings {
        let mut groups: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for worker in workers {
            groups.entry(read(worker)).or_default().insert(&worker.worker);
        }
        if groups.len() > 1 {
            let group = |(value, names): (&String, &BTreeSet<&str>)| {
                format!("{value} ({})", names.iter().copied().collect::<Vec<_>>().join(", "))
            };
            let groups: Vec<String> = groups.iter().map(group).collect();
            report.warning(
                format!("{name} differs between workers: {}", groups.join(", ")),
                "finish the roll-out, or configure them alike",
            );
        }
    }
}

/// What the doctor was told itself is judged elsewhere.
fn with_themselves(facts: &Facts, workers: &[&WorkerReport], report: &mut Report) {
    let timing = |settings: &WorkerSettings| Timing {
        ack_wait: Duration::from_millis(settings.ack_wait_ms),
        lease: Duration::from_millis(settings.lease_ms),
        heartbeat: Duration::from_millis(settings.heartbeat_ms),
    };
    let here = Timing {
        ack_wait: facts.settings.topology.ack_wait,
        lease: facts.settings.lease,
        heartbeat: facts.settings.heartbeat,
    };
    for worker in workers.iter().filter(|worker| timing(&worker.settings) != here) {
        for (what, change) in pairs::timing(timing(&worker.settings)) {
            report.error(format!("worker {}: {what}", worker.worker), change);
        }
    }
}

fn silent_owners(facts: &Facts, workers: &[&WorkerReport], report: &mut Report) {
    let names: BTreeSet<&str> = workers.iter().map(|worker| worker.worker.as_str()).collect();
    let mut silent: BTreeMap<&str, usize> = BTreeMap::new();
    for lease in facts.leases().unwrap_or_default().iter().filter(|lease| lease.is_live()) {
        if !names.contains(lease.owner.as_str()) {
            *silent.entry(&lease.owner).or_insert(0) += 1;
        }
    }
    for (name, leases) in silent {
        let leases = count(leases, "live lease");
        report.warning(
            format!("worker {name} holds {leases} and does not answer"),
            "look whether it is dead or cut off; others go on when its leases run out",
        );
    }
}
