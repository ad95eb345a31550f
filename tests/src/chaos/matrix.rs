//! Many runs, several at a time, and the table of what came of them.
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::fault::{Fault, Point};
use super::outcome::Outcome;
use super::random;
use super::run::{self, Plan};
use super::script::Script;
use super::stage::Stage;
use super::verdict::{Verdict, judge};
use super::wire::{Place, Trap};

/// What the undisturbed run leaves, and every message that it takes.
#[derive(Clone)]
pub struct Reference {
    pub script: Script,
    pub outcome: Outcome,
    pub points: Vec<Point>,
}

/// A run to be made, and what it must leave.
#[derive(Clone)]
pub struct Cell {
    /// Row of the table.
    pub row: String,
    pub plan: Plan,
    pub expected: Arc<Outcome>,
    /// How to make this one run again.
    pub again: String,
}

/// Something to be run.
pub enum Work {
    Cell(Cell),
    /// Which one is up to the dice.
    Random {
        seed: u64,
        index: u64,
    },
}

pub struct Judged {
    pub row: String,
    pub verdict: Verdict,
    pub again: String,
    pub struck: String,
    pub takeover: Option<Duration>,
    pub logs: String,
}

/// Plays the script undisturbed.
pub async fn reference(stage: &Stage, number: usize, script: &Script) -> Reference {
    let plan = Plan { script: script.clone(), traps: Vec::new() };
    let report = run::run(stage, number, &plan).await;
    let points = report.notes[0].iter().map(|note| note.point.clone()).collect();
    let found = report.found.expect("the undisturbed run ends");
    let wrong = [report.wrong, found.wrong].concat();
    assert!(wrong.is_empty(), "the undisturbed run: {wrong:#?}\n{}", report.logs);
    Reference { script: script.clone(), outcome: found.outcome, points }
}

impl Reference {
    /// A cell for the fault at each of these points.
    pub fn cells(&self, fault: Fault, points: &[Point]) -> Vec<Cell> {
        let expected = Arc::new(self.outcome.clone());
        let cell = |point: &Point| Cell {
            row: format!("{} {}", self.script.name, fault.name()),
            plan: Plan {
                script: self.script.clone(),
                traps: vec![Trap { fault, place: Place::Point(point.clone()) }],
            },
            expected: Arc::clone(&expected),
            again: format!("--script {} --fault {} --at '{point}'", self.script.name, fault.name()),
        };
        points.iter().map(cell).collect()
    }
}

/// Makes all runs, one at a time on each stage. `told` hears of each.
pub async fn play(
    stages: &[Arc<Stage>],
    work: impl Iterator<Item = Work> + Send + 'static,
    patience: Duration,
    told: impl Fn(&Judged) + Send + Sync + 'static,
) -> Vec<Judged> {
    let queue = Arc::new(Mutex::new(work.enumerate()));
    let told = Arc::new(told);
    let tasks = stages.iter().map(|stage| {
        let (stage, queue, told) = (Arc::clone(stage), Arc::clone(&queue), Arc::clone(&told));
        tokio::spawn(async move {
            let mut judged = Vec::new();
            loop {
                let next = queue.lock().unwrap().next();
                let Some((number, work)) = next else { return judged };
                let number = 2 * (number + 1);
                let cell = match work {
                    Work::Cell(cell) => cell,
                    Work::Random { seed, index } => {
                        Box::pin(random::cell(&stage, number + 1, seed, index)).await
                    }
                };
                let verdict = Box::pin(one(&stage, number, cell, patience)).await;
                told(&verdict);
                judged.push(verdict);
            }
        })
    });
    let mut all = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        all.extend(task.await.unwrap());
    }
    all
}

async fn one(stage: &Stage, number: usize, cell: Cell, patience: Duration) -> Judged {
    let report = run::run(stage, number, &cell.plan).await;
    let verdict = judge(&cell.expected, &cell.plan, &report, patience);
    let struck = report.strikes.iter().map(|strike| {
        format!("{} at message {}, {}", strike.fault.name(), strike.number, strike.point)
    });
    let takeovers = report.takeovers.iter().map(|takeover| takeover.took);
    Judged {
        row: cell.row,
        verdict,
        again: cell.again,
        struck: struck.collect::<Vec<_>>().join(", then "),
        takeover: takeovers.max(),
        logs: report.logs,
    }
}

/// Stages for so many runs at a time. The first one starts alone: whatever has to be built or made once blocks the
/// threads that the others would wait on.
pub async fn stages(count: usize) -> Vec<Arc<Stage>> {
    let mut stages = vec![Arc::new(Stage::start().await)];
    let starting = (1..count).map(|_| tokio::spawn(Stage::start()));
    for stage in starting.collect::<Vec<_>>() {
        stages.push(Arc::new(stage.await.unwrap()));
    }
    stages
}

/// One line per row, in the order of their first run.
pub fn table(judged: &[Judged], began: Instant) -> String {
    let mut rows: Vec<&str> = Vec::new();
    for row in judged.iter().map(|judged| judged.row.as_str()) {
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let mut lines = vec![format!(
        "{:<28} {:>6} {:>7} {:>8} {:>7} {:>7}  {}",
        "", "runs", "passed", "unknown", "missed", "failed", "worst takeover"
    )];
    for row in rows {
        let of: Vec<&Judged> = judged.iter().filter(|judged| judged.row == row).collect();
        let count = |fits: fn(&Verdict) -> bool| of.iter().filter(|j| fits(&j.verdict)).count();
        let worst = of.iter().filter_map(|judged| judged.takeover).max();
        let worst =
            worst.map_or_else(|| "-".to_owned(), |worst| format!("{:.2} s", worst.as_secs_f64()));
        lines.push(format!(
            "{row:<28} {:>6} {:>7} {:>8} {:>7} {:>7}  {worst}",
            of.len(),
            count(|verdict| *verdict == Verdict::Passed),
            count(|verdict| *verdict == Verdict::OutcomeUnknown),
            count(|verdict| *verdict == Verdict::Missed),
            count(|verdict| matches!(verdict, Verdict::Failed(_))),
        ));
    }
    lines.push(format!("{} runs in {:.0} s", judged.len(), began.elapsed().as_secs_f64()));
    lines.join("\n")
}

impl Judged {
    /// What went wrong, and how to see it again; nothing if nothing did.
    pub fn complaint(&self) -> Option<String> {
        let Verdict::Failed(wrong) = &self.verdict else { return None };
        let struck = if self.struck.is_empty() { "undisturbed" } else { &self.struck };
        let wrong = wrong.join("\n  ");
        Some(format!("FAILED {struck}\n  {wrong}\n  again: make chaos ARGS=\"{}\"", self.again))
    }
}
