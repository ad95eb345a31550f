//! `agentctl drain`: a worker does what it does on SIGTERM, and says how that went.
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use shared::bus::Bus;
use shared::bus::workers;
use shared::runtime::env::Env;

use crate::args::Drain;
use crate::config::{Acting, finished};
use crate::view::{self, Format, View};
use crate::{Failure, Outcome, fleet};

pub async fn drain(
    env: Env,
    what: &Drain,
    operator: Option<String>,
    format: Format,
) -> Result<Outcome, Failure> {
    let acting = Acting::load(&env, operator);
    let acting = finished(env, acting)?;
    let bus = fleet::nats(acting.nats).await?;
    let draining = workers::drain(&bus, &what.worker, acting.operator.as_str());
    let Some(mut draining) = draining.await.context("asking the worker")? else {
        return Err(unknown(&bus, &what.worker).await.into());
    };
    let running = draining.report.running;
    let end = match draining.drained(what.wait).await {
        Some(handed_over) => End::Stopped { handed_over },
        None => still_there(&bus, &what.worker, what.wait).await?,
    };
    let outcome = match end {
        End::Stopped { .. } => Outcome::Fine,
        End::Draining { .. } | End::Gone => Outcome::NotFine,
    };
    view::print(&Drained { worker: what.worker.clone(), running, end }, format);
    Ok(outcome)
}

async fn unknown(bus: &Bus, worker: &str) -> anyhow::Error {
    let known = workers::reports(bus).await.unwrap_or_default();
    let mut known: Vec<String> = known.into_iter().map(|heard| heard.report.worker).collect();
    known.sort();
    let known = if known.is_empty() { "none does".to_owned() } else { known.join(", ") };
    anyhow::anyhow!("no worker called `{worker}` answers; those that do: {known}")
}

async fn still_there(bus: &Bus, worker: &str, waited: Duration) -> anyhow::Result<End> {
    let heard = workers::reports(bus).await.context("asking the worker again")?;
    let report = heard.into_iter().map(|heard| heard.report).find(|report| report.worker == worker);
    Ok(match report {
        Some(report) => End::Draining { running_still: report.running, waited_s: waited.as_secs() },
        None => End::Gone,
    })
}

#[derive(Debug, Serialize)]
struct Drained {
    worker: String,
    /// As it began to drain.
    running: u64,
    #[serde(flatten)]
    end: End,
}

#[derive(Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum End {
    Stopped {
        handed_over: u64,
    },
    Draining {
        running_still: u64,
        waited_s: u64,
    },
    /// Without a last word: killed, or cut off.
    Gone,
}

impl View for Drained {
    fn text(&self) -> String {
        let (worker, running) = (&self.worker, self.running);
        match self.end {
            End::Stopped { handed_over } => {
                let ended = running.saturating_sub(handed_over);
                format!("{worker} stopped: {ended} turns ended there, {handed_over} handed over")
            }
            End::Draining { running_still, waited_s } => {
                format!(
                    "{worker} still drains after {waited_s}s, with {running_still} turns running"
                )
            }
            End::Gone => format!(
                "{worker} is gone without a last word; what it ran goes on elsewhere after ACK_WAIT_MS"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_is_said_in_a_line() {
        let text = |end: End| Drained { worker: "w1".to_owned(), running: 3, end }.text();
        assert_eq!(
            text(End::Stopped { handed_over: 1 }),
            "w1 stopped: 2 turns ended there, 1 handed over"
        );
        assert_eq!(
            text(End::Draining { running_still: 2, waited_s: 60 }),
            "w1 still drains after 60s, with 2 turns running"
        );
        assert!(text(End::Gone).starts_with("w1 is gone"));
    }
}
