//! Jobs about a paused run: confirm, deny, resume, and the plain message that closes an open card.
use agent::effect::Pause;
use agent::input::{CallDecision, Input, Verdict};
use contract::error_code::ErrorCode;
use contract::event::{Card, Event, Resolution, TurnStatus};
use contract::job::{Job, JobKind, Locale};
use serde_json::{Value, json};
use shared::runtime::clock;
use shared::store::audit::AuditRow;
use shared::store::confirmations::{
    self, CallVerdict, Decide, Decision, OpenCard, Resolved, Supersede,
};
use shared::store::messages::Role;
use shared::store::turns::{HistoryRow, RunChange, SavedRun, Started};

use super::refusal::{self, Closing};
use super::restore;
use crate::driver::emit::Emitter;
use crate::driver::{Driver, Signals, Stop, Turn};

/// The text that a bare button sends; not a reason.
const BARE_DENIALS: [&str; 4] = ["deny", "no", "нет", "отклонить"];

pub(super) async fn decide(
    turn: Turn,
    started: Started,
    mut emitter: Emitter,
    signals: &mut Signals,
) -> Result<(), Stop> {
    let (call, verdict) = match &turn.job.kind {
        JobKind::Deny { tool_call_id } => (tool_call_id.as_deref(), confirmations::Verdict::Deny),
        JobKind::Confirm { tool_call_id } => {
            (tool_call_id.as_deref(), confirmations::Verdict::Confirm)
        }
        JobKind::Message | JobKind::Resume => (None, confirmations::Verdict::Deny),
    };
    let reason = reason(&turn.job, verdict);
    let decide = Decide {
        conversation: turn.job.conversation_id,
        turn: turn.job.turn_id,
        epoch: turn.epoch,
        user: &turn.job.user_id,
        call,
        verdict,
        reason: reason.as_deref(),
        now: clock::now(),
    };
    match confirmations::decide(&turn.app.pool, &decide).await? {
        Decision::Recorded { card, complete: Some(verdicts) } => {
            let Some(saved) = &started.checkpoint else {
                return refuse(&turn, &mut emitter, ErrorCode::CheckpointExpired, None).await;
            };
            Box::pin(go_on(turn, saved, &card, verdicts, emitter, signals)).await
        }
        Decision::Recorded { card, complete: None } => {
            still_open(&turn, &mut emitter, &card, call, verdict, reason).await
        }
        Decision::AlreadyResolved(resolved) => {
            refuse(&turn, &mut emitter, ErrorCode::AlreadyResolved, Some(outcome_of(&resolved)))
                .await
        }
        Decision::Expired => expired(&turn, &started, &mut emitter).await,
        Decision::NonePending => {
            refuse(&turn, &mut emitter, ErrorCode::NoPendingConfirmation, None).await
        }
    }
}

/// All calls of the card are decided: the run executes exactly those that got a yes.
async fn go_on(
    turn: Turn,
    saved: &SavedRun,
    card: &OpenCard,
    verdicts: Vec<CallVerdict>,
    mut emitter: Emitter,
    signals: &mut Signals,
) -> Result<(), Stop> {
    let mut run = restore(saved)?;
    run.start_turn();
    let result = overall(&verdicts);
    let Ok(effects) = run.handle(Input::Decided(verdicts.iter().map(call_decision).collect()))
    else {
        return refuse(&turn, &mut emitter, ErrorCode::CheckpointExpired, None).await;
    };
    let reason = verdicts.iter().find_map(|verdict| verdict.reason.clone());
    let tool_call_ids = verdicts.iter().map(|verdict| verdict.tool_call_id.clone()).collect();
    let resolved =
        Event::ConfirmResolved { confirmation_id: card.id, result, reason, tool_call_ids };
    emitter.emit(resolved).await?;
    let audit = verdicts.iter().map(|verdict| decision_audit(&turn, card, verdict)).collect();
    Driver::new(turn, run, emitter, audit).drive(effects, signals).await
}

