//! Turns that end without a run: refused, expired, poisoned, or ended before and told again.
use contract::error_code::ErrorCode;
use contract::event::{Event, TurnEnd, TurnStatus};
use contract::job::{Job, Locale};
use contract::text;
use serde_json::Value;
use shared::bus::events::Publisher;
use shared::store::turns::{self, Commit, RunChange};
use tracing::info;

use super::{Opened, Outcome, Story, unavailable};
use crate::driver::commit::empty_commit;
use crate::driver::{Stop, Turn, emit::Emitter};
use crate::lease::Lease;

impl Story<'_> {
    /// Nothing of this turn is stored: tells the user why and lets the job go.
    pub(super) async fn refuse(
        &self,
        opened: Opened<'_>,
        code: ErrorCode,
    ) -> Result<Outcome, Stop> {
        info!(code = code.as_str(), "Turn refused: {}", code.as_str());
        let events = failure(self.job, code, TurnStatus::Rejected);
        let publisher = opened.await.0.map_err(unavailable)?;
        self.tell_once(publisher, events).await
    }

    /// The turn ended before, but its job is still here: the worker died between its last commit and its ack.
    pub(super) async fn finished(
        &self,
        outbox: Value,
        opened: Opened<'_>,
    ) -> Result<Outcome, Stop> {
        let events: Vec<Event> = serde_json::from_value(outbox).map_err(|error| {
            Stop::Broken(anyhow::Error::new(error).context("reading an outbox"))
        })?;
        let publisher = opened.await.0.map_err(unavailable)?;
        self.tell_once(publisher, events).await
    }

    /// The gateway had given the turn up and said so, as it was begun here.
    pub(super) async fn withdraw(&self, epoch: i64, lease: &Lease) -> Result<(), Stop> {
        info!("The turn was refused before it began");
        let commit = Commit {
            finish: Some((TurnStatus::Rejected, Value::Array(Vec::new()))),
            release_lease: true,
            ..empty_commit(self.job, epoch)
        };
        lease.conclude(turns::commit(&self.app.pool, &commit)).await?;
        Ok(())
    }

    /// Publishes what the event log does not have yet.
    pub(super) async fn tell_once(
        &self,
        publisher: Publisher,
        events: Vec<Event>,
    ) -> Result<Outcome, Stop> {
        let tail = publisher.tail().map(|stored| stored.envelope.clone());
        let (told, attempt) = match tail {
            Some(tail) if tail.event.is_terminal() => return Ok(Outcome::Done),
            Some(tail) => {
                let told =
                    events.iter().position(|event| *event == tail.event).map_or(0, |at| at + 1);
                (told, tail.attempt + 1)
            }
            None => (0, 1),
        };
        let mut emitter = self.emitter(publisher, attempt);
        for event in events.into_iter().skip(told) {
            emitter.emit(event).await?;
        }
        Ok(Outcome::Done)
    }
}

/// Ends a turn that has no run of its own, with its row, its lease and its events.
pub(super) struct Closing {
    pub run: RunChange,
    pub append_parts: Option<(contract::ids::TurnId, Value)>,
    pub status: TurnStatus,
    pub events: Vec<Event>,
    pub audit: Vec<shared::store::audit::AuditRow>,
}

pub(super) async fn close(
    turn: &Turn,
    emitter: &mut Emitter,
    closing: Closing,
) -> Result<(), Stop> {
    let outbox =
        serde_json::to_value(&closing.events).map_err(|error| Stop::Broken(error.into()))?;
    let commit = Commit {
        cursor: emitter.cursor(),
        run: closing.run,
        append_parts: closing.append_parts,
        finish: Some((closing.status, outbox)),
        audit: closing.audit,
        release_lease: true,
        ..turn.empty_commit()
    };
    turn.commit_last(&commit).await?;
    for event in closing.events {
        emitter.emit(event).await?;
    }
    Ok(())
}

/// What a job that waited too long ends with.
pub(super) fn expired(job: &Job) -> Value {
    serde_json::to_value(failure(job, ErrorCode::Unavailable, TurnStatus::Rejected))
        .unwrap_or_default()
}

pub(super) fn failure(job: &Job, code: ErrorCode, status: TurnStatus) -> Vec<Event> {
    let detail = code.text(job.locale.of_text(&job.text)).to_owned();
    vec![Event::Error { code, detail, extra: None }, ended(status)]
}

pub(super) fn ended(status: TurnStatus) -> Event {
    Event::TurnEnd(TurnEnd { status, text: Some(String::new()), usage: None, timings: None })
}

/// DECISIONS 28: the first message, or the first file's name.
pub(super) fn title(job: &Job) -> String {
    let title = text::title(&job.text);
    match job.files.first() {
        Some(file) if title.is_empty() => text::title(&file.name),
        Some(_) | None => title,
    }
}

pub(super) fn cut_warning(locale: Locale) -> Event {
    let detail = match locale {
        Locale::Ru => "Сообщение слишком длинное для модели: использовано только начало.",
        Locale::En => "The message is too long for the model: only its beginning was used.",
    };
    Event::Warning { code: "MESSAGE_CUT".to_owned(), detail: detail.to_owned() }
}
