//! Runs a dead letter's message again: as a new turn, since a turn ends only once, and without a token.
use anyhow::{Context as _, bail};
use contract::event::{Envelope, Event, Queued};
use contract::ids::TurnId;
use contract::job::{Job, JobKind};
use contract::{SCHEMA_VERSION, limits, subject};
use serde::Serialize;
use shared::bus::dead_letter::{self, Letter};
use shared::bus::events::{self, Publisher};
use shared::bus::jobs::{self, JobRefused};
use shared::runtime::clock;
use shared::runtime::trace::Trace;
use shared::store::requeue::{TakeOver, TakenOver, has_begun, take_over};
use uuid::Uuid;

use super::Desk;
use crate::view::View;

/// Turns that were queued, and refused before they began.
const MOST_SUCCESSORS: usize = 16;

#[derive(Debug, Serialize)]
pub struct Requeued {
    requeued: u64,
    turn_id: TurnId,
    /// Somebody had done so before; only the letter had stayed.
    before: bool,
}

impl View for Requeued {
    fn text(&self) -> String {
        let (seq, turn) = (self.requeued, self.turn_id);
        if self.before {
            return format!("dead letter {seq} was requeued before as turn {turn}; it is removed");
        }
        format!("dead letter {seq} is requeued as turn {turn}")
    }
}

/// May be repeated at any point: the new turn's id follows from the old one's, so that it runs once.
pub(super) async fn requeue(desk: &Desk, letter: &Letter) -> anyhow::Result<Requeued> {
    let seq = letter.outline.seq;
    let job = runnable(letter)?;
    let (turn, before) = match next_turn(desk, job).await? {
        Next::Taken(turn) => (turn, true),
        Next::Free { from, to } => {
            move_message(desk, job, &from, to).await?;
            announce(desk, job, to).await?;
            publish(desk, job, to).await?;
            (to, false)
        }
    };
    desk.note(letter, "requeue", if before { "before" } else { "ok" }).await?;
    dead_letter::delete(&desk.bus, seq)
        .await
        .context("the turn is requeued; deleting its letter")?;
    Ok(Requeued { requeued: seq, turn_id: turn, before })
}

fn runnable(letter: &Letter) -> anyhow::Result<&Job> {
    let seq = letter.outline.seq;
    let Some(job) = &letter.job else {
        bail!("dead letter {seq} can't be read as a job; discard it");
    };
    let kind = match &job.kind {
        JobKind::Message => return Ok(job),
        JobKind::Confirm { .. } => "confirm",
        JobKind::Deny { .. } => "deny",
        JobKind::Resume => "resume",
    };
    bail!("dead letter {seq} is a `{kind}`, which its user must say again; discard it")
}

enum Next {
    /// The message runs, or ran, as this turn.
    Taken(TurnId),
    /// `from` had the message before.
    Free { from: Vec<TurnId>, to: TurnId },
}

async fn next_turn(desk: &Desk, job: &Job) -> anyhow::Result<Next> {
    let active = jobs::active(&desk.bus, job.conversation_id).await;
    let active = active.context("reading the conversation's job")?.map(|job| job.turn_id);
    let (mut from, mut to) = (vec![job.turn_id], successor(job.turn_id));
    while from.len() < MOST_SUCCESSORS {
        if active == Some(to) || has_begun(&desk.rows, to).await.context("reading the turn")? {
            return Ok(Next::Taken(to));
        }
        let filter = subject::event(job.conversation_id, &job.session, to);
        let last = events::last(&desk.bus, &filter).await.context("reading the turn's events")?;
        if last.is_some_and(|last| last.envelope.event.is_terminal()) {
            // Queued once, and refused: that one has ended without having begun.
            from.push(to);
            to = successor(to);
            continue;
        }
        if let Some(turn) = active {
            bail!("the conversation is busy with turn {turn}; try again when that has ended");
        }
        return Ok(Next::Free { from, to });
    }
    bail!("its turns are refused again and again; discard it")
}

