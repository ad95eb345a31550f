//! Checkpoint, Pause, End → one fenced transaction each, then the events that follow from it.
use std::time::Duration;

use agent::effect::{End, PlannedCall};
use agent::input::ToolOutcome;
use contract::error_code::ErrorCode;
use contract::event::{Card, CardCall, Event, Timings, TurnEnd, TurnStatus};
use contract::ids::{ConfirmationId, TurnId};
use contract::job::{Job, Locale};
use contract::limits;
use serde_json::{Value, json};
use shared::runtime::clock;
use shared::runtime::digest::sha256_hex;
use shared::runtime::telemetry::attr;
use shared::store::CommitError;
use shared::store::audit::AuditRow;
use shared::store::confirmations::NewCard;
use shared::store::messages::Finish;
use shared::store::turns::{self, AssistantRow, Commit, RunChange};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use uuid::Uuid;

use crate::driver::{Driver, Stop, Turn};
use crate::metrics;

impl From<CommitError> for Stop {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Fenced => Self::Fenced,
            CommitError::Store(error) if error.is_outage() => {
                Self::Unavailable(anyhow::Error::new(error))
            }
            CommitError::Store(error) => Self::Broken(anyhow::Error::new(error)),
        }
    }
}

impl Driver {
    /// Saves the run as it stands; nothing that relies on it has been done yet.
    pub(super) async fn save(&mut self) -> Result<(), Stop> {
        self.emitter.flush().await?;
        let commit = Commit { run: self.saved_run()?, ..self.commit() };
        turns::commit(&self.turn.app.pool, &commit).await?;
        Ok(())
    }

    /// The turn ends with an open card; the run waits for the decision.
    pub(super) async fn pause_for_decision(
        &mut self,
        calls: Vec<CardCall>,
        prompt: String,
    ) -> Result<(), Stop> {
        self.emitter.flush().await?;
        let expires_at = clock::now() + self.turn.app.config.timing.confirmation_ttl;
        let id = ConfirmationId(Uuid::now_v7());
        let card = Card {
            confirmation_id: id,
            prompt: prompt.clone(),
            thread_id: self.turn.thread_id(),
            calls: calls.clone(),
            expires_at: clock::rfc3339(expires_at),
        };
        let digest = sha256_hex(serde_json::to_string(&calls).unwrap_or_default().as_bytes());
        let outbox = vec![Event::ConfirmRequired(card), self.turn_end(TurnStatus::Interrupted)];
        let commit = Commit {
            run: self.saved_run()?,
            card: Some(NewCard { id, prompt, calls, digest, expires_at }),
            ..self.last_commit(TurnStatus::Interrupted, "ok", &outbox)?
        };
        self.conclude(commit, outbox).await
    }

    /// The user's token is no longer good; the run waits for action `resume`.
    pub(super) async fn pause_for_token(&mut self) -> Result<(), Stop> {
        self.emitter.flush().await?;
        let outbox =
            vec![self.error(ErrorCode::Unauthorized, None), self.turn_end(TurnStatus::Interrupted)];
        let outcome = ErrorCode::Unauthorized.as_str();
        let commit = Commit {
            run: self.saved_run()?,
            ..self.last_commit(TurnStatus::Interrupted, outcome, &outbox)?
        };
        self.conclude(commit, outbox).await
    }

    pub(super) async fn finish(&mut self, end: End) -> Result<(), Stop> {
        self.emitter.flush().await?;
        let mut outbox = Vec::new();
        let mut outcome = "ok";
        if let Some((code, detail)) = end.error {
            outcome = code.as_str();
            outbox.push(self.error(code, Some(detail)));
        }
        outbox.push(self.turn_end(end.status));
        let commit =
            Commit { run: RunChange::Clear, ..self.last_commit(end.status, outcome, &outbox)? };
        self.conclude(commit, outbox).await
    }

    async fn conclude(&mut self, commit: Commit, outbox: Vec<Event>) -> Result<(), Stop> {
        self.turn.commit_last(&commit).await?;
        for event in outbox {
            self.emitter.emit(event).await?;
        }
        self.finished = true;
        if let Some(first) = self.emitter.first_token {
            let waited = first.saturating_duration_since(self.turn.started);
            metrics::FIRST_TOKEN.record(waited.as_secs_f64(), &[]);
        }
        if let Some(cancelled) = self.cancelled {
            metrics::CANCEL_LATENCY.record(cancelled.elapsed().as_secs_f64(), &[]);
        }
        Ok(())
    }

    fn commit(&mut self) -> Commit {
        let audit = std::mem::take(&mut self.audit);
        Commit { cursor: self.emitter.cursor(), audit, ..self.turn.empty_commit() }
    }

    fn last_commit(
        &mut self,
        status: TurnStatus,
        outcome: &str,
        outbox: &[Event],
    ) -> Result<Commit, Stop> {
        let outbox = serde_json::to_value(outbox).map_err(|error| Stop::Broken(error.into()))?;
        let parts =
            serde_json::to_value(self.run.parts()).map_err(|error| Stop::Broken(error.into()))?;
        let is_empty = self.run.text().is_empty() && self.run.parts().is_empty();
        let row =
            AssistantRow { text: self.run.text().to_owned(), parts, finish: finish_of(status) };
        let assistant = (!is_empty).then_some(row);
        let row = self.turn.audit("turn", "", outcome, None);
        self.audit.push(row);
        Ok(Commit {
            assistant,
            finish: Some((status, outbox)),
            release_lease: true,
            ..self.commit()
        })
    }

