//! Gets a queued submission's job to the workers, or tells its client why not. Runs after the join was answered.
use std::borrow::Cow;
use std::time::Duration;

use contract::error_code::ErrorCode;
use contract::event::{Envelope, Event, TurnEnd, TurnStatus};
use contract::ids::TurnId;
use contract::job::{FileRef, Job, JobKind, Locale};
use contract::subject::EventAddress;
use contract::{SCHEMA_VERSION, limits, subject, text};
use gradio::request::Action;
use serde_json::json;
use shared::bus::events::{self, PublishError, Publisher};
use shared::bus::jobs::{self, JobRefused};
use shared::bus::{Bus, control};
use shared::runtime::clock;
use shared::runtime::telemetry::attr;
use shared::runtime::trace::Trace;
use tokio::time::Instant;
use tracing::{Instrument as _, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::app::App;
use crate::files::{self, NotTaken};
use crate::load::JobPlace;
use crate::metrics;
use crate::submissions::accept::Submission;

/// What is to be done for a queued submission.
#[derive(Debug)]
pub enum Work {
    /// Publish a job.
    Job,
    /// It shows another turn: its stream does the rest.
    Nothing,
    /// Show these events, in place of a turn's own that are gone.
    Tell(Vec<Event>),
    /// Show an error instead of an answer.
    Refuse(ErrorCode),
}

/// Between two tries while the conversation is busy.
const BUSY_POLL: Duration = Duration::from_millis(50);
/// A job whose publish got no answer is tried again for so long; it is the same turn each time.
const PUBLISH_WITHIN: Duration = Duration::from_secs(10);
const PUBLISH_PAUSE: Duration = Duration::from_millis(500);

/// `place` is where the job is counted.
pub async fn dispatch(
    app: &App,
    submission: Submission,
    (address, work): (EventAddress, Work),
    place: Option<JobPlace>,
) {
    let locale = submission.locale.of_text(&submission.call.text);
    let trace = submission.trace.clone();
    let outcome = match work {
        Work::Nothing => Ok(()),
        Work::Refuse(code) => Err(Refused::plain(code)),
        Work::Tell(events) => {
            tell(&app.bus, &address, events, &trace).await;
            return;
        }
        Work::Job => enqueue(app, &submission, &address, locale).await,
    };
    if let (Ok(()), Some(place)) = (&outcome, place) {
        place.published(address.conversation);
    }
    let result = outcome.as_ref().map_or_else(|refused| refused.code.as_str(), |()| "queued");
    metrics::SUBMISSIONS.add(1, &metrics::label("outcome", result));
    if let Err(refused) = outcome {
        tracing::info!(turn.id = %address.turn, code = refused.code.as_str(), "Refused turn {}: {}", address.turn, refused.code.as_str());
        let is_told = tell(&app.bus, &address, refused.events(locale), &trace).await;
        if is_told && refused.is_uncertain {
            // Workers of the version before would run it behind its end.
            let _ = control::publish_cancel(&app.bus, address.turn, "gateway").await;
        }
    }
}

/// Ends a turn that no worker has seen. Does nothing if one has.
pub async fn give_up(bus: &Bus, address: &EventAddress, code: ErrorCode, locale: Locale) {
    tell(bus, address, Refused::plain(code).events(locale), &Trace::root()).await;
}

/// Ends a submission that shows another turn, and not that turn.
pub async fn stop_showing(bus: &Bus, address: &EventAddress) {
    tell(bus, address, vec![end(TurnStatus::Cancelled, None)], &Trace::root()).await;
}

struct Refused {
    code: ErrorCode,
    /// Where there is more to say than the code's own sentence.
    detail: Option<String>,
    live_turn: Option<TurnId>,
    /// The job may have been stored all the same. It will find its turn ended.
    is_uncertain: bool,
}

impl Refused {
    fn plain(code: ErrorCode) -> Self {
        Self { code, detail: None, live_turn: None, is_uncertain: false }
    }

    fn events(&self, locale: Locale) -> Vec<Event> {
        let error = Event::Error {
            code: self.code,
            detail: self.detail.clone().unwrap_or_else(|| self.code.text(locale).to_owned()),
            extra: self.live_turn.map(|turn| json!({"turn_id": turn})),
        };
        vec![error, end(TurnStatus::Rejected, None)]
    }
}

fn end(status: TurnStatus, text: Option<String>) -> Event {
    Event::TurnEnd(TurnEnd { status, text, usage: None, timings: None })
}

async fn enqueue(
    app: &App,
    submission: &Submission,
    address: &EventAddress,
    locale: Locale,
) -> Result<(), Refused> {
    let call = &submission.call;
    let files = files(app, submission, locale).await?;
    let sealed = app.sealer.seal(address.turn, &submission.caller.token).map_err(|error| {
        tracing::error!(%error, "Can't seal a user's token: {error}");
        Refused::plain(ErrorCode::Internal)
    })?;
    let now = clock::now();
    let mut job = Job {
        v: SCHEMA_VERSION,
        kind: kind(&call.action),
        turn_id: address.turn,
        conversation_id: address.conversation,
        conversation_ref: call.conversation.clone(),
        session: address.session.clone(),
        user_id: submission.caller.user.clone(),
        user_token: Some(sealed),
        text: String::new(),
        files,
        locale,
        created_at: clock::rfc3339(now),
        expires_at: clock::rfc3339(now + limits::JOB_EXPIRY),
    };
    let fitted = fitted(&call.text, &job);
    let mut notices = Vec::new();
    if matches!(fitted, Cow::Owned(_)) {
        notices.push(notice("MESSAGE_TRUNCATED", locale));
    }
    if call.action == Action::Unknown {
        notices.push(notice("ACTION_IGNORED", locale));
    }
    job.text = fitted.into_owned();
    if !notices.is_empty() {
        notify(&app.bus, address, notices, &submission.trace).await;
    }
    publish(app, &job, &submission.trace).await
}

async fn files(
    app: &App,
    submission: &Submission,
    locale: Locale,
) -> Result<Vec<FileRef>, Refused> {
    let named = &submission.call.files;
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let resolved = files::resolve_files(app, &submission.caller, named, locale).await;
    resolved.map_err(|NotTaken { code, detail }| Refused {
        detail: Some(detail),
        ..Refused::plain(code)
    })
}

fn kind(action: &Action) -> JobKind {
    match action {
        Action::Confirm { call } => JobKind::Confirm { tool_call_id: call.clone() },
        Action::Deny { call } => JobKind::Deny { tool_call_id: call.clone() },
        Action::Resume => JobKind::Resume,
        Action::None | Action::Unknown | Action::Attach { .. } => JobKind::Message,
    }
}

/// FR-028, and what one message on NATS can hold: four bytes a character and escapes may be more than that.
fn fitted<'a>(message: &'a str, job: &Job) -> Cow<'a, str> {
    let cut = text::truncate_message(message);
    let frame = serde_json::to_vec(job).map_or(limits::NATS_MESSAGE_BYTES, |json| json.len());
    let room = limits::NATS_MESSAGE_BYTES.saturating_sub(frame);
    if escaped_prefix(&cut, room) == cut.len() {
        return cut;
    }
    let bytes = escaped_prefix(&cut, room.saturating_sub(limits::TRUNCATION_MARK.len()));
    let (kept, _) = text::cut_bytes(&cut, bytes);
    Cow::Owned(format!("{kept}{}", limits::TRUNCATION_MARK))
}

