//! `agentctl workers`: which workers answer, and how they are.
use anyhow::Context as _;
use serde::Serialize;
use shared::bus::survey::Clock;
use shared::bus::workers::{self, Heard};
use shared::runtime::clock;
use shared::runtime::env::Env;

use crate::view::{self, Format, View};
use crate::{Failure, Outcome, config, fleet};

pub async fn show(env: Env, format: Format) -> Result<Outcome, Failure> {
    let nats = config::nats(&env);
    env.finish()?;
    let bus = fleet::nats(nats).await?;
    let mut heard = workers::reports(&bus).await.context("asking the workers")?;
    heard.sort_by(|a, b| a.report.worker.cmp(&b.report.worker));
    view::print(&Workers { workers: heard.into_iter().map(Worker::from).collect() }, format);
    Ok(Outcome::Fine)
}

/// The worker's clock beside this host's.
pub fn clock_of(heard: &Heard) -> Option<Clock> {
    let at = clock::parse(&heard.report.clock).ok()?;
    Some(Clock { at, asked_at: heard.asked_at, heard_at: heard.heard_at })
}

#[derive(Debug, Serialize)]
struct Workers {
    workers: Vec<Worker>,
}

#[derive(Debug, Serialize)]
struct Worker {
    worker: String,
    version: String,
    slots: u64,
    running: u64,
    draining: bool,
    started_at: String,
    clock: String,
    /// Until its answer was here: its clock can't be known better.
    answered_in_ms: u64,
}

impl From<Heard> for Worker {
    fn from(heard: Heard) -> Self {
        let answered_in_ms = view::millis(view::age(heard.asked_at, heard.heard_at));
        let report = heard.report;
        Self {
            worker: report.worker,
            version: report.version,
            slots: report.slots,
            running: report.running,
            draining: report.draining,
            started_at: report.started_at,
            clock: report.clock,
            answered_in_ms,
        }
    }
}

impl View for Workers {
    fn text(&self) -> String {
        if self.workers.is_empty() {
            return "no worker answers\n".to_owned();
        }
        let rows: Vec<_> = self
            .workers
            .iter()
            .map(|worker| {
                [
                    worker.worker.clone(),
                    worker.version.clone(),
                    worker.slots.to_string(),
                    worker.running.to_string(),
                    if worker.draining { "draining" } else { "ready" }.to_owned(),
                    worker.started_at.clone(),
                    worker.clock.clone(),
                ]
            })
            .collect();
        let header = ["WORKER", "VERSION", "SLOTS", "RUNNING", "STATE", "STARTED", "CLOCK"];
        view::table(header, &rows)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn one_line_per_worker() {
        let worker = |name: &str, draining: bool| Worker {
            worker: name.to_owned(),
            version: "1.2.3".to_owned(),
            slots: 8,
            running: 3,
            draining,
            started_at: "2026-11-30T12:00:00.000Z".to_owned(),
            clock: "2026-11-30T20:03:07.250Z".to_owned(),
            answered_in_ms: 4,
        };
        let view = Workers { workers: vec![worker("worker-1", false), worker("w2", true)] };
        expect![[r#"
            WORKER    VERSION  SLOTS  RUNNING  STATE     STARTED                   CLOCK
            worker-1  1.2.3    8      3        ready     2026-11-30T12:00:00.000Z  2026-11-30T20:03:07.250Z
            w2        1.2.3    8      3        draining  2026-11-30T12:00:00.000Z  2026-11-30T20:03:07.250Z
        "#]].assert_eq(&view.text());
    }
}
