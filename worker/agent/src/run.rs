//! The state of a turn and its one door: [`Run::handle`].
//!
//! A turn is a row of steps; a step is one model call and the calls it asked for. `run/model.rs` handles
//! what the model says, `run/proposal.rs` the calls it asks for, `run/calls.rs` what becomes of them,
//! `run/results.rs` what the model is told of them.
mod calls;
mod ids;
mod model;
mod proposal;
mod results;
mod state;

use contract::error_code::ErrorCode;
use contract::event::{CardCall, Event, TurnStatus, Usage};
use contract::job::Locale;
use contract::limits;
use serde::{Deserialize, Serialize};

use crate::effect::{Effect, End, ModelRequest, Pause};
use crate::history;
use crate::input::Input;
use crate::message::Message;
use calls::CallState;
use proposal::Streak;
use state::{Phase, State, Step};

/// What a turn starts from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Begin {
    /// Unique to this run, e.g. its first turn: with a call's id it names the call for ever.
    pub origin: String,
    pub locale: Locale,
    pub system: String,
    /// What was said before, cut to size ([`crate::history::window`]).
    pub history: Vec<Message>,
    /// What the user said, with the files quoted ([`crate::documents::quote`]).
    pub user: String,
    /// Pictures of that message.
    pub images: Vec<String>,
    /// Names of the tools the model may see.
    pub tools: Vec<String>,
    /// Text of this turn that the user has already been shown.
    pub text_prefix: String,
}

/// A turn that runs or waits. Serialized, as it is at an [`Effect::Checkpoint`], it is the checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    #[serde(default)]
    origin: String,
    locale: Locale,
    system: String,
    tools: Vec<String>,
    /// What the model is sent behind the system prompt.
    context: Vec<Message>,
    /// Where in `context` the messages begin that this run has added.
    own_from: usize,
    /// Where in `context` the parts of this turn begin.
    parts_from: usize,
    /// Calls whose results are among the parts of the turn that paused.
    stored_before: Vec<String>,
    text: String,
    step: Step,
    streak: Option<Streak>,
    usage: Usage,
    /// Events behind the last checkpoint.
    unsent: Vec<Event>,
    phase: Phase,
}

/// The input doesn't fit the run's state; nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{input}` is out of order while the run is {state}")]
pub struct OutOfOrder {
    pub input: &'static str,
    pub state: &'static str,
}

impl Run {
    pub fn begin(begin: Begin) -> (Self, Vec<Effect>) {
        let mut context = history::repair(begin.history);
        context.push(Message::User { content: begin.user, images: begin.images });
        let mut run = Self {
            origin: begin.origin,
            locale: begin.locale,
            system: begin.system,
            tools: begin.tools,
            own_from: context.len(),
            parts_from: context.len(),
            context,
            stored_before: Vec::new(),
            text: begin.text_prefix,
            step: Step::default(),
            streak: None,
            usage: Usage::default(),
            unsent: Vec::new(),
            phase: Phase::Model,
        };
        let effect = run.call_model();
        (run, vec![effect])
    }

    /// Takes one input and says what to do about it, in this order. An input that is refused changes nothing.
    pub fn handle(&mut self, input: Input) -> Result<Vec<Effect>, OutOfOrder> {
        match (self.phase.state(), input) {
            (State::Model, Input::ModelText(text)) => Ok(self.handle_model_text(&text)),
            (State::Model, Input::ModelFinished(output)) => Ok(self.handle_model_finished(output)),
            (State::Model, Input::ModelFailed(failure)) => Ok(self.handle_model_failed(failure)),
            (State::Tools, Input::ToolProgress { call_id, elapsed_s }) => {
                self.handle_tool_progress(&call_id, elapsed_s)
            }
            (State::Tools, Input::ToolFinished { call_id, outcome }) => {
                self.handle_tool_finished(&call_id, outcome)
            }
            (State::Tools, Input::ToolSettled { call_id, outcome }) => {
                self.handle_tool_settled(&call_id, outcome)
            }
            (State::Deciding, Input::Decided(decisions)) => self.handle_decided(decisions),
            (State::AwaitingToken, Input::Resumed) => Ok(self.handle_resumed()),
            (
                State::Model | State::Tools | State::Deciding | State::AwaitingToken,
                Input::Cancel,
            ) => Ok(self.handle_cancel()),
            (state, refused) => Err(OutOfOrder { input: refused.name(), state: state.name() }),
        }
    }

