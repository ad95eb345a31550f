//! `agentctl turns`: what runs, what waits, which cards are open. Never what users wrote.
use std::collections::HashSet;

use anyhow::Context as _;
use contract::ids::{ConversationId, TurnId, UserId};
use contract::job::JobKind;
use serde::Serialize;
use shared::bus::jobs::listing::{self, Entry};
use shared::runtime::clock;
use shared::runtime::env::Env;
use shared::store::overview::{self, Cards, LeaseRow, Scope};
use time::OffsetDateTime;

use crate::args::Which;
use crate::view::{self, Format, View};
use crate::{Failure, Outcome, config, fleet};

pub async fn show(env: Env, which: &Which, format: Format) -> Result<Outcome, Failure> {
    let (nats, database) = (config::nats(&env), config::database(&env));
    env.finish()?;
    let scope = scope(which)?;
    let (bus, rows) = tokio::join!(fleet::nats(nats), fleet::database(&database));
    let (bus, rows) = (bus?, rows?);
    // Jobs first: a turn that ends in between is then neither live nor waiting, instead of both.
    let entries = listing::list(&bus).await.context("reading the jobs")?;
    let leases = overview::leases(&rows, &scope).await.context("reading the leases")?;
    let cards = overview::cards(&rows, &scope).await.context("reading the cards")?;
    view::print(&Turns::of(&leases, &entries, cards, &scope, clock::now()), format);
    Ok(Outcome::Fine)
}

fn scope(which: &Which) -> anyhow::Result<Scope> {
    let user = which.user.clone().map(UserId::try_from).transpose();
    let user = user.context("--user is not a user's id")?;
    let conversation = match (&which.conversation, &user) {
        (None, _) => None,
        (Some(name), Some(user)) => Some(
            ConversationId::from_reference(user, name).context("--conversation can't be used")?,
        ),
        (Some(id), None) => {
            Some(id.parse().ok().context("--conversation is not an id; a name needs --user")?)
        }
    };
    Ok(Scope { user, conversation })
}

#[derive(Debug, Serialize)]
struct Turns {
    turns: Vec<Running>,
    waiting: Vec<Waiting>,
    cards: OpenCards,
}

/// A turn with a lease.
#[derive(Debug, Serialize)]
struct Running {
    turn_id: TurnId,
    conversation_id: ConversationId,
    user_id: String,
    worker: String,
    kind: Option<String>,
    attempt: Option<i32>,
    /// `running`, or `stalled` once the lease has run out.
    status: &'static str,
    started_at: Option<String>,
    age_ms: Option<u64>,
    /// Negative when it has run out.
    lease_left_ms: i64,
}

/// A job nobody has a lease for.
#[derive(Debug, Serialize)]
struct Waiting {
    turn_id: Option<TurnId>,
    conversation_id: Option<ConversationId>,
    user_id: Option<UserId>,
    kind: &'static str,
    queued_at: Option<String>,
    age_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct OpenCards {
    open: i64,
    oldest_at: Option<String>,
    oldest_age_ms: Option<u64>,
}

impl Turns {
    fn of(
        leases: &[LeaseRow],
        entries: &[Entry],
        cards: Cards,
        scope: &Scope,
        now: OffsetDateTime,
    ) -> Self {
        let age_ms = |at: Option<OffsetDateTime>| at.map(|at| view::millis(view::age(at, now)));
        let running = |lease: &LeaseRow| Running {
            turn_id: lease.turn,
            conversation_id: lease.conversation,
            user_id: lease.user.clone(),
            worker: lease.owner.clone(),
            kind: lease.kind.clone(),
            attempt: lease.attempt,
            status: if lease.is_live() { "running" } else { "stalled" },
            started_at: lease.started_at.map(clock::rfc3339),
            age_ms: age_ms(lease.started_at),
            lease_left_ms: lease.left_ms,
        };
        let waiting = |entry: &&Entry| Waiting {
            turn_id: entry.content.as_ref().map(|content| content.turn),
            conversation_id: entry.conversation,
            user_id: entry.content.as_ref().map(|content| content.user.clone()),
            kind: entry.content.as_ref().map_or("unreadable", |content| kind(&content.kind)),
            queued_at: entry.stored_at.map(clock::rfc3339),
            age_ms: age_ms(entry.stored_at),
        };
        Self {
            turns: leases.iter().map(running).collect(),
            waiting: without_lease(entries, leases)
                .filter(|entry| is_in(scope, entry))
                .map(|entry| waiting(&entry))
                .collect(),
            cards: OpenCards {
                open: cards.open,
                oldest_at: cards.oldest_at.map(clock::rfc3339),
                oldest_age_ms: age_ms(cards.oldest_at),
            },
        }
    }
}

/// Jobs whose turn has no lease, live or run out.
pub fn without_lease<'a>(
    entries: &'a [Entry],
    leases: &[LeaseRow],
) -> impl Iterator<Item = &'a Entry> + use<'a> {
    let leased: HashSet<TurnId> = leases.iter().map(|lease| lease.turn).collect();
    let is_leased = move |entry: &&Entry| {
        entry.content.as_ref().is_some_and(|content| leased.contains(&content.turn))
    };
    entries.iter().filter(move |entry| !is_leased(entry))
}

