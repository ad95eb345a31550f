//! Whether a run is as good as the undisturbed one.
use std::time::Duration;

use super::outcome::Outcome;
use super::run::{Plan, Report};
use super::wire::Delivery;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// A call's outcome is not known, is shown as such, and can't be known: its intent was written and its result was not.
    OutcomeUnknown,
    /// Nobody came by the place of the fault.
    Missed,
    Failed(Vec<String>),
}

impl Verdict {
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::OutcomeUnknown => "unknown",
            Self::Missed => "missed",
            Self::Failed(_) => "failed",
        }
    }
}

const UNKNOWN: &str = "OUTCOME_UNKNOWN";

/// `expected` is the undisturbed outcome; `patience` the longest delay of a takeover after a death.
pub fn judge(expected: &Outcome, plan: &Plan, report: &Report, patience: Duration) -> Verdict {
    let mut wrong = report.wrong.clone();
    for takeover in &report.takeovers {
        if takeover.fault.kills() && takeover.delay() > patience {
            wrong.push(format!("{takeover:?} is too slow"));
        }
    }
    let mut unknown = Vec::new();
    if let Some(found) = &report.found {
        wrong.extend(found.wrong.iter().cloned());
        unknown = unknown_calls(&found.outcome);
        wrong.extend(unfounded(&unknown, plan, report, &found.outcome));
        let (expected, outcome) = (mask(expected, &unknown), mask(&found.outcome, &unknown));
        wrong.extend(differences(&expected, &outcome));
    }
    if !wrong.is_empty() {
        Verdict::Failed(wrong)
    } else if !plan.traps.is_empty() && report.strikes.is_empty() {
        Verdict::Missed
    } else if unknown.is_empty() {
        Verdict::Passed
    } else {
        Verdict::OutcomeUnknown
    }
}

fn unknown_calls(outcome: &Outcome) -> Vec<String> {
    let calls = outcome.screen.iter().filter_map(|line| {
        let (call, code) = line.strip_prefix("result ")?.split_once(' ')?;
        (code == UNKNOWN).then(|| call.to_owned())
    });
    calls.collect()
}

/// Only as many outcomes can be unknown as intents were written by struck workers without their result.
fn unfounded(unknown: &[String], plan: &Plan, report: &Report, outcome: &Outcome) -> Vec<String> {
    let mut open = 0;
    for notes in report.notes.iter().take(report.strikes.len()) {
        let count = |label: &str, fits: fn(Delivery) -> bool| {
            let of = notes.iter().filter(|note| note.point.label == label);
            of.filter(|note| fits(note.delivery)).count()
        };
        let begun = count("pg agent_journal_begin", |delivery| delivery != Delivery::Never);
        let finished = count("pg agent_journal_finish", |delivery| delivery == Delivery::Prompt);
        open += begun.saturating_sub(finished);
    }
    let mut wrong = Vec::new();
    if unknown.len() > open {
        wrong.push(format!("{} outcomes are unknown, {open} can be", unknown.len()));
    }
    for line in &outcome.screen {
        let Some((call, rest)) = line.strip_prefix("start ").and_then(|line| line.split_once(' '))
        else {
            continue;
        };
        let tool = rest.split(' ').next().unwrap_or_default();
        if plan.script.is_idempotent(tool) && unknown.iter().any(|unknown| unknown == call) {
            wrong.push(format!("the outcome of the idempotent {call} is unknown"));
        }
    }
    wrong
}

/// Whatever a call of unknown outcome may have done is left out.
fn mask(outcome: &Outcome, unknown: &[String]) -> Outcome {
    let mut outcome = outcome.clone();
    for call in unknown {
        for line in outcome.screen.iter_mut().chain(&mut outcome.history) {
            for head in [format!("result {call} "), format!("  tool {call} ")] {
                if line.starts_with(&head) {
                    *line = format!("{head}?");
                }
            }
        }
        outcome.effects.retain(|line| !line.starts_with(&format!("{call} ")));
        for line in &mut outcome.audit {
            if line.starts_with(&format!("audit {call} "))
                && let Some((head, _)) = line.rsplit_once(' ')
            {
                *line = format!("{head} ?");
            }
        }
        outcome.audit.sort();
    }
    outcome
}

fn differences(expected: &Outcome, outcome: &Outcome) -> Vec<String> {
    let pairs = [
        ("screen", &expected.screen, &outcome.screen),
        ("history", &expected.history, &outcome.history),
        ("effects", &expected.effects, &outcome.effects),
        ("audit", &expected.audit, &outcome.audit),
    ];
    let unequal = pairs.into_iter().filter(|(_, expected, found)| expected != found);
    unequal
        .map(|(what, expected, found)| {
            let missing = expected
                .iter()
                .filter(|line| !found.contains(line))
                .map(|line| format!("\n  - {line}"));
            let extra = found
                .iter()
                .filter(|line| !expected.contains(line))
                .map(|line| format!("\n  + {line}"));
            let lines: String = missing.chain(extra).collect();
            let order =
                if lines.is_empty() { format!(" in order or number: {found:#?}") } else { lines };
            format!("{what} differs{order}")
        })
        .collect()
}

#[cfg(test)]
mod tests;
