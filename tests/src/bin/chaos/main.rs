//! `make chaos`: workers are struck at every message of a turn, then at random, until the time is up.
//!
//! The seed is printed; with it, and with the line printed for a failed run, the same can be done again.
mod plan;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use tests::chaos::dice::Dice;
use tests::chaos::matrix::{self, Judged, Work};
use tests::chaos::stage::Stage;

/// Strikes workers at every message they send, and compares what is left with the undisturbed run.
#[derive(Parser)]
#[command(name = "chaos")]
struct Options {
    /// Of the random part; printed, and random itself if not given.
    #[arg(long)]
    seed: Option<u64>,
    /// How long runs are begun.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// At most so many runs.
    #[arg(long)]
    cells: Option<usize>,
    /// kill-before, kill-after, freeze, cut-nats, stall-nats, cut-postgres, stall-postgres or all.
    #[arg(long, default_value = "all")]
    fault: String,
    /// Only at this message: its number or its name, as `--list` shows them.
    #[arg(long)]
    at: Option<String>,
    /// Only this script; see `--list`.
    #[arg(long)]
    script: Option<String>,
    /// Only random runs.
    #[arg(long)]
    random: bool,
    /// Only the random run of this number.
    #[arg(long)]
    run: Option<u64>,
    /// Runs at a time.
    #[arg(long, default_value_t = 6)]
    jobs: usize,
    /// The longest delay of a takeover after a death beyond `ack_wait`, in milliseconds.
    #[arg(long, default_value_t = 2_000)]
    patience_ms: u64,
    /// Prints the messages of every script, and what it leaves.
    #[arg(long)]
    list: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let seed = options.seed.unwrap_or_else(Dice::any_seed);
    println!("seed {seed}");
    let began = Instant::now();
    let stages = matrix::stages(if options.list { 1 } else { options.jobs.max(1) }).await;
    let Some(stage) = stages.first() else { return ExitCode::FAILURE };
    let work = match work(&options, stage, seed).await {
        Ok(work) => work,
        Err(problem) => {
            eprintln!("chaos: {problem}");
            return ExitCode::from(64);
        }
    };
    if options.list {
        return ExitCode::SUCCESS;
    }
    let until = began + Duration::from_secs(60 * options.minutes);
    let work =
        work.take(options.cells.unwrap_or(usize::MAX)).take_while(move |_| Instant::now() < until);
    let patience = Duration::from_millis(options.patience_ms);
    let judged = matrix::play(&stages, work, patience, tell).await;
    println!("\n{}\nseed {seed}", matrix::table(&judged, began));
    if judged.iter().any(|judged| judged.complaint().is_some()) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Everything asked for, in order: each script's matrix, then random runs without end.
async fn work(
    options: &Options,
    stage: &Arc<Stage>,
    seed: u64,
) -> Result<Box<dyn Iterator<Item = Work> + Send>, String> {
    if let Some(index) = options.run {
        return Ok(Box::new(std::iter::once(Work::Random { seed, index })));
    }
    let random = (0..).map(move |index| Work::Random { seed, index });
    if options.random {
        return Ok(Box::new(random));
    }
    let faults = plan::faults(&options.fault)?;
    let mut cells = Vec::new();
    for (number, script) in plan::scripts(options.script.as_deref())?.iter().enumerate() {
        let reference = matrix::reference(stage, 1_000_000 + number, script).await;
        if options.list {
            plan::list(&reference);
            continue;
        }
        let points = plan::points(&reference, options.at.as_deref())?;
        for fault in &faults {
            cells.extend(reference.cells(*fault, &points).into_iter().map(Work::Cell));
        }
    }
    let chosen = options.script.is_some() || options.at.is_some() || options.fault != "all";
    Ok(if chosen { Box::new(cells.into_iter()) } else { Box::new(cells.into_iter().chain(random)) })
}

fn tell(judged: &Judged) {
    match judged.complaint() {
        Some(complaint) => println!("{complaint}\n{}", judged.logs),
        None => println!("{:>8}  {}", judged.verdict.word(), judged.struck),
    }
}
