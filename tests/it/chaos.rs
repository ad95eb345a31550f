//! A worker is struck at every message of a turn; nobody can tell afterwards.
use std::time::{Duration, Instant};

use tests::chaos::fault::{Fault, Point};
use tests::chaos::matrix::{self, Reference, Work};
use tests::chaos::script::Script;
use tests::chaos::verdict::Verdict;

/// Beyond `ack_wait` 1 s is the promise; the rest is for a machine that does other things, too.
const PATIENCE: Duration = Duration::from_secs(3);
const RUNS_AT_A_TIME: usize = 6;

/// The turn of the matrix must have the messages that matter, else the matrix shows nothing.
fn is_worth_it(reference: &Reference) {
    let labels: Vec<String> = reference.points.iter().map(ToString::to_string).collect();
    let wanted = [
        "pg agent_begin_turn #2",
        "pg agent_journal_begin #1",
        "pg agent_journal_finish #1",
        "pg agent_decide #1",
        "backend GET /api/dashboards #1",
        "backend GET /api/health/summary #1",
        "backend POST /api/git/repositories/42/deploy #1",
        "nats EV confirm_required #1",
        "nats EV turn_end #2",
        "nats +ACK #2",
    ];
    for label in wanted {
        assert!(labels.iter().any(|known| known == label), "no {label} in {labels:#?}");
    }
}

/// At every `stride`th message, from `phase` on.
async fn strike(fault: Fault, phase: usize, stride: usize) {
    let began = Instant::now();
    let stages = matrix::stages(RUNS_AT_A_TIME).await;
    let reference = matrix::reference(&stages[0], 0, &Script::named("card").unwrap()).await;
    is_worth_it(&reference);
    let points: Vec<Point> = reference.points.iter().skip(phase).step_by(stride).cloned().collect();
    let cells = reference.cells(fault, &points).into_iter().map(Work::Cell);
    let judged = matrix::play(&stages, cells, PATIENCE, |_| {}).await;
    let complaints: Vec<String> = judged.iter().filter_map(matrix::Judged::complaint).collect();
    let missed = judged.iter().filter(|judged| judged.verdict == Verdict::Missed).count();
    eprintln!("{}", matrix::table(&judged, began));
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert_eq!(missed, 0, "messages that are not sent in every run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_after_any_message_changes_nothing() {
    strike(Fault::KillAfter, 0, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_before_any_message_changes_nothing() {
    strike(Fault::KillBefore, 0, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_sleeps_at_any_message_changes_nothing() {
    strike(Fault::Freeze, 0, 1).await;
}

// A lost connection comes as a reset or as silence; each message meets one of the two. `make chaos` has all.

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_cut_off_from_nats_changes_nothing() {
    strike(Fault::CutNats, 0, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_between_a_worker_and_nats_changes_nothing() {
    strike(Fault::StallNats, 1, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_cut_off_from_postgres_changes_nothing() {
    strike(Fault::CutPostgres, 0, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_between_a_worker_and_postgres_changes_nothing() {
    strike(Fault::StallPostgres, 1, 2).await;
}