fn is_in(scope: &Scope, entry: &Entry) -> bool {
    let user = entry.content.as_ref().map(|content| &content.user);
    scope.user.as_ref().is_none_or(|wanted| user == Some(wanted))
        && scope.conversation.is_none_or(|wanted| entry.conversation == Some(wanted))
}

fn kind(kind: &JobKind) -> &'static str {
    match kind {
        JobKind::Message => "message",
        JobKind::Confirm { .. } => "confirm",
        JobKind::Deny { .. } => "deny",
        JobKind::Resume => "resume",
    }
}

impl View for Turns {
    fn text(&self) -> String {
        let ms = |ms: Option<u64>| {
            ms.map_or_else(
                || "-".to_owned(),
                |ms| view::duration(std::time::Duration::from_millis(ms)),
            )
        };
        let header = [
            "STATUS",
            "TURN",
            "CONVERSATION",
            "USER",
            "KIND",
            "WORKER",
            "ATTEMPT",
            "STARTED",
            "AGE",
            "LEASE",
        ];
        let running = self.turns.iter().map(|turn| {
            [
                turn.status.to_owned(),
                turn.turn_id.to_string(),
                turn.conversation_id.to_string(),
                turn.user_id.clone(),
                view::or_dash(turn.kind.as_ref()),
                turn.worker.clone(),
                view::or_dash(turn.attempt.as_ref()),
                view::or_dash(turn.started_at.as_ref()),
                ms(turn.age_ms),
                lease_text(turn.lease_left_ms),
            ]
        });
        let waiting = self.waiting.iter().map(|job| {
            let dash = || "-".to_owned();
            [
                "queued".to_owned(),
                view::or_dash(job.turn_id.as_ref()),
                view::or_dash(job.conversation_id.as_ref()),
                view::or_dash(job.user_id.as_ref()),
                job.kind.to_owned(),
                dash(),
                dash(),
                dash(),
                ms(job.age_ms),
                dash(),
            ]
        });
        let rows: Vec<_> = running.chain(waiting).collect();
        let mut text =
            if rows.is_empty() { "no turns\n".to_owned() } else { view::table(header, &rows) };
        match self.cards.open {
            0 => {}
            1 => text += &format!("\n1 card open, for {}\n", ms(self.cards.oldest_age_ms)),
            open => {
                let oldest = ms(self.cards.oldest_age_ms);
                text += &format!("\n{open} cards open, the oldest for {oldest}\n");
            }
        }
        text
    }
}

/// What is left of a lease, or how long ago it ran out.
pub fn lease_text(left_ms: i64) -> String {
    let time = view::duration(std::time::Duration::from_millis(left_ms.unsigned_abs()));
    if left_ms > 0 { time } else { format!("expired {time} ago") }
}

#[cfg(test)]
mod tests;
