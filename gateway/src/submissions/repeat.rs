//! The same submission once more: its client never read the first answer, or tries again elsewhere.
//!
//! With an id of the client's own the turn's id follows from it, so that every repeat finds the turn: in the log,
//! or in the database when the log has forgotten it. Without one, only a submission that says the same in the
//! same session a few seconds later is taken for a repeat, and only while nobody can have read of the first.
use std::time::Duration;

use contract::control::{SessionAnswer, SessionAsk};
use contract::error_code::ErrorCode;
use contract::event::{Attach, Event, Queued, TurnStatus};
use contract::ids::{ClientMessage, TurnId};
use contract::subject::{self, EventAddress};
use contract::{limits, text};
use gradio::request::{Action, ChatCall};
use serde_json::Value;
use shared::bus;
use shared::bus::control::{self, Asked};
use shared::bus::events::{self, Stored};
use shared::runtime::clock;
use shared::runtime::digest::sha256_hex;
use shared::store::turns::{self, StoredTurn};

use crate::app::App;
use crate::submissions::accept::{
    EventSlot, Queueing, Submission, Taken, admit, fresh, queue, slot, take_as,
};
use crate::submissions::attach;
use crate::submissions::dispatch::Work;
use crate::submissions::plan::{Plan, plan};

/// A submission that was refused before anything of it was started may be tried again under its id so often.
const TRIES: u32 = 8;
/// A client whose join was answered has opened the session's stream after this long.
const OPENED_WITHIN: Duration = Duration::from_secs(1);
const OPENED_POLL: Duration = Duration::from_millis(25);
/// The database knows what the log has forgotten. Without it, a worker finds out as it begins the turn.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(1);

/// A submission of this turn that the log has.
struct Earlier {
    address: EventAddress,
    /// Its first event: `queued`, unless that one is too old.
    first: Stored,
    last: Stored,
}

/// What is known of the newest try under a client's id.
enum Known {
    Nothing,
    Logged(u32, Box<Earlier>),
    Stored(StoredTurn),
}

/// A submission whose client gave it an id.
pub async fn take_named(app: &App, submission: &Submission, id: &str) -> Result<Taken, ErrorCode> {
    let turns = tries(submission, id);
    let digest = digest(&submission.call);
    let (mut number, mut earlier) = match known(app, submission, &turns).await? {
        Known::Nothing => (0, None),
        Known::Logged(number, earlier) => (number, Some(earlier)),
        Known::Stored(stored) => return take_stored(app, submission, stored).await,
    };
    loop {
        if let Some(found) = earlier.take() {
            if number + 1 == TRIES || !may_be_tried_again(app, &found).await? {
                return take_again(app, submission, &found, &digest).await;
            }
            number += 1;
        }
        let Some(turn) = turns.get(number as usize) else { return Err(ErrorCode::Internal) };
        let slot = slot(submission, *turn)?;
        let plan = plan(app, submission, *turn).await;
        let place = admit(app, submission, (*turn, &plan)).await?;
        let queueing =
            Queueing { slot: &slot, plan: &plan, digest: Some(digest.clone()), repeats: None };
        let placed = queue(app, submission, queueing).await?;
        if !placed.duplicate {
            return Ok(Taken::new(slot, plan, place));
        }
        let first = events::at(&app.bus, placed.seq).await.map_err(unavailable)?;
        earlier = Some(Box::new(last_of(app, first.ok_or(ErrorCode::Unavailable)?).await?));
    }
}

/// The turns that an id stands for, in the order in which they are tried.
fn tries(submission: &Submission, id: &str) -> Vec<TurnId> {
    let conversation = submission.call.conversation.as_deref().unwrap_or_default();
    let user = &submission.caller.user;
    (0..TRIES)
        .map(|refusals| TurnId::of_message(ClientMessage { user, conversation, id, refusals }))
        .collect()
}

async fn known(app: &App, submission: &Submission, turns: &[TurnId]) -> Result<Known, ErrorCode> {
    let stored = tokio::time::timeout(
        LOOK_UP_WITHIN,
        turns::begun(&app.rows, &submission.caller.user, turns),
    );
    let (logged, stored) = tokio::join!(logged(app, turns), stored);
    if let Some((number, earlier)) = logged? {
        return Ok(Known::Logged(number, earlier));
    }
    let stored = match stored {
        Ok(Ok(stored)) => stored.into_iter().next(),
        Ok(Err(error)) => {
            tracing::warn!(%error, "Can't look up whether a message was sent before: {error}");
            None
        }
        Err(_) => {
            tracing::warn!("Can't look up whether a message was sent before: no answer");
            None
        }
    };
    let Some(stored) = stored else { return Ok(Known::Nothing) };
    // It may have come between the two looks.
    Ok(match self::logged(app, turns).await? {
        Some((number, earlier)) => Known::Logged(number, earlier),
        None => Known::Stored(stored),
    })
}

