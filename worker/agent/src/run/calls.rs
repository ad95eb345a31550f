//! The calls of a step: gated, started in order, answered once each.
use std::collections::HashSet;

use contract::error_code::ErrorCode;
use contract::event::{CardCall, Event, TurnStatus};
use contract::job::Locale;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::results::{self, Told};
use super::state::{Phase, Step};
use super::{OutOfOrder, Run};
use crate::approval;
use crate::effect::{Effect, Pause, PlannedCall};
use crate::input::{CallDecision, ToolOutcome, Verdict};
use crate::message::Message;
use crate::tool::SideEffect;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
    pub(super) side_effect: SideEffect,
    /// Waited, or waits, for the user: runs alone, in order.
    pub(super) gated: bool,
    pub(super) state: CallState,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum CallState {
    Queued,
    /// The user must decide.
    Asking,
    Running,
    /// Announced, but its token had expired: starts again with a fresh one.
    Held,
    Done {
        result: String,
    },
}

/// Events to send and what to do behind them.
type Next = (Vec<Event>, Vec<Effect>);

impl Call {
    pub(super) fn planned(&self) -> PlannedCall {
        PlannedCall {
            id: self.id.clone(),
            name: self.name.clone(),
            arguments: self.arguments.clone(),
            side_effect: self.side_effect,
        }
    }

    fn is_queued_read(&self) -> bool {
        self.state == CallState::Queued && self.side_effect == SideEffect::Read && !self.gated
    }

    pub(super) fn start_event(&self) -> Event {
        Event::ToolStart {
            tool_call_id: self.id.clone(),
            tool: self.name.clone(),
            input: self.arguments.clone(),
        }
    }

    fn end_event(&self, output: Value) -> Event {
        let output = results::shown(output);
        Event::ToolEnd { tool_call_id: self.id.clone(), tool: self.name.clone(), output }
    }

    pub(super) fn error_event(&self, error: String, code: Option<ErrorCode>) -> Event {
        Event::ToolError { tool_call_id: self.id.clone(), tool: self.name.clone(), error, code }
    }

    pub(super) fn finish(&mut self, told: &Told<'_>, share: usize) {
        self.state = CallState::Done { result: told.render(share) };
    }
}

impl Run {
    pub(super) fn handle_tool_progress(
        &self,
        call_id: &str,
        elapsed_s: u64,
    ) -> Result<Vec<Effect>, OutOfOrder> {
        let index = self.running(call_id, "tool progress")?;
        let tool = self.step.calls.get(index).map(|call| call.name.clone()).unwrap_or_default();
        let tool_call_id = call_id.to_owned();
        Ok(vec![Effect::Emit(Event::ToolProgress { tool_call_id, tool, elapsed_s })])
    }

    pub(super) fn handle_tool_finished(
        &mut self,
        call_id: &str,
        outcome: ToolOutcome,
    ) -> Result<Vec<Effect>, OutOfOrder> {
        let index = self.running(call_id, "tool finished")?;
        let event = self.finish_call(index, outcome);
        Ok(self.go_on(event.into_iter().collect()))
    }

    /// A result that came after the user had cancelled: shown and kept, and nothing starts.
    pub(super) fn handle_tool_settled(
        &mut self,
        call_id: &str,
        outcome: ToolOutcome,
    ) -> Result<Vec<Effect>, OutOfOrder> {
        let index = self.running(call_id, "tool settled")?;
        Ok(self.finish_call(index, outcome).map(Effect::Emit).into_iter().collect())
    }

    fn finish_call(&mut self, index: usize, outcome: ToolOutcome) -> Option<Event> {
        let share = self.step.calls.len();
        let locale = self.locale;
        let call = self.step.calls.get_mut(index)?;
        match outcome {
            ToolOutcome::TokenExpired => {
                call.state = CallState::Held;
                None
            }
            ToolOutcome::Ok(output) => {
                let output = results::value_without_nul(output);
                call.finish(&Told::Output(&output), share);
                Some(call.end_event(output))
            }
            ToolOutcome::Accepted { task } => {
                let task = results::value_without_nul(task);
                call.finish(&Told::Accepted(&task), share);
                Some(call.end_event(task))
            }
            ToolOutcome::Failed { code, text } => {
                let text = results::without_nul(&text).into_owned();
                call.finish(&Told::Failed { code, text: &text }, share);
                Some(call.error_event(text, Some(code)))
            }
            ToolOutcome::OutcomeUnknown => {
                let code = ErrorCode::OutcomeUnknown;
                call.finish(&Told::Unknown, share);
                Some(call.error_event(code.text(locale).to_owned(), Some(code)))
            }
        }
    }

    pub(super) fn handle_decided(
        &mut self,
        decisions: Vec<CallDecision>,
    ) -> Result<Vec<Effect>, OutOfOrder> {
        let asking = |call: &&mut Call| call.state == CallState::Asking;
        let waiting: HashSet<&str> =
            self.waiting().iter().map(|call| call.tool_call_id.as_str()).collect();
        let decided: HashSet<&str> = decisions.iter().map(|one| one.call_id.as_str()).collect();
        if waiting != decided || decided.len() != decisions.len() {
            return Err(OutOfOrder { input: "decided", state: "waiting for other decisions" });
        }
        let share = self.step.calls.len();
        let locale = self.locale;
        let mut events = Vec::new();
        for call in self.step.calls.iter_mut().filter(asking) {
            let decision = decisions.iter().find(|one| one.call_id == call.id);
            match decision.map(|one| &one.verdict) {
                Some(Verdict::Confirm) => call.state = CallState::Queued,
                Some(Verdict::Deny { reason }) => {
                    let code = ErrorCode::Denied;
                    let reason = reason.as_deref().map(results::without_nul);
                    call.finish(&Told::Denied { reason: reason.as_deref() }, share);
                    events.push(call.error_event(code.text(locale).to_owned(), Some(code)));
                }
                None => {}
            }
        }
        Ok(self.go_on(events))
    }