/// One call of several was decided; the card stays open for the others.
async fn still_open(
    turn: &Turn,
    emitter: &mut Emitter,
    card: &OpenCard,
    call: Option<&str>,
    verdict: confirmations::Verdict,
    reason: Option<String>,
) -> Result<(), Stop> {
    let decided = |id: &str| card.decided.iter().any(|verdict| verdict.tool_call_id == id);
    let rest = Card {
        confirmation_id: card.id,
        prompt: card.prompt.clone(),
        thread_id: turn.thread_id(),
        calls: card.calls.iter().filter(|call| !decided(&call.tool_call_id)).cloned().collect(),
        expires_at: clock::rfc3339(card.expires_at),
    };
    let result = match verdict {
        confirmations::Verdict::Confirm => Resolution::Confirmed,
        confirmations::Verdict::Deny => Resolution::Denied,
    };
    let id = call.unwrap_or_default().to_owned();
    let own = CallVerdict { tool_call_id: id.clone(), verdict, reason: reason.clone() };
    let events = vec![
        Event::ConfirmResolved {
            confirmation_id: card.id,
            result,
            reason,
            tool_call_ids: vec![id],
        },
        Event::ConfirmRequired(rest),
        refusal::ended(TurnStatus::Interrupted),
    ];
    let audit = vec![decision_audit(turn, card, &own)];
    let closing = Closing {
        run: RunChange::Keep,
        append_parts: None,
        status: TurnStatus::Interrupted,
        events,
        audit,
    };
    refusal::close(turn, emitter, closing).await
}

/// The user signed in again: the call that found the token expired runs now.
pub(super) async fn resume(
    turn: Turn,
    started: Started,
    mut emitter: Emitter,
    signals: &mut Signals,
) -> Result<(), Stop> {
    let Some(saved) = &started.checkpoint else {
        return refuse(&turn, &mut emitter, ErrorCode::NoPendingConfirmation, None).await;
    };
    let mut run = restore(saved)?;
    if run.paused() != Some(&Pause::Token) {
        return refuse(&turn, &mut emitter, ErrorCode::NoPendingConfirmation, None).await;
    }
    run.start_turn();
    match run.handle(Input::Resumed) {
        Ok(effects) => Driver::new(turn, run, emitter, Vec::new()).drive(effects, signals).await,
        Err(_) => refuse(&turn, &mut emitter, ErrorCode::CheckpointExpired, None).await,
    }
}

/// A plain message while a run waits: the card is closed as denied, its calls get that as their result.
/// Changes `started.history` as it changes the stored history.
pub(super) async fn close_paused_run(
    turn: &Turn,
    started: &mut Started,
    emitter: &mut Emitter,
) -> Result<Vec<AuditRow>, Stop> {
    let saved = started.checkpoint.take();
    if saved.is_none() && started.attempt == 1 {
        return Ok(Vec::new());
    }
    let supersede = Supersede {
        conversation: turn.job.conversation_id,
        turn: turn.job.turn_id,
        epoch: turn.epoch,
        user: &turn.job.user_id,
        now: clock::now(),
    };
    let card = confirmations::supersede(&turn.app.pool, &supersede).await?;
    let is_late = card.as_ref().is_some_and(|card| card.expires_at < clock::now());
    let locale = turn.locale();
    let why = if is_late { expiry_reason(locale) } else { superseded_reason(locale) };
    if let Some(saved) = saved {
        let answers = answers_of_abandoned(&saved, why)?;
        let commit = turn.keep_going(emitter.cursor(), saved.turn_id, &answers);
        shared::store::turns::commit(&turn.app.pool, &commit).await?;
        answer_in_history(started, &saved, answers);
    }
    let Some(card) = card else { return Ok(Vec::new()) };
    let (result, reason) =
        if is_late { (Resolution::Expired, "expired") } else { (Resolution::Denied, "superseded") };
    let tool_call_ids = card.calls.iter().map(|call| call.tool_call_id.clone()).collect();
    let reason = Some(reason.to_owned());
    emitter
        .emit(Event::ConfirmResolved { confirmation_id: card.id, result, reason, tool_call_ids })
        .await?;
    Ok(vec![turn.audit("confirmation", if is_late { "expired" } else { "superseded" }, "ok", None)])
}