/// The newest of these turns that the log has, and its number.
async fn logged(app: &App, turns: &[TurnId]) -> Result<Option<(u32, Box<Earlier>)>, ErrorCode> {
    let number = |last: &Stored| turns.iter().position(|turn| *turn == last.address.turn);
    let lasts = events::last_of_turns(&app.bus, turns).await.map_err(unavailable)?;
    let newest = lasts.into_iter().max_by_key(number);
    let Some((number, last)) = newest.and_then(|last| Some((number(&last)?, last))) else {
        return Ok(None);
    };
    let subject = event_subject(&last.address);
    let first = events::first(&app.bus, &subject).await.map_err(unavailable)?;
    let (address, first) = (last.address.clone(), first.unwrap_or_else(|| last.clone()));
    let number = u32::try_from(number).unwrap_or_default();
    Ok(Some((number, Box::new(Earlier { address, first, last }))))
}

async fn last_of(app: &App, first: Stored) -> Result<Earlier, ErrorCode> {
    let last = events::last(&app.bus, &event_subject(&first.address)).await.map_err(unavailable)?;
    let last = last.unwrap_or_else(|| first.clone());
    Ok(Earlier { address: first.address.clone(), first, last })
}

/// Refused for a reason that passes, before anything was started.
async fn may_be_tried_again(app: &App, earlier: &Earlier) -> Result<bool, ErrorCode> {
    if !matches!(&earlier.last.envelope.event, Event::TurnEnd(end) if end.status == TurnStatus::Rejected)
    {
        return Ok(false);
    }
    let (subject, from) = (event_subject(&earlier.address), earlier.first.seq);
    let told = events::replay(&app.bus, &subject, from).await.map_err(unavailable)?;
    let reason = told.iter().rev().find_map(|stored| {
        if let Event::Error { code, .. } = &stored.envelope.event { Some(*code) } else { None }
    });
    Ok(reason.is_some_and(ErrorCode::is_retryable))
}

/// The turn is there: the caller gets its event if nobody was told of it, else one that shows it.
async fn take_again(
    app: &App,
    submission: &Submission,
    earlier: &Earlier,
    digest: &str,
) -> Result<Taken, ErrorCode> {
    let Earlier { address, first, last } = earlier;
    let turn = address.turn;
    let queued = queued(first);
    if queued.and_then(|queued| queued.digest.as_deref()).is_some_and(|known| known != digest) {
        return refuse(app, submission, ErrorCode::IdempotencyConflict).await;
    }
    let pending = missing_work(app, submission, address, last).await;
    tracing::info!(turn.id = %turn, "Turn {turn} was submitted again");
    let own = slot(submission, turn)?;
    if own.session == address.session && is_unseen(app, &own, first).await? {
        return Ok(Taken { event: own, pending, place: None });
    }
    let attach = Attach { turn_id: turn, session: address.session.clone(), after: 0 };
    let shown = Plan::attached(address.conversation, attach);
    let event = slot(submission, fresh())?;
    let digest = Some(digest.to_owned());
    queue(app, submission, Queueing { slot: &event, plan: &shown, digest, repeats: None }).await?;
    Ok(Taken { event, pending, place: None })
}

/// The gateway that queued it may have died before it published the job. Publishing it once more is harmless.
async fn missing_work(
    app: &App,
    submission: &Submission,
    address: &EventAddress,
    last: &Stored,
) -> Option<(EventAddress, Work)> {
    // A worker has it, or it has ended.
    if last.envelope.attempt > 0 || last.envelope.event.is_terminal() {
        return None;
    }
    let plan = plan(app, submission, address.turn).await;
    let is_elsewhere = plan.conversation != address.conversation;
    let work = match plan.work {
        Work::Job if is_elsewhere => Work::Refuse(ErrorCode::Unavailable),
        work @ (Work::Job | Work::Nothing | Work::Tell(_) | Work::Refuse(_)) => work,
    };
    Some((address.clone(), work))
}

/// The log has forgotten the turn: it is told like an `attach` that comes as late.
async fn take_stored(
    app: &App,
    submission: &Submission,
    stored: StoredTurn,
) -> Result<Taken, ErrorCode> {
    let same = stored.question.as_ref().is_none_or(|question| {
        *question == text::truncate_message(&submission.call.text)
            || question.ends_with(limits::TRUNCATION_MARK)
    });
    if !same {
        return refuse(app, submission, ErrorCode::IdempotencyConflict).await;
    }
    if !stored.finished {
        return refuse(app, submission, ErrorCode::ConversationBusy).await;
    }
    let slot = slot(submission, fresh())?;
    let mut plan = plan(app, submission, stored.turn_id).await;
    if matches!(plan.work, Work::Job) {
        plan.work = Work::Tell(attach::ended(0, stored));
    }
    take_as(app, submission, slot, plan).await
}

async fn refuse(app: &App, submission: &Submission, code: ErrorCode) -> Result<Taken, ErrorCode> {
    take_as(app, submission, slot(submission, fresh())?, Plan::refused(code)).await
}

