//! `agentctl dead-letters`: list, show, requeue, discard.
mod outline;
mod requeue;

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use anyhow::Context as _;
use contract::ids::UserId;
use serde::Serialize;
use serde_json::json;
use shared::bus::dead_letter::{self, Letter};
use shared::bus::{Bus, connect};
use shared::runtime::clock;
use shared::runtime::env::Env;
use shared::store::audit::{self, AuditRow};
use shared::store::pool::{self, RowPool};

use crate::args::DeadLetters;
use crate::config::{Acting, finished};
use crate::dead_letters::outline::{Listed, Shown};
use crate::view::{self, Format, View};
use crate::{Failure, Outcome, config, fleet};

pub async fn run(
    env: Env,
    action: Option<DeadLetters>,
    operator: Option<String>,
    format: Format,
) -> Result<Outcome, Failure> {
    match action.unwrap_or(DeadLetters::List) {
        DeadLetters::List => {
            let bus = reading(env).await?;
            let letters = dead_letter::list(&bus).await.context("reading the dead letters")?;
            view::print(&Listed::of(&letters, clock::now()), format);
        }
        DeadLetters::Show { seq, content } => {
            let bus = reading(env).await?;
            view::print(&Shown::of(&letter(&bus, seq).await?, content), format);
        }
        DeadLetters::Requeue { seq } => {
            let desk = Desk::open(env, operator).await?;
            view::print(&requeue::requeue(&desk, &letter(&desk.bus, seq).await?).await?, format);
        }
        DeadLetters::Discard { seq, yes } => {
            let desk = Desk::open(env, operator).await?;
            view::print(&discard(&desk, &letter(&desk.bus, seq).await?, yes).await?, format);
        }
    }
    Ok(Outcome::Fine)
}

/// What is needed to settle a letter.
struct Desk {
    bus: Bus,
    rows: RowPool,
    operator: UserId,
}

impl Desk {
    async fn open(env: Env, operator: Option<String>) -> Result<Self, Failure> {
        let (acting, database) = (Acting::load(&env, operator), config::database(&env));
        let Acting { nats, operator } = finished(env, acting)?;
        let (bus, rows) = both(nats, database).await?;
        Ok(Self { bus, rows, operator })
    }

    /// Who did what with which letter; nothing of what the user wrote.
    async fn note(&self, letter: &Letter, operation: &str, outcome: &str) -> anyhow::Result<()> {
        let outline = &letter.outline;
        let row = AuditRow {
            at: clock::now(),
            service_actor: "agentctl".to_owned(),
            user_actor: self.operator.clone(),
            operation: operation.to_owned(),
            decision: String::new(),
            outcome: outcome.to_owned(),
            conversation: outline.conversation,
            turn: outline.turn,
            tool_call_id: None,
            detail: json!({ "dead_letter": outline.seq, "user_id": outline.user, "reason": outline.reason }),
        };
        audit::append(&self.rows, &[row]).await.context("writing the audit")
    }
}

async fn both(nats: connect::Config, database: pool::Config) -> anyhow::Result<(Bus, RowPool)> {
    let (bus, rows) = tokio::join!(fleet::nats(nats), fleet::database(&database));
    Ok((bus?, rows?))
}

async fn reading(env: Env) -> Result<Bus, Failure> {
    let nats = config::nats(&env);
    env.finish()?;
    Ok(fleet::nats(nats).await?)
}

async fn letter(bus: &Bus, seq: u64) -> anyhow::Result<Letter> {
    let letter = dead_letter::get(bus, seq).await.context("reading the dead letter")?;
    letter.with_context(|| format!("there is no dead letter {seq}"))
}

async fn discard(desk: &Desk, letter: &Letter, yes: bool) -> anyhow::Result<Discarded> {
    let seq = letter.outline.seq;
    if !yes {
        confirm(seq)?;
    }
    // A deletion without a record would be worse than a record without a deletion.
    desk.note(letter, "discard", "ok").await?;
    dead_letter::delete(&desk.bus, seq).await.context("deleting the dead letter")?;
    Ok(Discarded { discarded: seq })
}

fn confirm(seq: u64) -> anyhow::Result<()> {
    let stdin = std::io::stdin();
    anyhow::ensure!(stdin.is_terminal(), "discarding is final: say --yes");
    eprint!("Discard dead letter {seq} for good? [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).context("reading the answer")?;
    let is_yes = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    anyhow::ensure!(is_yes, "nothing was discarded");
    Ok(())
}

#[derive(Debug, Serialize)]
struct Discarded {
    discarded: u64,
}

impl View for Discarded {
    fn text(&self) -> String {
        format!("dead letter {} is discarded", self.discarded)
    }
}
