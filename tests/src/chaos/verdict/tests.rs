//! What passes and what does not.
use std::time::{Instant, SystemTime};

use super::*;
use crate::chaos::fault::{Fault, Point};
use crate::chaos::message::Channel;
use crate::chaos::outcome::Found;
use crate::chaos::run::Takeover;
use crate::chaos::script::Script;
use crate::chaos::wire::{Note, Place, Strike, Trap};

const RESULT: &str = "result call1 {}";

fn outcome(result: &str) -> Outcome {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    let unknown = result.ends_with(UNKNOWN);
    Outcome {
        screen: lines(&["start call1 deploy_dashboard {}", result, "end completed"]),
        history: lines(&[if unknown { "  tool call1 nobody knows" } else { "  tool call1 {}" }]),
        effects: lines(if unknown { &[] } else { &["call1 deploy 42"] }),
        audit: lines(&[if unknown { "audit call1 a OUTCOME_UNKNOWN" } else { "audit call1 a ok" }]),
    }
}

fn verdict(script: &str, sent: &[(&str, Delivery)], outcome: Outcome) -> Verdict {
    verdict_after(Duration::from_millis(2_900), script, sent, outcome)
}

/// A worker died; it had sent these.
fn verdict_after(
    took: Duration,
    script: &str,
    sent: &[(&str, Delivery)],
    outcome: Outcome,
) -> Verdict {
    let point = |label: &str| Point { label: label.to_owned(), occurrence: 1 };
    let (fault, channel) = (Fault::KillAfter, Channel::Postgres);
    let place = Place::Number(1);
    let script = Script::named(script).unwrap();
    let plan = Plan { script, traps: vec![Trap { fault, place }] };
    let strike =
        Strike { fault, at: Instant::now(), wall: SystemTime::now(), point: point("a"), number: 1 };
    let note = |(label, delivery): &(&str, Delivery)| Note {
        point: point(label),
        channel,
        delivery: *delivery,
    };
    let report = Report {
        strikes: vec![strike],
        notes: vec![sent.iter().map(note).collect(), Vec::new()],
        found: Some(Found { outcome, wrong: Vec::new() }),
        wrong: Vec::new(),
        takeovers: vec![Takeover { fault, took, successor_ready: Duration::from_millis(400) }],
        logs: String::new(),
    };
    judge(&self::outcome(RESULT), &plan, &report, Duration::from_secs(1))
}

const BEGUN: (&str, Delivery) = ("pg agent_journal_begin", Delivery::Prompt);

fn finished(delivery: Delivery) -> (&'static str, Delivery) {
    ("pg agent_journal_finish", delivery)
}

#[test]
fn the_same_outcome_passes_and_another_one_fails() {
    assert_eq!(verdict("card", &[], outcome(RESULT)), Verdict::Passed);
    let mut twice = outcome(RESULT);
    twice.effects.push("call2 deploy 42".to_owned());
    assert!(matches!(verdict("card", &[], twice), Verdict::Failed(_)));
    let slow = verdict_after(Duration::from_millis(3_100), "card", &[], outcome(RESULT));
    assert!(matches!(slow, Verdict::Failed(_)));
}

#[test]
fn an_unknown_outcome_needs_an_intent_without_a_result() {
    let unknown = || outcome("result call1 OUTCOME_UNKNOWN");
    let verdict = |script, sent: &[(&str, Delivery)]| verdict(script, sent, unknown());
    assert_eq!(verdict("card", &[BEGUN]), Verdict::OutcomeUnknown);
    assert_eq!(verdict("card", &[BEGUN, finished(Delivery::Never)]), Verdict::OutcomeUnknown);
    assert_eq!(verdict("card", &[BEGUN, finished(Delivery::Late)]), Verdict::OutcomeUnknown);
    assert!(matches!(verdict("card", &[BEGUN, finished(Delivery::Prompt)]), Verdict::Failed(_)));
    assert!(matches!(verdict("card", &[]), Verdict::Failed(_)));
    assert!(matches!(verdict("idempotent", &[BEGUN]), Verdict::Failed(_)));
}
