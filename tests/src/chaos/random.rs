//! Runs that dice choose: any script, any fault, and sometimes the successor is struck, too.
use std::sync::Arc;

use super::dice::Dice;
use super::fault::Fault;
use super::matrix::{self, Cell};
use super::run::Plan;
use super::script::{self, Script};
use super::stage::Stage;
use super::wire::{Place, Trap};

/// A second fault strikes early in the successor's part.
const SUCCESSOR_MESSAGES: usize = 25;

/// The random run of this number. Plays its script undisturbed first.
pub async fn cell(stage: &Stage, number: usize, seed: u64, index: u64) -> Cell {
    let mut dice = Dice::new(seed ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93));
    let script = match dice.below(3) {
        0 => Script::named(script::NAMES[dice.below(script::NAMES.len())]),
        _ => None,
    };
    let script = script.unwrap_or_else(|| Script::random(&mut dice));
    let reference = matrix::reference(stage, number, &script).await;
    let fault = Fault::ALL[dice.below(Fault::ALL.len())];
    let place = Place::Number(1 + dice.below(reference.points.len()));
    let mut traps = vec![Trap { fault, place }];
    let mut row = format!("random {}", fault.name());
    if dice.below(3) == 0 {
        let fault = Fault::ALL[dice.below(Fault::ALL.len())];
        traps.push(Trap { fault, place: Place::Number(1 + dice.below(SUCCESSOR_MESSAGES)) });
        row = "random, two in a row".to_owned();
    }
    let again = format!("--seed {seed} --run {index}");
    Cell { row, plan: Plan { script, traps }, expected: Arc::new(reference.outcome), again }
}
