//! Promises of a log, kept and broken.
use contract::event::{TurnEnd, TurnStatus};

use super::*;

/// A turn's events as `attempt:n`; `!` is its end.
fn wrong(events: &str) -> Vec<String> {
    let turn = TurnId(Uuid::nil());
    let logged: Vec<Logged> = events
        .split_whitespace()
        .map(|text| {
            let (attempt, n) = text.trim_end_matches('!').split_once(':').unwrap();
            let (attempt, n) = (attempt.parse().unwrap(), n.parse().unwrap());
            let event = if text.ends_with('!') {
                let status = TurnStatus::Completed;
                Event::TurnEnd(TurnEnd { status, text: None, usage: None, timings: None })
            } else {
                Event::StreamToken { token: "a".to_owned() }
            };
            let ts = "2026-11-30T12:00:00Z".to_owned();
            let envelope = Envelope { v: 1, turn_id: turn, attempt, n, event, ts };
            Logged { stored_at: OffsetDateTime::UNIX_EPOCH, envelope }
        })
        .collect();
    broken_promises(&logged)
}

#[test]
fn a_log_that_keeps_its_promises_is_accepted() {
    assert_eq!(wrong("0:1 1:1 1:2 1:3!"), Vec::<String>::new());
    assert_eq!(wrong("0:1 1:1 2:1 2:2 4:1!"), Vec::<String>::new());
}

#[test]
fn every_broken_promise_is_seen() {
    assert_eq!(wrong("0:1 1:1 1:3!").len(), 1, "a hole");
    assert_eq!(wrong("0:1 1:1 2:1 1:2 2:2!").len(), 2, "a worker that lost the turn");
    assert_eq!(wrong("0:1 1:1! 2:1!").len(), 1, "two ends");
    assert_eq!(wrong("0:1 1:1! 1:2").len(), 2, "something after the end");
    assert_eq!(wrong("0:1 1:1 1:2").len(), 1, "no end");
    assert_eq!(wrong("0:1 1:1 2:2!").len(), 1, "an attempt that begins in its middle");
}