fn answer_in_history(started: &mut Started, saved: &SavedRun, answers: Vec<Value>) {
    let is_paused =
        |row: &&mut HistoryRow| row.turn_id == Some(saved.turn_id) && row.role == Role::Assistant;
    let row = started.history.iter_mut().rev().find(is_paused);
    if let Some(Value::Array(parts)) = row.and_then(|row| row.parts.as_mut()) {
        parts.extend(answers);
    }
}

async fn expired(turn: &Turn, started: &Started, emitter: &mut Emitter) -> Result<(), Stop> {
    let answers = match &started.checkpoint {
        Some(saved) => Some((
            saved.turn_id,
            Value::Array(answers_of_abandoned(saved, expiry_reason(turn.locale()))?),
        )),
        None => None,
    };
    let closing = Closing {
        run: RunChange::Clear,
        append_parts: answers,
        status: TurnStatus::Failed,
        events: refusal::failure(&turn.job, ErrorCode::CheckpointExpired, TurnStatus::Failed),
        audit: vec![turn.audit(
            "confirmation",
            "expired",
            ErrorCode::CheckpointExpired.as_str(),
            None,
        )],
    };
    refusal::close(turn, emitter, closing).await
}

async fn refuse(
    turn: &Turn,
    emitter: &mut Emitter,
    code: ErrorCode,
    extra: Option<Value>,
) -> Result<(), Stop> {
    let detail = code.text(turn.locale()).to_owned();
    let events = vec![Event::Error { code, detail, extra }, refusal::ended(TurnStatus::Failed)];
    let audit = vec![turn.audit("confirmation", "refused", code.as_str(), None)];
    let closing = Closing {
        run: RunChange::Keep,
        append_parts: None,
        status: TurnStatus::Failed,
        events,
        audit,
    };
    refusal::close(turn, emitter, closing).await
}

/// Results for the calls of a run that nobody will go on with.
fn answers_of_abandoned(saved: &SavedRun, reason: &str) -> Result<Vec<Value>, Stop> {
    let answers = restore(saved)?.abandoned(reason);
    answers
        .iter()
        .map(|part| serde_json::to_value(part).map_err(|error| Stop::Broken(error.into())))
        .collect()
}

fn call_decision(verdict: &CallVerdict) -> CallDecision {
    let reason = verdict.reason.clone();
    let decided = match verdict.verdict {
        confirmations::Verdict::Confirm => Verdict::Confirm,
        confirmations::Verdict::Deny => Verdict::Deny { reason },
    };
    CallDecision { call_id: verdict.tool_call_id.clone(), verdict: decided }
}

fn overall(verdicts: &[CallVerdict]) -> Resolution {
    let yes = verdicts
        .iter()
        .filter(|verdict| verdict.verdict == confirmations::Verdict::Confirm)
        .count();
    if yes == verdicts.len() {
        Resolution::Confirmed
    } else if yes == 0 {
        Resolution::Denied
    } else {
        Resolution::Mixed
    }
}

fn reason(job: &Job, verdict: confirmations::Verdict) -> Option<String> {
    let text = job.text.trim();
    let bare = BARE_DENIALS.contains(&text.to_lowercase().as_str());
    (verdict == confirmations::Verdict::Deny && !text.is_empty() && !bare).then(|| text.to_owned())
}

fn outcome_of(resolved: &Resolved) -> Value {
    json!({
        "confirmation_id": resolved.confirmation_id,
        "result": resolved.result,
        "reason": resolved.reason,
        "tool_call_ids": resolved.tool_call_ids,
    })
}

fn decision_audit(turn: &Turn, card: &OpenCard, verdict: &CallVerdict) -> AuditRow {
    let decision = match verdict.verdict {
        confirmations::Verdict::Confirm => "confirmed",
        confirmations::Verdict::Deny => "denied",
    };
    let mut row = turn.audit("confirmation", decision, "ok", Some(&verdict.tool_call_id));
    row.detail = json!({ "confirmation_id": card.id });
    row
}

fn superseded_reason(locale: Locale) -> &'static str {
    match locale {
        Locale::Ru => "пользователь не ответил на карточку, а написал другое сообщение",
        Locale::En => "the user sent another message instead of deciding",
    }
}

fn expiry_reason(locale: Locale) -> &'static str {
    match locale {
        Locale::Ru => "срок подтверждения истёк",
        Locale::En => "the approval expired",
    }
}
