//! Turns that end without a run: refused, expired, poisoned, or ended before and told again.
use contract::error_code::ErrorCode;
use contract::event::{Event, TurnEnd, TurnStatus};
use contract::job::{Job, Locale};
use contract::text;
use serde_json::Value;
use shared::bus::dead_letter;
use shared::bus::events::Publisher;
use shared::store::turns::{self, Commit, RunChange};
use tracing::{error, info};

use super::{Outcome, Story, unavailable};
use crate::driver::commit::empty_commit;
use crate::driver::{Stop, Turn, emit::Emitter};

impl Story<'_> {
    /// Nothing of this turn is stored: tells the user why and lets the job go.
    pub(super) async fn refuse(
        &self,
        publisher: Publisher,
        code: ErrorCode,
    ) -> Result<Outcome, Stop> {
        info!(code = code.as_str(), "Turn refused: {}", code.as_str());
        let events = failure(self.job, code, TurnStatus::Rejected);
        self.tell_once(publisher, events).await
    }

    /// The turn ended before, but its job is still here: the worker died between its last commit and its ack.
    pub(super) async fn finished(
        &self,
        outbox: Value,
        publisher: Publisher,
    ) -> Result<Outcome, Stop> {
        let events: Vec<Event> = serde_json::from_value(outbox).map_err(|error| {
            Stop::Unavailable(anyhow::Error::new(error).context("reading an outbox"))
        })?;
        self.tell_once(publisher, events).await
    }

    /// The third attempt died, too.
    pub(super) async fn poisoned(
        &self,
        attempt: u32,
        epoch: i64,
        publisher: Publisher,
    ) -> Result<Outcome, Stop> {
        error!(
            attempt,
            "A job was given up after its workers died; a copy goes to the dead letters"
        );
        let events = failure(self.job, ErrorCode::WorkerCrashed, TurnStatus::Failed);
        let outbox =
            serde_json::to_value(&events).map_err(|error| Stop::Unavailable(error.into()))?;
        dead_letter::publish(&self.app.bus, self.job, "attempts exhausted")
            .await
            .map_err(unavailable)?;
        let commit = Commit {
            cursor: publisher.last_seq(),
            run: RunChange::Clear,
            finish: Some((TurnStatus::Failed, outbox)),
            release_lease: true,
            ..empty_commit(self.job, epoch)
        };
        turns::commit(&self.app.pool, &commit).await?;
        self.tell_once(publisher, events).await
    }

    /// Publishes what the event log does not have yet.
    async fn tell_once(&self, publisher: Publisher, events: Vec<Event>) -> Result<Outcome, Stop> {
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
        serde_json::to_value(&closing.events).map_err(|error| Stop::Unavailable(error.into()))?;
    let commit = Commit {
        cursor: emitter.cursor(),
        run: closing.run,
        append_parts: closing.append_parts,
        finish: Some((closing.status, outbox)),
        audit: closing.audit,
        release_lease: true,
        ..turn.empty_commit()
    };
    turns::commit(&turn.app.pool, &commit).await?;
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

/// Documents are not read by this version: the user is told, file by file.
pub(super) fn file_warnings(job: &Job) -> Vec<Event> {
    let locale = job.locale.of_text(&job.text);
    let warning = |name: &str| {
        let detail = match locale {
            Locale::Ru => format!("Файл «{name}» принят, но его содержимое не прочитано."),
            Locale::En => {
                format!("The file \"{name}\" was received, but its content was not read.")
            }
        };
        Event::Warning { code: ErrorCode::FileUnreadable.as_str().to_owned(), detail }
    };
    job.files.iter().map(|file| warning(&file.name)).collect()
}
