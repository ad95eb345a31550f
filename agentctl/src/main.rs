//! `agentctl`: looks at a fleet, drains a worker, settles dead letters, asks the doctor.
//!
//! In reading order: [`args`] what can be asked, [`config`] the same variables as the services', [`fleet`] the
//! way to NATS and Postgres, [`view`] how answers are shown, then one module per command.
mod args;
mod config;
mod dead_letters;
mod doctor;
mod drain;
mod fleet;
mod leases;
mod turns;
mod view;
mod workers;

use std::process::ExitCode;

use clap::Parser as _;
use shared::runtime::env::{Env, Problem};
use shared::runtime::tls;

use crate::args::{Arguments, Command};
use crate::view::Format;

/// sysexits.h: the configuration can't be used.
const BAD_CONFIGURATION: u8 = 64;

/// How a command that ran to its end left things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    /// What was found, or could not be done, was said.
    NotFine,
}

#[derive(Debug)]
enum Failure {
    Configuration(Vec<Problem>),
    Other(anyhow::Error),
}

impl From<Vec<Problem>> for Failure {
    fn from(problems: Vec<Problem>) -> Self {
        Self::Configuration(problems)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    tls::install_provider();
    match run(Arguments::parse()).await {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::NotFine) => ExitCode::FAILURE,
        Err(Failure::Configuration(problems)) => {
            for problem in problems {
                eprintln!("agentctl: {problem}");
            }
            ExitCode::from(BAD_CONFIGURATION)
        }
        Err(Failure::Other(error)) => {
            eprintln!("agentctl: {}", one_line(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<Outcome, Failure> {
    let format = if arguments.json { Format::Json } else { Format::Text };
    let env = Env::process();
    match arguments.command {
        Command::Turns(which) => turns::show(env, &which, format).await,
        Command::Leases => leases::show(env, format).await,
        Command::Workers => workers::show(env, format).await,
        Command::Drain(what) => drain::drain(env, &what, arguments.operator, format).await,
        Command::DeadLetters { action } => {
            dead_letters::run(env, action, arguments.operator, format).await
        }
        Command::Doctor(how) => doctor::examine(env, &how, format).await,
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
