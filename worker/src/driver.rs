//! ⑥ The loop of one turn: perform effects in order, feed inputs back.
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use agent::effect::{Effect, End, ModelRequest, Pause, PlannedCall};
use agent::input::{Input, ToolOutcome};
use agent::message::Message;
use agent::run::Run;
use agent::tool::SideEffect;
use contract::event::Event;
use contract::job::Job;
use contract::secret::UserToken;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use shared::bus::control::CancelWatch;
use shared::runtime::trace::Trace;
use shared::store::attachments;
use shared::store::audit::AuditRow;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::app::App;
use crate::driver::emit::Emitter;
use crate::driver::tool::CallScope;
use crate::lease::{Lease, Unproved};
use crate::llm::Pictures;

pub mod commit;
pub mod emit;
mod model;
pub mod tool;

/// Why a turn stops being this worker's business before its end.
#[derive(Debug)]
pub enum Stop {
    /// Another worker holds the lease: write nothing more.
    Fenced,
    /// Lease or job can't be proved to be ours any more: stop as if they were not.
    Unproved,
    /// A store or the bus is down: the job comes back later.
    Unavailable(anyhow::Error),
    /// The same would happen again: the attempt counts as one that died.
    Broken(anyhow::Error),
    /// The worker is shutting down: the job goes to another one now.
    HandOver,
}

impl From<Unproved> for Stop {
    fn from(_: Unproved) -> Self {
        Self::Unproved
    }
}

/// So long a call that changes something may still report after a cancel.
const CANCEL_GRACE: Duration = Duration::from_millis(150);

/// So long a call that changes something may still report when the turn leaves this worker.
pub const SETTLE_WITHIN: Duration = Duration::from_secs(5);

type CallFuture = BoxFuture<'static, (String, Result<ToolOutcome, Stop>)>;

/// What a turn is about; fixed from its start.
pub struct Turn {
    pub app: App,
    pub job: Job,
    pub epoch: i64,
    pub lease: Lease,
    pub token: Option<UserToken>,
    pub trace: Trace,
    /// From the job's creation to the worker's start.
    pub queue: Duration,
    pub started: Instant,
}

/// What can interrupt it.
pub struct Signals {
    pub cancel: CancelWatch,
    pub hand_over: CancellationToken,
}

pub struct Driver {
    turn: Turn,
    run: Run,
    emitter: Emitter,
    audit: Vec<AuditRow>,
    completion: Option<model::Running>,
    /// Those that the messages name, as far as they were asked for.
    pictures: Pictures,
    calls: FuturesUnordered<CallFuture>,
    open: HashMap<String, OpenCall>,
    /// When a cancel came.
    cancelled: Option<Instant>,
    /// Cursor at the start of the current step: where a rewind of its text leads.
    step_cursor: u64,
    finished: bool,
}

struct OpenCall {
    call: PlannedCall,
    started: Instant,
    next_progress: Instant,
}

impl OpenCall {
    fn changes(&self) -> bool {
        self.call.side_effect != SideEffect::Read
    }
}

enum Happened {
    Input(Input),
    Flush,
    Stop(Stop),
    Cancel,
}

impl Driver {
    pub fn new(turn: Turn, run: Run, emitter: Emitter, audit: Vec<AuditRow>) -> Self {
        let step_cursor = emitter.cursor();
        Self {
            turn,
            run,
            emitter,
            audit,
            completion: None,
            pictures: Pictures::new(),
            calls: FuturesUnordered::new(),
            open: HashMap::new(),
            cancelled: None,
            step_cursor,
            finished: false,
        }
    }

    /// Performs `effects` and all that follows from them, up to the turn's terminal event.
    pub async fn drive(mut self, effects: Vec<Effect>, signals: &mut Signals) -> Result<(), Stop> {
        let result = self.go_on(effects, signals).await;
        match &result {
            Ok(()) | Err(Stop::Fenced | Stop::Unproved) => {}
            Err(Stop::HandOver | Stop::Unavailable(_) | Stop::Broken(_)) => self.settle().await,
        }
        result
    }

    async fn go_on(&mut self, effects: Vec<Effect>, signals: &mut Signals) -> Result<(), Stop> {
        self.perform_all(effects).await?;
        while !self.finished {
            match self.next(signals).await {
                Happened::Input(input) => self.handle(input).await?,
                Happened::Flush => self.emitter.flush().await?,
                Happened::Cancel => self.cancel().await?,
                Happened::Stop(stop) => return Err(stop),
            }
        }
        Ok(())
    }

    async fn next(&mut self, signals: &mut Signals) -> Happened {
        let flush_at = self.emitter.flush_at();
        let progress_at = self.open.values().map(|open| open.next_progress).min();
        tokio::select! {
            biased;
            _ = signals.cancel.cancelled() => Happened::Cancel,
            () = signals.hand_over.cancelled() => Happened::Stop(Stop::HandOver),
            () = at(flush_at) => Happened::Flush,
            Some((id, outcome)) = self.calls.next(), if !self.calls.is_empty() => self.finished_call(id, outcome),
            input = model::next(&mut self.completion, &self.turn.app.tools) => Happened::Input(input),
            () = at(progress_at) => self.progress(),
        }
    }

    fn finished_call(&mut self, id: String, outcome: Result<ToolOutcome, Stop>) -> Happened {
        match outcome {
            Ok(outcome) => {
                if let Some(open) = self.open.remove(&id) {
                    let row = commit::tool_audit(&self.turn, &open.call, &outcome);
                    self.audit.push(row);
                }
                Happened::Input(Input::ToolFinished { call_id: id, outcome })
            }
            Err(stop) => Happened::Stop(stop),
        }
    }

