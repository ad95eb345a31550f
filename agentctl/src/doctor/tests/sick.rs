//! Breaks one thing of a healthy fleet.
use expect_test::Expect;
use shared::bus::survey::{ConsumerState, StreamState};
use shared::bus::workers::Heard;

use super::healthy::facts;
use crate::doctor::facts::{DatabaseFacts, Facts, JetStreamFacts, NatsFacts};
use crate::doctor::report::Severity;
use crate::doctor::rules;
use crate::view::View as _;

/// The findings of a fleet that is healthy but for this.
#[track_caller]
pub fn check(breaking: impl FnOnce(&mut Facts), expected: Expect) {
    let mut facts = facts();
    breaking(&mut facts);
    let mut report = rules::apply(&facts);
    report.findings.retain(|finding| finding.severity != Severity::Ok);
    expected.assert_eq(&report.text());
}

pub fn nats(facts: &mut Facts) -> &mut NatsFacts {
    facts.nats.as_mut().unwrap()
}

pub fn jetstream(facts: &mut Facts) -> &mut JetStreamFacts {
    nats(facts).jetstream.as_mut().unwrap()
}

pub fn consumer(facts: &mut Facts) -> &mut ConsumerState {
    jetstream(facts).survey.consumer.as_mut().unwrap()
}

pub fn stream<'a>(facts: &'a mut Facts, name: &str) -> &'a mut StreamState {
    let streams = &mut jetstream(facts).survey.streams;
    streams.iter_mut().find(|stream| stream.name == name).unwrap()
}

pub fn workers(facts: &mut Facts) -> &mut Vec<Heard> {
    nats(facts).workers.as_mut().unwrap()
}

pub fn database(facts: &mut Facts) -> &mut DatabaseFacts {
    facts.database.as_mut().unwrap()
}