    /// What followed the last `Checkpoint`, once more, and the calls that had no result by then. Valid for a
    /// run that was saved at a `Checkpoint`.
    pub fn recover(&self) -> Vec<Effect> {
        let mut effects: Vec<Effect> = self.unsent.iter().cloned().map(Effect::Emit).collect();
        match &self.phase {
            Phase::Model => effects.push(Effect::CallModel(self.request())),
            Phase::Tools => {
                let running = self.step.calls.iter().filter(|c| c.state == CallState::Running);
                effects.extend(running.map(|call| Effect::CallTool(call.planned())));
            }
            Phase::Paused(pause) => effects.push(Effect::Pause(pause.clone())),
            Phase::Ended(end) => effects.push(Effect::End(end.clone())),
        }
        effects
    }

    /// A paused run goes on under a new turn, whose text, parts and usage start empty. Call it before
    /// `Decided`, `Resumed` or `Cancel` of that turn; the model still gets everything.
    pub fn start_turn(&mut self) {
        self.text.clear();
        self.usage = Usage::default();
        self.unsent.clear();
        self.stored_before = self.step.done().map(|(id, _)| id.to_owned()).collect();
        self.parts_from = self.context.len();
    }

    /// What [`Begin::origin`] said.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The whole visible text of this turn; all its tokens put together.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The assistant and tool messages of this turn, for storage. Tool messages before the first
    /// assistant message answer calls of the turn that had paused.
    pub fn parts(&self) -> Vec<Message> {
        let new = |id: &str| !self.stored_before.iter().any(|stored| stored == id);
        let settled = self.context.iter().skip(self.parts_from).filter(|message| match message {
            Message::Tool { tool_call_id, .. } => new(tool_call_id),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => true,
        });
        let open = self.step.results().filter(|message| match message {
            Message::Tool { tool_call_id, .. } => new(tool_call_id),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => false,
        });
        settled.cloned().chain(open).collect()
    }

    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Model calls of this turn.
    pub fn steps(&self) -> u32 {
        self.usage.steps
    }

    /// What the run waits for, if it waits.
    pub fn paused(&self) -> Option<&Pause> {
        match &self.phase {
            Phase::Paused(pause) => Some(pause),
            Phase::Model | Phase::Tools | Phase::Ended(_) => None,
        }
    }

    /// The calls on the open card.
    pub fn waiting(&self) -> &[CardCall] {
        match self.paused() {
            Some(Pause::Confirm { calls, .. }) => calls,
            Some(Pause::Token) | None => &[],
        }
    }

    /// Results for the calls of a run that nobody will go on with, e.g. as the card expired: they belong
    /// behind its [`Run::parts`].
    pub fn abandoned(&self, reason: &str) -> Vec<Message> {
        calls::abandoned(&self.step.calls, reason)
    }

    /// `events` and `actions` behind a checkpoint.
    fn checkpoint(&mut self, events: Vec<Event>, actions: Vec<Effect>) -> Vec<Effect> {
        let mut effects = vec![Effect::Checkpoint];
        effects.extend(events.iter().cloned().map(Effect::Emit));
        effects.extend(actions);
        self.unsent = events;
        effects
    }

    /// The next step, or the end if there have been too many.
    fn call_model(&mut self) -> Effect {
        if self.usage.steps >= limits::STEPS_PER_TURN {
            return self.fail(ErrorCode::LoopDetected);
        }
        self.usage.steps += 1;
        self.step = Step { text_from: self.text.len(), ..Step::default() };
        self.phase = Phase::Model;
        Effect::CallModel(self.request())
    }

    fn request(&self) -> ModelRequest {
        let mut messages = Vec::with_capacity(self.context.len() + 1);
        if !self.system.is_empty() {
            messages.push(Message::System { content: self.system.clone() });
        }
        messages.extend(self.context.iter().cloned());
        if let Err(invalid) = history::validate(&messages) {
            debug_assert!(false, "invalid model request: {invalid}");
            messages = history::repair(messages);
        }
        ModelRequest { messages, tools: self.tools.clone() }
    }

    fn fail(&mut self, code: ErrorCode) -> Effect {
        let detail = code.text(self.locale).to_owned();
        self.end(TurnStatus::Failed, Some((code, detail)))
    }

    /// The one place where a turn ends; what the model said so far stays.
    fn end(&mut self, status: TurnStatus, error: Option<(ErrorCode, String)>) -> Effect {
        self.keep_said();
        let end = End { status, error };
        self.phase = Phase::Ended(end.clone());
        Effect::End(end)
    }

    fn keep_said(&mut self) {
        let said = std::mem::take(&mut self.step.said);
        if !said.trim().is_empty() {
            self.context.push(Message::Assistant { content: said, tool_calls: Vec::new() });
        }
    }
}