/// The id under which a given-up turn runs again: the same for whoever asks.
fn successor(turn: TurnId) -> TurnId {
    let hash = Uuid::new_v5(&turn.0, b"requeue").into_bytes();
    let mut millis = [0; 8];
    let mut random = [0; 10];
    for (to, from) in millis.iter_mut().skip(2).zip(turn.0.as_bytes()) {
        *to = *from;
    }
    for (to, from) in random.iter_mut().zip(hash) {
        *to = from;
    }
    let id = uuid::Builder::from_unix_timestamp_millis(u64::from_be_bytes(millis), &random);
    TurnId(id.into_uuid())
}

async fn move_message(desk: &Desk, job: &Job, from: &[TurnId], to: TurnId) -> anyhow::Result<()> {
    let take = TakeOver { conversation: job.conversation_id, user: &job.user_id, from, to };
    match take_over(&desk.rows, &take).await.context("moving the message")? {
        TakenOver::Done => Ok(()),
        TakenOver::Live(turn) => {
            bail!("the conversation is busy with turn {turn}; try again when that has ended")
        }
        TakenOver::Archived => bail!("the conversation is archived; discard the letter"),
        TakenOver::NotOwner => bail!("the conversation is another user's; discard the letter"),
    }
}

/// As a gateway does, before the job.
async fn announce(desk: &Desk, job: &Job, turn: TurnId) -> anyhow::Result<()> {
    let (bus, conversation) = (&desk.bus, job.conversation_id);
    let opened = Publisher::open(bus, conversation, &job.session, turn).await;
    let mut publisher = opened.context("reading the turn's events")?;
    if publisher.tail().is_some() {
        return Ok(());
    }
    let old = subject::event(conversation, &job.session, job.turn_id);
    let first = events::first(bus, &old).await.context("reading the old turn's events")?;
    let session_hash = match first.map(|first| first.envelope.event) {
        Some(Event::Queued(queued)) => queued.session_hash,
        // With a name that nobody knows, nobody can cancel by it.
        Some(_) | None => Uuid::new_v4().to_string(),
    };
    let queued = Queued {
        user_id: job.user_id.clone(),
        session_hash,
        conversation_ref: job.conversation_ref.clone(),
        ahead: 0,
        attach: None,
        digest: None,
    };
    let envelope = Envelope {
        v: SCHEMA_VERSION,
        turn_id: turn,
        attempt: 0,
        n: 0,
        event: Event::Queued(queued),
        ts: clock::rfc3339(clock::now()),
    };
    let published = publisher.publish(&envelope, &Trace::root()).await;
    published.context("announcing the turn").map(drop)
}

async fn publish(desk: &Desk, job: &Job, turn: TurnId) -> anyhow::Result<()> {
    let now = clock::now();
    let job = Job {
        turn_id: turn,
        user_token: None,
        created_at: clock::rfc3339(now),
        expires_at: clock::rfc3339(now + limits::JOB_EXPIRY),
        ..job.clone()
    };
    match jobs::publish(&desk.bus, &job, &Trace::root()).await {
        Ok(_) => Ok(()),
        Err(JobRefused::Unavailable(error)) => Err(error)
            .context("the job may be queued or not; repeat the command, it will not run twice"),
        Err(refused @ (JobRefused::Busy { .. } | JobRefused::Full | JobRefused::TooLarge)) => {
            Err(refused).context("the job is refused; try again later")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_turns_id_follows_from_the_last_one() {
        let turn: TurnId = "0199c1a2-0001-7000-8000-000000000001".parse().unwrap();
        let next = successor(turn);
        assert_eq!(next, successor(turn));
        assert_eq!(next.0.get_version_num(), 7);
        assert_eq!(next.0.as_bytes()[..6], turn.0.as_bytes()[..6]);
        let further = successor(next);
        assert!(further != next && further != turn && next != turn);
    }
}