    fn saved_run(&self) -> Result<RunChange, Stop> {
        serde_json::to_value(&self.run)
            .map(RunChange::Save)
            .map_err(|error| Stop::Broken(error.into()))
    }

    fn error(&self, code: ErrorCode, detail: Option<String>) -> Event {
        let detail = detail.unwrap_or_else(|| code.text(self.turn.locale()).to_owned());
        Event::Error { code, detail, extra: None }
    }

    fn turn_end(&self, status: TurnStatus) -> Event {
        let text = self.run.text();
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let first_token = self
            .emitter
            .first_token
            .map(|at| at.duration_since(self.turn.started) + self.turn.queue);
        Event::TurnEnd(TurnEnd {
            status,
            text: (text.len() <= limits::ANSWER_IN_ONE_EVENT_BYTES).then(|| text.to_owned()),
            usage: Some(self.run.usage()),
            timings: Some(Timings {
                queue_ms: millis(self.turn.queue),
                first_token_ms: first_token.map(millis),
                total_ms: millis(self.turn.started.elapsed() + self.turn.queue),
            }),
        })
    }
}

impl Turn {
    /// The commit that gives the lease back.
    pub async fn commit_last(&self, commit: &Commit) -> Result<(), CommitError> {
        self.lease.conclude(turns::commit(&self.app.pool, commit)).await?;
        if let Some((status, _)) = &commit.finish {
            let status = metrics::status(*status);
            let elapsed = self.started.elapsed().as_secs_f64();
            metrics::TURN.record(elapsed, &metrics::label("outcome", status));
            Span::current().set_attribute(attr::OUTCOME, status);
        }
        Ok(())
    }

    pub fn audit(
        &self,
        operation: &str,
        decision: &str,
        outcome: &str,
        call: Option<&str>,
    ) -> AuditRow {
        AuditRow {
            decision: decision.to_owned(),
            tool_call_id: call.map(str::to_owned),
            ..audit(&self.job, operation, outcome)
        }
    }

    pub fn locale(&self) -> Locale {
        self.job.locale.of_text(&self.job.text)
    }

    /// Answers for a paused turn's calls; its run is gone, this turn goes on.
    pub fn keep_going(&self, cursor: u64, paused: TurnId, answers: &[Value]) -> Commit {
        let append_parts = (!answers.is_empty()).then(|| (paused, Value::Array(answers.to_vec())));
        Commit { cursor, run: RunChange::Clear, append_parts, ..self.empty_commit() }
    }

    pub fn empty_commit(&self) -> Commit {
        empty_commit(&self.job, self.epoch)
    }

    /// The conversation as the client knows it.
    pub fn thread_id(&self) -> String {
        self.job.conversation_ref.clone().unwrap_or_else(|| self.job.conversation_id.to_string())
    }
}

pub fn audit(job: &Job, operation: &str, outcome: &str) -> AuditRow {
    AuditRow {
        at: clock::now(),
        service_actor: "agent".to_owned(),
        user_actor: job.user_id.clone(),
        operation: operation.to_owned(),
        decision: String::new(),
        outcome: outcome.to_owned(),
        conversation: Some(job.conversation_id),
        turn: Some(job.turn_id),
        tool_call_id: None,
        detail: json!({}),
    }
}

/// Changes nothing yet; the fence of every commit of a turn.
pub fn empty_commit(job: &Job, epoch: i64) -> Commit {
    Commit {
        conversation: job.conversation_id,
        turn: job.turn_id,
        epoch,
        cursor: 0,
        run: RunChange::Keep,
        assistant: None,
        append_parts: None,
        card: None,
        finish: None,
        audit: Vec::new(),
        release_lease: false,
        now: clock::now(),
    }
}

pub(super) fn tool_audit(turn: &Turn, call: &PlannedCall, outcome: &ToolOutcome) -> AuditRow {
    let outcome = match outcome {
        ToolOutcome::Ok(_) => "ok",
        ToolOutcome::Accepted { .. } => "accepted",
        ToolOutcome::Failed { code, .. } => code.as_str(),
        ToolOutcome::TokenExpired => ErrorCode::Unauthorized.as_str(),
        ToolOutcome::OutcomeUnknown => ErrorCode::OutcomeUnknown.as_str(),
    };
    let mut row = turn.audit(&call.name, "allowed", outcome, Some(&call.id));
    if turn.app.tools.danger(&call.name) {
        row.decision = "confirmed".to_owned();
    }
    row
}

fn finish_of(status: TurnStatus) -> Finish {
    match status {
        TurnStatus::Completed => Finish::Completed,
        TurnStatus::Interrupted => Finish::Interrupted,
        TurnStatus::Cancelled => Finish::Cancelled,
        TurnStatus::Failed | TurnStatus::Rejected => Finish::Failed,
    }
}
