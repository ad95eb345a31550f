//! What can be asked on the command line.
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "agentctl",
    version,
    about = "The operator's view of a fleet. Configured by the services' environment variables."
)]
pub struct Arguments {
    /// Answer in JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// Who you are, for the audit; the default is $USER.
    #[arg(long = "as", value_name = "NAME", global = true)]
    pub operator: Option<String>,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Turns that run or wait, and open cards.
    Turns(Which),
    /// Who holds which conversation, and until when.
    Leases,
    /// Which workers answer, and how they are.
    Workers,
    /// Make a worker do what it does on SIGTERM: finish, hand over the rest, exit.
    Drain(Drain),
    /// Jobs that were given up.
    #[command(visible_alias = "dlq")]
    DeadLetters {
        #[command(subcommand)]
        action: Option<DeadLetters>,
    },
    /// Check what must agree; one line per finding, with what to change.
    Doctor(Doctor),
}

#[derive(Args)]
pub struct Which {
    /// Of this user only.
    #[arg(long)]
    pub user: Option<String>,
    /// Of this conversation only: its id, or with --user the name it has there.
    #[arg(long)]
    pub conversation: Option<String>,
}

#[derive(Args)]
pub struct Drain {
    /// WORKER_NAME, as `agentctl workers` shows it.
    pub worker: String,
    /// How long to wait for its end.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub wait: Duration,
}

#[derive(Subcommand)]
pub enum DeadLetters {
    /// All of them, oldest first (the default).
    List,
    /// One of them.
    Show {
        seq: u64,
        /// Show what the user wrote, too.
        #[arg(long)]
        content: bool,
    },
    /// Run its message again, as a new turn of the same conversation; without the user's token.
    Requeue { seq: u64 },
    /// Delete it.
    Discard {
        seq: u64,
        /// Don't ask.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args)]
pub struct Doctor {
    /// Say what is fine, too.
    #[arg(long)]
    pub verbose: bool,
    /// How many gateways there are.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub gateways: u32,
    /// Jobs may wait so long.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub waiting_over: Duration,
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn dead_letters_have_a_short_name() {
        let parsed = Arguments::try_parse_from(["agentctl", "dlq", "show", "7", "--json"]).unwrap();
        assert!(parsed.json);
        let Command::DeadLetters { action: Some(DeadLetters::Show { seq: 7, content: false }) } =
            parsed.command
        else {
            panic!("not understood");
        };
    }
}