/// A submission without an id of its own. The stream itself notices one that says the same.
pub async fn take_unnamed(app: &App, submission: &Submission) -> Result<Taken, ErrorCode> {
    let slot = slot(submission, fresh())?;
    let plan = plan(app, submission, slot.turn).await;
    let place = admit(app, submission, (slot.turn, &plan)).await?;
    let same = format!("repeat:{}:{}", slot.session, canonical(&submission.call));
    let queueing = Queueing { slot: &slot, plan: &plan, digest: None, repeats: Some(&same) };
    let placed = queue(app, submission, queueing).await?;
    if !placed.duplicate {
        return Ok(Taken::new(slot, plan, place));
    }
    let first = events::at(&app.bus, placed.seq).await.map_err(unavailable)?;
    match first {
        // Our own, whose first acknowledgement was lost.
        Some(first) if first.address.turn == slot.turn => Ok(Taken::new(slot, plan, place)),
        Some(first) if is_recent(&first) && first.address.session == slot.session => {
            let own = EventSlot { turn: first.address.turn, ..slot.clone() };
            if is_unseen(app, &own, &first).await? {
                let Earlier { address, last, .. } = last_of(app, first).await?;
                tracing::info!(turn.id = %own.turn, "Turn {} was submitted again", own.turn);
                let pending = missing_work(app, submission, &address, &last).await;
                return Ok(Taken { event: own, pending, place: None });
            }
            drop(place);
            take_as(app, submission, slot, plan).await
        }
        Some(_) | None => {
            drop(place);
            take_as(app, submission, slot, plan).await
        }
    }
}

fn is_recent(first: &Stored) -> bool {
    age(first).is_some_and(|age| age < limits::REPEAT_WINDOW)
}

/// `None` if its time can't be read. Clocks of two gateways may differ a little: nothing is older than new.
fn age(stored: &Stored) -> Option<Duration> {
    let at = clock::parse(&stored.envelope.ts).ok()?;
    Some(Duration::try_from(clock::now() - at).unwrap_or_default())
}

/// Whether no client can have read of this submission: no stream carries its session, not even after the time in
/// which a client that got the join's answer opens one, and none has carried it to its end.
async fn is_unseen(app: &App, slot: &EventSlot, first: &Stored) -> Result<bool, ErrorCode> {
    let ask = SessionAsk::Join { turn_id: slot.turn };
    // Plain calls have no stream that would answer.
    let is_plain = slot.session_hash == slot.turn.to_string();
    let opened_within = if is_plain { Duration::ZERO } else { OPENED_WITHIN };
    let mut wait = opened_within.saturating_sub(age(first).unwrap_or_default());
    loop {
        match control::ask_session(&app.bus, &slot.session, &ask).await {
            Asked::NoOwner | Asked::Answer(SessionAnswer::Closed { .. }) => {}
            Asked::Answer(SessionAnswer::Open | SessionAnswer::Released { .. })
            | Asked::Timeout => return Ok(false),
        }
        if wait.is_zero() {
            break;
        }
        let pause = wait.min(OPENED_POLL);
        tokio::time::sleep(pause).await;
        wait -= pause;
    }
    let record = events::last(&app.bus, &subject::session_record(&slot.session)).await;
    let record = record.map_err(unavailable)?.map(|stored| stored.envelope.event);
    let Some(Event::Session(record)) = record else { return Ok(true) };
    Ok(!record.done.contains(&slot.turn) && first.seq > record.watermark)
}

fn queued(first: &Stored) -> Option<&Queued> {
    if let Event::Queued(queued) = &first.envelope.event { Some(queued) } else { None }
}

/// What must not differ between two submissions with one id. Of a file only its name and size count: a client
/// that tries again may have uploaded it again.
fn digest(call: &ChatCall) -> String {
    let files: Vec<Value> = call.files.iter().map(described).collect();
    let mut digest = hashed(call, files);
    digest.truncate(32);
    digest
}

fn described(file: &Value) -> Value {
    let path = file.as_str().or_else(|| file.get("path").and_then(Value::as_str));
    let name = path.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    Value::Array(vec![name.into(), file.get("size").cloned().unwrap_or_default()])
}

/// Everything that a submission says, as a hash.
fn canonical(call: &ChatCall) -> String {
    hashed(call, call.files.clone())
}

fn hashed(call: &ChatCall, files: Vec<Value>) -> String {
    let action = match &call.action {
        Action::None => "message".to_owned(),
        action @ (Action::Unknown
        | Action::Confirm { .. }
        | Action::Deny { .. }
        | Action::Resume
        | Action::Attach { .. }) => format!("{action:?}"),
    };
    let said = serde_json::json!([call.text, files, call.conversation, action]);
    sha256_hex(said.to_string().as_bytes())
}

fn event_subject(address: &EventAddress) -> String {
    subject::event(address.conversation, &address.session, address.turn)
}

fn unavailable(error: bus::Error) -> ErrorCode {
    tracing::warn!(%error, "Can't look up whether a message was sent before: {error}");
    ErrorCode::Unavailable
}

#[cfg(test)]
mod tests;