/// How many bytes of `text` fit into `room` bytes as a JSON string.
fn escaped_prefix(text: &str, room: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            _ => c.len_utf8(),
        };
        if used > room {
            return at;
        }
    }
    text.len()
}

fn notice(code: &'static str, locale: Locale) -> Event {
    let detail = match (code, locale) {
        ("MESSAGE_TRUNCATED", Locale::En) => "Your message was too long and has been cut.",
        ("MESSAGE_TRUNCATED", Locale::Ru) => "Сообщение слишком длинное и было сокращено.",
        (_, Locale::En) => "The action is unknown and was ignored.",
        (_, Locale::Ru) => "Неизвестное действие, оно пропущено.",
    };
    Event::Warning { code: code.to_owned(), detail: detail.to_owned() }
}

/// The stream admits one job per conversation, and the last turn's may be gone in a moment.
async fn publish(app: &App, job: &Job, trace: &Trace) -> Result<(), Refused> {
    let mut patience = match job.kind {
        JobKind::Message => limits::SUBMIT_WAIT,
        JobKind::Confirm { .. } | JobKind::Deny { .. } | JobKind::Resume => limits::RESUME_WAIT,
    };
    let started = Instant::now();
    let span = info_span!("publish", otel.name = "send agent.v1.job", otel.kind = "producer");
    trace.adopt(&span);
    span.set_attribute(attr::MESSAGING, "nats");
    span.set_attribute(attr::MESSAGING_OPERATION, "send");
    span.set_attribute(attr::CONVERSATION, job.conversation_id.to_string());
    span.set_attribute(attr::TURN, job.turn_id.to_string());
    let place = trace.within(&span);
    loop {
        let published = jobs::publish(&app.bus, job, &place).instrument(span.clone()).await;
        let (refused, pause, within) = match published {
            Ok(_) => return Ok(()),
            Err(refused @ JobRefused::Busy { turn_id }) => {
                if started.elapsed() + BUSY_POLL > patience && has_ended(&app.bus, turn_id).await {
                    patience = limits::RESUME_WAIT;
                }
                (refused, BUSY_POLL, patience)
            }
            Err(refused @ JobRefused::Unavailable(_)) => (refused, PUBLISH_PAUSE, PUBLISH_WITHIN),
            Err(refused @ (JobRefused::Full | JobRefused::TooLarge)) => {
                (refused, Duration::ZERO, Duration::ZERO)
            }
        };
        if started.elapsed() + pause > within {
            return Err(explain(app, job, refused).await);
        }
        tokio::time::sleep(pause).await;
    }
}

