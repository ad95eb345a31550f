//! Whether jobs move: none waits for a worker, none for a takeover.
use std::collections::HashSet;
use std::time::Duration;

use contract::ids::TurnId;

use crate::doctor::facts::{Facts, JetStreamFacts};
use crate::doctor::report::Report;
use crate::doctor::rules::count;
use crate::turns::without_lease;
use crate::view;

/// A takeover is due after the ack wait; so much later it is late.
const TAKEOVER_SLACK: Duration = Duration::from_secs(5);

pub fn apply(facts: &Facts, report: &mut Report) {
    let Some(jetstream) = facts.jetstream() else { return };
    if facts.leases().is_some() {
        waiting(facts, jetstream, report);
        stalled(facts, jetstream, report);
    }
}

fn waiting(facts: &Facts, jetstream: &JetStreamFacts, report: &mut Report) {
    let leases = facts.leases().unwrap_or_default();
    let ages: Vec<Duration> = without_lease(&jetstream.jobs, leases)
        .filter_map(|entry| entry.stored_at)
        .map(|at| view::age(at, facts.now))
        .filter(|age| *age > facts.settings.waiting_over)
        .collect();
    let Some(oldest) = ages.iter().max().copied().map(view::duration) else {
        report.ok("no job waits for long");
        return;
    };
    let jobs = count(ages.len(), "job");
    let workers = facts.workers().unwrap_or_default();
    let slots: u64 = workers.iter().map(|heard| heard.report.slots).sum();
    let running: u64 = workers.iter().map(|heard| heard.report.running).sum();
    let pulls = jetstream.survey.consumer.map_or(0, |consumer| consumer.waiting_pulls);
    if pulls > 0 {
        report.warning(
            format!(
                "{jobs} could not begin yet, the oldest for {oldest}, although workers are free"
            ),
            "look at the workers' logs",
        );
    } else if slots > 0 && running >= slots {
        let what = format!("{jobs} waited, the oldest for {oldest}; all {slots} slots are taken");
        report.warning(what, "add workers, or raise WORKER_SLOTS");
    } else {
        let what = format!("{jobs} waited, the oldest for {oldest}, and no worker pulls");
        report.error(what, "start workers, or look at their logs");
    }
}

fn stalled(facts: &Facts, jetstream: &JetStreamFacts, report: &mut Report) {
    let consumer = jetstream.survey.consumer;
    let ack_wait = consumer.map_or(facts.settings.topology.ack_wait, |found| found.ack_wait);
    let queued: HashSet<TurnId> =
        jetstream.jobs.iter().filter_map(|entry| Some(entry.content.as_ref()?.turn)).collect();
    let late: Vec<Duration> = facts
        .leases()
        .unwrap_or_default()
        .iter()
        .filter(|lease| queued.contains(&lease.turn))
        .filter_map(|lease| lease.expired_for())
        .filter(|expired| *expired > ack_wait + TAKEOVER_SLACK)
        .collect();
    match late.iter().max().copied().map(view::duration) {
        None => report.ok("no turn waits for a takeover"),
        Some(longest) => report.warning(
            format!(
                "{} lost the worker and waits for another, the longest for {longest}",
                count(late.len(), "turn")
            ),
            "start workers, or look at their logs",
        ),
    }
}