    pub(super) fn handle_resumed(&mut self) -> Vec<Effect> {
        self.phase = Phase::Tools;
        let held = self.step.calls.iter_mut().filter(|call| call.state == CallState::Held);
        let actions = held
            .map(|call| {
                call.state = CallState::Running;
                Effect::CallTool(call.planned())
            })
            .collect();
        self.checkpoint(Vec::new(), actions)
    }

    pub(super) fn handle_cancel(&mut self) -> Vec<Effect> {
        let share = self.step.calls.len();
        let locale = self.locale;
        let mut effects = Vec::new();
        for call in &mut self.step.calls {
            let unknown = call.state == CallState::Running && call.side_effect != SideEffect::Read;
            match call.state {
                CallState::Done { .. } => continue,
                CallState::Queued | CallState::Asking => {}
                CallState::Running | CallState::Held if unknown => {
                    let code = ErrorCode::OutcomeUnknown;
                    let event = call.error_event(code.text(locale).to_owned(), Some(code));
                    effects.push(Effect::Emit(event));
                }
                CallState::Running | CallState::Held => {
                    effects
                        .push(Effect::Emit(call.error_event(cancelled(locale).to_owned(), None)));
                }
            }
            call.finish(if unknown { &Told::Unknown } else { &Told::Cancelled }, share);
        }
        self.settle();
        effects.push(self.end(TurnStatus::Cancelled, None));
        effects
    }

    /// A checkpoint, the events, and whatever can start now.
    pub(super) fn go_on(&mut self, mut events: Vec<Event>) -> Vec<Effect> {
        let (more, actions) = self.next();
        events.extend(more);
        self.checkpoint(events, actions)
    }

    fn next(&mut self) -> Next {
        self.phase = Phase::Tools;
        let held = self.step.calls.iter().any(|call| call.state == CallState::Held);
        let started = if held { Next::default() } else { self.start() };
        if self.step.is_running() {
            return started;
        }
        if held {
            return (Vec::new(), vec![self.pause(Pause::Token)]);
        }
        let action = match self.card() {
            Some(card) => self.pause(card),
            None => {
                self.settle();
                self.call_model()
            }
        };
        (Vec::new(), vec![action])
    }

    /// All reads at once; then, one after another, what changes something.
    fn start(&mut self) -> Next {
        let mut indexes: Vec<usize> = self.indexes(Call::is_queued_read);
        if indexes.is_empty() && !self.step.is_running() {
            indexes = self.indexes(|call| call.state == CallState::Queued);
            indexes.truncate(1);
        }
        let mut next = Next::default();
        for index in indexes {
            if let Some(call) = self.step.calls.get_mut(index) {
                call.state = CallState::Running;
                next.0.push(call.start_event());
                next.1.push(Effect::CallTool(call.planned()));
            }
        }
        next
    }

    fn indexes(&self, wanted: impl Fn(&Call) -> bool) -> Vec<usize> {
        let calls = self.step.calls.iter().enumerate();
        calls.filter(|(_, call)| wanted(call)).map(|(index, _)| index).collect()
    }

    fn card(&self) -> Option<Pause> {
        let asking = self.step.calls.iter().filter(|call| call.state == CallState::Asking);
        let calls: Vec<CardCall> = asking
            .map(|call| CardCall {
                tool_call_id: call.id.clone(),
                tool: call.name.clone(),
                input: call.arguments.clone(),
                prompt: approval::call_prompt(self.locale, &call.name, &call.arguments),
            })
            .collect();
        let prompt = approval::card_prompt(self.locale, &calls);
        (!calls.is_empty()).then_some(Pause::Confirm { calls, prompt })
    }

    fn pause(&mut self, pause: Pause) -> Effect {
        self.phase = Phase::Paused(pause.clone());
        Effect::Pause(pause)
    }

    /// Every call has its result: they go into the context, in call order.
    pub(super) fn settle(&mut self) {
        let step = std::mem::take(&mut self.step);
        self.context.extend(step.results());
        let newest = step.calls.len();
        if let Some(own) = self.context.get_mut(self.own_from..) {
            results::compact(own, newest);
        }
        self.step = Step { calls: Vec::new(), ..step };
    }

    fn running(&self, call_id: &str, input: &'static str) -> Result<usize, OutOfOrder> {
        let wanted = |call: &Call| call.id == call_id && call.state == CallState::Running;
        let index = self.step.calls.iter().position(wanted);
        index.ok_or(OutOfOrder { input, state: "not running that call" })
    }
}

/// What each unanswered call would be told if the run were given up.
pub(super) fn abandoned(calls: &[Call], reason: &str) -> Vec<Message> {
    let told = |call: &Call| match call.state {
        CallState::Done { .. } => None,
        CallState::Asking => Some(Told::Denied { reason: Some(reason) }),
        CallState::Running if call.side_effect != SideEffect::Read => Some(Told::Unknown),
        CallState::Queued | CallState::Running | CallState::Held => Some(Told::Cancelled),
    };
    let results = calls.iter().filter_map(|call| Some((call, told(call)?)));
    results
        .map(|(call, told)| Message::Tool {
            tool_call_id: call.id.clone(),
            content: told.render(calls.len()),
        })
        .collect()
}

fn cancelled(locale: Locale) -> &'static str {
    match locale {
        Locale::En => "Cancelled.",
        Locale::Ru => "Отменено.",
    }
}