/// A turn that has told its end is over for its user; only its job is still to be acked.
async fn has_ended(bus: &Bus, turn: Option<TurnId>) -> bool {
    let Some(turn) = turn else { return false };
    let last = events::last(bus, &subject::events_of_turn(turn)).await;
    last.is_ok_and(|last| last.is_some_and(|last| last.envelope.event.is_terminal()))
}

async fn explain(app: &App, job: &Job, refused: JobRefused) -> Refused {
    match refused {
        JobRefused::Busy { turn_id } => match jobs::active(&app.bus, job.conversation_id).await {
            // Somebody else's conversation, so new that the database has not heard of it.
            Ok(Some(live)) if live.user_id != job.user_id => Refused::plain(ErrorCode::NotFound),
            Ok(_) | Err(_) => {
                let code = ErrorCode::ConversationBusy;
                Refused { live_turn: turn_id, ..Refused::plain(code) }
            }
        },
        JobRefused::Full => Refused::plain(ErrorCode::QueueFull),
        JobRefused::TooLarge => Refused::plain(ErrorCode::BadRequest),
        JobRefused::Unavailable(error) => {
            tracing::error!(turn.id = %job.turn_id, %error, "Can't publish the job of turn {}: {error}", job.turn_id);
            Refused { is_uncertain: true, ..Refused::plain(ErrorCode::Unavailable) }
        }
    }
}

/// What the user should know of a job before it runs. Another gateway may have said it before.
async fn notify(bus: &Bus, address: &EventAddress, notices: Vec<Event>, trace: &Trace) {
    let notifying = async {
        match Unbegun::open(bus, address).await? {
            Some(turn) if turn.last == 0 => turn.append(notices, trace).await.map(|()| true),
            Some(_) | None => Ok(false),
        }
    };
    report(address, notifying.await);
}

/// Appends the gateway's own events to a turn, unless a worker has begun it. Whether they are there.
async fn tell(bus: &Bus, address: &EventAddress, events: Vec<Event>, trace: &Trace) -> bool {
    let telling = async {
        match Unbegun::open(bus, address).await? {
            Some(turn) => turn.append(events, trace).await.map(|()| true),
            None => Ok(false),
        }
    };
    report(address, telling.await)
}

fn report(address: &EventAddress, told: Result<bool, PublishError>) -> bool {
    told.unwrap_or_else(|error| {
        tracing::error!(turn.id = %address.turn, %error, "Can't tell what became of turn {}: {error}", address.turn);
        false
    })
}

/// The events of a turn that no worker has taken and that has not ended.
struct Unbegun {
    publisher: Publisher,
    turn: TurnId,
    /// Number of the newest one.
    last: u64,
}

impl Unbegun {
    async fn open(bus: &Bus, address: &EventAddress) -> Result<Option<Self>, PublishError> {
        let EventAddress { conversation, session, turn } = address;
        let publisher = Publisher::open(bus, *conversation, session, *turn)
            .await
            .map_err(PublishError::Unavailable)?;
        let tail = publisher.tail().map(|tail| &tail.envelope);
        let unbegun = tail.filter(|tail| tail.attempt == 0 && !tail.event.is_terminal());
        let Some(last) = unbegun.map(|tail| tail.n) else { return Ok(None) };
        Ok(Some(Self { publisher, turn: *turn, last }))
    }

    async fn append(mut self, events: Vec<Event>, trace: &Trace) -> Result<(), PublishError> {
        for (n, event) in (self.last + 1..).zip(events) {
            let ts = clock::rfc3339(clock::now());
            let envelope =
                Envelope { v: SCHEMA_VERSION, turn_id: self.turn, attempt: 0, n, event, ts };
            self.publisher.publish(&envelope, trace).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
