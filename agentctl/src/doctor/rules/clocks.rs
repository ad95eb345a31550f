//! Clocks against Postgres' (leases live by it), or NATS' where that is not known.
use shared::bus::survey::Clock;
use time::OffsetDateTime;

use crate::doctor::facts::Facts;
use crate::doctor::report::Report;
use crate::workers::clock_of;

const WARNING_MS: i128 = 1_000;
const ERROR_MS: i128 = 5_000;

/// How far a clock is ahead of this host's, and how wrong that may be.
#[derive(Clone)]
struct Offset {
    name: String,
    ahead_ms: i128,
    give_or_take_ms: i128,
}

impl Offset {
    fn of(name: &str, clock: Clock) -> Self {
        let took: time::Duration = clock.heard_at - clock.asked_at;
        let middle: OffsetDateTime = clock.asked_at + took / 2;
        Self {
            name: name.to_owned(),
            ahead_ms: (clock.at - middle).whole_milliseconds(),
            give_or_take_ms: took.whole_milliseconds() / 2 + 1,
        }
    }
}

pub fn apply(facts: &Facts, report: &mut Report) {
    let here = Offset { name: "this host".to_owned(), ahead_ms: 0, give_or_take_ms: 0 };
    let postgres = facts.database.as_ref().ok().map(|known| Offset::of("Postgres", known.clock));
    let nats = facts.jetstream().and_then(|jetstream| jetstream.survey.clock);
    let nats = nats.map(|clock| Offset::of("NATS", clock));
    let workers = facts.workers().unwrap_or_default().iter().filter_map(|heard| {
        Some(Offset::of(&format!("worker {}", heard.report.worker), clock_of(heard)?))
    });
    let mut others: Vec<Offset> = postgres.into_iter().chain(nats).collect();
    if others.is_empty() {
        return;
    }
    let reference = others.remove(0);
    others.push(here);
    others.extend(workers);
    let mut is_fine = true;
    for clock in &others {
        is_fine &= agrees(clock, &reference, report);
    }
    if is_fine {
        report.ok(format!("all clocks agree with that of {}", reference.name));
    }
}

fn agrees(clock: &Offset, reference: &Offset, report: &mut Report) -> bool {
    let ahead = clock.ahead_ms - reference.ahead_ms;
    // Only what the time of the answers can't explain.
    let least = ahead.abs() - clock.give_or_take_ms - reference.give_or_take_ms;
    if least < WARNING_MS {
        return true;
    }
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    let what = format!(
        "the clock of {} is {}.{} s {direction} that of {}",
        clock.name,
        ahead.abs() / 1_000,
        ahead.abs() % 1_000 / 100,
        reference.name
    );
    let change = "let NTP set the clocks; jobs and tokens expire by them";
    if least < ERROR_MS {
        report.warning(what, change)
    } else {
        report.error(what, change)
    }
    false
}
