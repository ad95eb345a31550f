//! Settings that must agree with each other.
use std::time::Duration;

use crate::doctor::facts::Facts;
use crate::doctor::report::Report;
use crate::view;

/// What a worker needs after its drain: to give back the rest and to close.
const AFTER_DRAIN: Duration = Duration::from_secs(15);

pub fn apply(facts: &Facts, report: &mut Report) {
    let settings = &facts.settings;
    let mut found = timing(Timing {
        ack_wait: settings.topology.ack_wait,
        lease: settings.lease,
        heartbeat: settings.heartbeat,
    });
    let needed = settings.drain + AFTER_DRAIN;
    if let Some(grace) = settings.termination_grace.filter(|grace| *grace < needed) {
        let (grace, drain, needed) = (grace.as_secs(), settings.drain.as_secs(), needed.as_secs());
        found.push((
            format!("TERMINATION_GRACE_S={grace} kills workers that still drain (DRAIN_S={drain})"),
            format!("raise the orchestrator's grace to {needed} s, or lower DRAIN_S"),
        ));
    }
    if found.is_empty() {
        report.ok("ack wait, lease, heartbeat and drain agree");
    }
    for (what, change) in found {
        report.error(what, change);
    }
}

/// What a worker is told about time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    pub ack_wait: Duration,
    pub lease: Duration,
    pub heartbeat: Duration,
}

/// What is wrong, and what to change.
pub fn timing(timing: Timing) -> Vec<(String, String)> {
    let [ack_wait, lease, heartbeat] =
        [timing.ack_wait, timing.lease, timing.heartbeat].map(view::millis);
    let mut found = Vec::new();
    let shortest = ack_wait.min(lease);
    if heartbeat * 2 > shortest {
        found.push((
            format!("HEARTBEAT_MS={heartbeat} is more than half of ACK_WAIT_MS={ack_wait} or LEASE_MS={lease}"),
            format!("set HEARTBEAT_MS to at most {}", shortest / 2),
        ));
    }
    if lease > ack_wait {
        found.push((
            format!("LEASE_MS={lease} is longer than ACK_WAIT_MS={ack_wait}: a redelivered job waits for the lease"),
            format!("set LEASE_MS to at most {ack_wait}"),
        ));
    }
    found
}
