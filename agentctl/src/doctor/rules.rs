//! Facts in, findings out. Each rule is a function; what it can't know it leaves out.
mod clocks;
mod database;
mod flow;
mod nats;
mod pairs;
mod workers;

use crate::doctor::facts::Facts;
use crate::doctor::report::Report;
use crate::doctor::secrets::State;

pub fn apply(facts: &Facts) -> Report {
    let mut report = Report::default();
    nats::apply(facts, &mut report);
    database::apply(facts, &mut report);
    pairs::apply(facts, &mut report);
    workers::apply(facts, &mut report);
    flow::apply(facts, &mut report);
    clocks::apply(facts, &mut report);
    secrets(facts, &mut report);
    report
}

fn secrets(facts: &Facts, report: &mut Report) {
    for secret in &facts.secrets {
        let name = secret.name;
        match &secret.state {
            State::Good => report.ok(format!("{name} can be used")),
            State::Absent => report.warning(
                format!("{name} is not set here and was not checked"),
                "run the doctor with the variables of gateway and worker",
            ),
            State::Bad(problem) => {
                report.error(format!("{name}: {problem}"), format!("set {name} anew"))
            }
        }
    }
}

/// `1 job`, `2 jobs`.
fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