    fn progress(&mut self) -> Happened {
        let every = self.turn.app.config.timing.progress_every;
        let due = self.open.iter_mut().min_by_key(|(_, open)| open.next_progress);
        let Some((id, open)) = due else { return Happened::Flush };
        open.next_progress += every;
        let elapsed_s = open.started.elapsed().as_secs();
        Happened::Input(Input::ToolProgress { call_id: id.clone(), elapsed_s })
    }

    async fn handle(&mut self, input: Input) -> Result<(), Stop> {
        match self.run.handle(input) {
            Ok(effects) => self.perform_all(effects).await,
            Err(error) => {
                debug!(error = %error, "The run refused an input");
                Ok(())
            }
        }
    }

    async fn perform_all(&mut self, effects: Vec<Effect>) -> Result<(), Stop> {
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            self.perform(effect).await?;
        }
        Ok(())
    }

    async fn perform(&mut self, effect: Effect) -> Result<(), Stop> {
        self.turn.lease.check()?;
        match effect {
            Effect::Emit(event) => self.emitter.emit(event).await,
            Effect::Checkpoint => self.save().await,
            Effect::CallModel(request) => self.call_model(&request).await,
            Effect::CallTool(call) => {
                self.call_tool(call);
                Ok(())
            }
            Effect::WithdrawStep => self.withdraw_step().await,
            Effect::Pause(Pause::Confirm { calls, prompt }) => {
                self.pause_for_decision(calls, prompt).await
            }
            Effect::Pause(Pause::Token) => self.pause_for_token().await,
            Effect::End(end) => self.end(end).await,
        }
    }

    async fn call_model(&mut self, request: &ModelRequest) -> Result<(), Stop> {
        self.emitter.flush().await?;
        self.step_cursor = self.emitter.cursor();
        self.load_pictures(request).await?;
        let turn = &self.turn;
        self.completion = Some(model::ask(&turn.app, request, &self.pictures, &turn.trace));
        Ok(())
    }

    async fn load_pictures(&mut self, request: &ModelRequest) -> Result<(), Stop> {
        let conversation = self.turn.job.conversation_id;
        for name in request.messages.iter().flat_map(Message::images) {
            if self.pictures.contains_key(name) {
                continue;
            }
            let found = attachments::image(&self.turn.app.pool, conversation, name).await;
            let found = found.map_err(|error| {
                Stop::Unavailable(anyhow::Error::new(error).context("loading a picture"))
            })?;
            self.pictures.extend(found.map(|picture| (name.clone(), picture)));
        }
        Ok(())
    }

    fn call_tool(&mut self, call: PlannedCall) {
        let started = Instant::now();
        let next_progress = started + self.turn.app.config.timing.progress_after;
        let scope = self.scope();
        self.open.insert(call.id.clone(), OpenCall { call: call.clone(), started, next_progress });
        self.calls.push(Box::pin(async move {
            let id = call.id.clone();
            (id, tool::observed(scope, call).await)
        }));
    }

    fn scope(&self) -> CallScope {
        CallScope {
            app: self.turn.app.clone(),
            conversation: self.turn.job.conversation_id,
            turn: self.turn.job.turn_id,
            epoch: self.turn.epoch,
            lease: self.turn.lease.clone(),
            origin: self.run.origin().to_owned(),
            token: self.turn.token.clone(),
            trace: self.turn.trace.clone(),
            locale: self.turn.job.locale.of_text(&self.turn.job.text),
        }
    }

    async fn withdraw_step(&mut self) -> Result<(), Stop> {
        self.emitter.forget_waiting();
        if self.emitter.cursor() == self.step_cursor {
            return Ok(());
        }
        self.emitter.emit(Event::Rewind { to_cursor: self.step_cursor.to_string() }).await
    }

    /// The model's socket closes at once; reads are dropped; a call that changes something gets a moment to report,
    /// and is reported as of unknown outcome after that.
    async fn cancel(&mut self) -> Result<(), Stop> {
        self.completion = None;
        self.cancelled = Some(Instant::now());
        let deadline = Instant::now() + CANCEL_GRACE;
        while self.open.values().any(OpenCall::changes) {
            let Ok(Some((id, outcome))) =
                tokio::time::timeout_at(deadline, self.calls.next()).await
            else {
                break;
            };
            self.settle_cancelled(id, outcome?).await?;
        }
        self.calls.clear();
        let unknown: Vec<String> =
            self.open.iter().filter(|(_, open)| open.changes()).map(|(id, _)| id.clone()).collect();
        for id in unknown {
            self.settle_cancelled(id, ToolOutcome::OutcomeUnknown).await?;
        }
        self.open.clear();
        self.handle(Input::Cancel).await
    }

    /// The turn leaves this worker. Model and reads are dropped, the next worker asks them again; a call that changes
    /// something gets the time to put its outcome into the journal, where the next worker finds it.
    async fn settle(&mut self) {
        self.completion = None;
        let deadline = Instant::now() + SETTLE_WITHIN;
        while self.open.values().any(OpenCall::changes) {
            let Ok(Some((id, _))) = tokio::time::timeout_at(deadline, self.calls.next()).await
            else {
                break;
            };
            self.open.remove(&id);
        }
        self.calls.clear();
    }

    /// Takes a result without starting anything new.
    async fn settle_cancelled(&mut self, id: String, outcome: ToolOutcome) -> Result<(), Stop> {
        if let Some(open) = self.open.remove(&id) {
            let row = commit::tool_audit(&self.turn, &open.call, &outcome);
            self.audit.push(row);
        }
        self.handle(Input::ToolSettled { call_id: id, outcome }).await
    }

    async fn end(&mut self, end: End) -> Result<(), Stop> {
        self.completion = None;
        self.calls.clear();
        self.finish(end).await?;
        self.finished = true;
        Ok(())
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
