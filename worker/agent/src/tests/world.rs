//! A run under watch: every input is fed to it straight and after a reload, every effect is checked.
use std::collections::{BTreeMap, BTreeSet};

use contract::error_code::ErrorCode;
use contract::event::{Event, TurnStatus, Usage};
use contract::job::Locale;
use serde_json::{Value, json};

use crate::effect::{Effect, Pause, PlannedCall};
use crate::history;
use crate::input::{
    Arguments, CallDecision, Finish, Input, ModelOutput, ProposedCall, ToolOutcome, Verdict,
};
use crate::message::Message;
use crate::run::{Begin, OutOfOrder, Run};
use crate::tool::SideEffect;

pub(super) const DANGEROUS: [&str; 2] = ["deploy_dashboard", "configured"];

#[derive(Clone)]
pub(super) struct World {
    pub(super) run: Run,
    /// Calls at work.
    pub(super) open: BTreeMap<String, PlannedCall>,
    /// Calls whose token had expired.
    held: BTreeSet<String>,
    announced: BTreeSet<String>,
    closed: BTreeSet<String>,
    confirmed: BTreeMap<String, Value>,
    called: BTreeSet<String>,
    shown: String,
    step_from: usize,
    step_began: bool,
    over: bool,
    parts: Vec<Message>,
}

impl World {
    pub(super) fn begin(begin: Begin) -> (Self, Vec<Effect>) {
        let shown = begin.text_prefix.clone();
        let (run, effects) = Run::begin(begin);
        let mut world = Self {
            run,
            open: BTreeMap::new(),
            held: BTreeSet::new(),
            announced: BTreeSet::new(),
            closed: BTreeSet::new(),
            confirmed: BTreeMap::new(),
            called: BTreeSet::new(),
            shown,
            step_from: 0,
            step_began: false,
            over: false,
            parts: Vec::new(),
        };
        world.observe(&effects);
        (world, effects)
    }

    /// The worker that gets the decision starts a turn with the saved run.
    pub(super) fn start_turn(&mut self) {
        assert!(self.run.paused().is_some());
        self.run = reload(&self.run);
        self.run.start_turn();
        assert_eq!((self.run.text(), self.run.parts(), self.run.steps()), ("", vec![], 0));
        self.shown.clear();
    }

    pub(super) fn feed(&mut self, input: Input) -> Result<Vec<Effect>, OutOfOrder> {
        let before = self.run.clone();
        let mut reloaded = reload(&self.run);
        let result = self.run.handle(input.clone());
        assert_eq!(reloaded.handle(input.clone()), result, "a reload changes the answer");
        assert_eq!(reloaded, self.run, "a reload changes the run");
        let effects = match result {
            Ok(effects) => effects,
            Err(refused) => {
                assert_eq!(before, self.run, "a refused input changed the run");
                return Err(refused);
            }
        };
        assert!(!self.over, "{input:?} was taken after the end");
        self.note_input(&input);
        self.observe(&effects);
        self.check_recovery(&effects);
        Ok(effects)
    }

    fn note_input(&mut self, input: &Input) {
        match input {
            Input::Decided(decisions) => {
                for decision in decisions {
                    let card = self.confirmed.get(&decision.call_id).cloned();
                    assert!(card.is_some(), "a decision about a call on no card was taken");
                    if decision.verdict != Verdict::Confirm {
                        self.confirmed.remove(&decision.call_id);
                    }
                }
            }
            Input::ToolFinished { call_id, outcome } | Input::ToolSettled { call_id, outcome } => {
                self.open.remove(call_id).expect("a result of a call that was not open was taken");
                if *outcome == ToolOutcome::TokenExpired {
                    self.held.insert(call_id.clone());
                }
            }
            Input::Cancel => self.open.clear(),
            Input::ModelText(_)
            | Input::ModelFinished(_)
            | Input::ModelFailed(_)
            | Input::ToolProgress { .. }
            | Input::Resumed => {}
        }
    }

    fn observe(&mut self, effects: &[Effect]) {
        let mut saved = false;
        for (at, effect) in effects.iter().enumerate() {
            let last = at + 1 == effects.len();
            match effect {
                Effect::Checkpoint => saved = true,
                Effect::Emit(event) => self.observe_event(event, saved, effects.get(at + 1)),
                Effect::CallModel(request) => {
                    assert!(last);
                    assert_eq!(history::validate(&request.messages), Ok(()));
                    assert_eq!(history::repair(request.messages.clone()), request.messages);
                    self.step_from = self.shown.len();
                    self.step_began = true;
                }
                Effect::CallTool(call) => {
                    assert!(saved, "a call without a checkpoint");
                    self.observe_call(call);
                }
                Effect::WithdrawStep => {
                    assert!(self.shown.len() > self.step_from, "nothing to withdraw");
                    self.shown.truncate(self.step_from);
                }
                Effect::Pause(pause) => {
                    assert!(last && saved && self.open.is_empty());
                    self.observe_pause(pause);
                }
                Effect::End(end) => {
                    assert!(last);
                    assert_eq!(end.error.is_some(), end.status == TurnStatus::Failed);
                    self.observe_end();
                }
            }
        }
        assert_eq!(self.run.text(), self.shown, "the tokens are not the text");
    }

    fn observe_event(&mut self, event: &Event, saved: bool, next: Option<&Effect>) {
        match event {
            Event::StreamToken { token } => {
                assert!(!token.is_empty());
                self.shown.push_str(token);
            }
            Event::ToolStart { tool_call_id, tool, .. } => {
                assert!(saved, "announced before a checkpoint");
                assert!(
                    self.announced.insert(tool_call_id.clone()),
                    "announced twice: {tool_call_id}"
                );
                let asked = DANGEROUS.contains(&tool.as_str());
                let yes = self.confirmed.contains_key(tool_call_id);
                let refused = matches!(next, Some(Effect::Emit(Event::ToolError { tool_call_id: id, code: Some(ErrorCode::InvalidArguments), .. })) if id == tool_call_id);
                assert!(!asked || yes || refused, "announced before a yes");
            }
            Event::ToolEnd { tool_call_id, .. } => {
                assert!(self.announced.contains(tool_call_id));
                assert!(self.closed.insert(tool_call_id.clone()), "ended twice: {tool_call_id}");
            }
            Event::ToolError { tool_call_id, .. } => {
                assert!(self.closed.insert(tool_call_id.clone()), "ended twice: {tool_call_id}");
            }
            Event::ToolProgress { tool_call_id, .. } => {
                assert!(self.open.contains_key(tool_call_id));
            }
            Event::Warning { .. } => {}
            Event::Queued(_)
            | Event::Attempt { .. }
            | Event::ConfirmRequired(_)
            | Event::ConfirmResolved { .. }
            | Event::Rewind { .. }
            | Event::StreamGap { .. }
            | Event::Message { .. }
            | Event::Error { .. }
            | Event::TurnEnd(_)
            | Event::Session(_) => panic!("a run doesn't emit {event:?}"),
        }
    }

    fn observe_call(&mut self, call: &PlannedCall) {
        assert!(self.announced.contains(&call.id), "called before it was announced");
        if DANGEROUS.contains(&call.name.as_str()) {
            let agreed = self.confirmed.get(&call.id);
            assert_eq!(
                agreed,
                Some(&json!([call.name, call.arguments])),
                "called without that yes"
            );
        }
        let again = self.held.remove(&call.id);
        assert!(self.called.insert(call.id.clone()) || again, "called twice: {}", call.id);
        let alone = call.side_effect != SideEffect::Read || DANGEROUS.contains(&call.name.as_str());
        assert!(!alone || self.open.is_empty(), "{} does not run alone", call.id);
        self.open.insert(call.id.clone(), call.clone());
    }

    fn observe_pause(&mut self, pause: &Pause) {
        assert_eq!(self.run.paused(), Some(pause));
        self.parts.extend(self.run.parts());
        match pause {
            Pause::Confirm { calls, .. } => {
                assert!(!calls.is_empty() && calls == self.run.waiting());
                for call in calls {
                    let key = call.tool_call_id.clone();
                    self.confirmed.insert(key, json!([call.tool, call.input]));
                }
            }
            Pause::Token => assert!(!self.held.is_empty()),
        }
    }

    fn observe_end(&mut self) {
        self.over = true;
        self.parts.extend(self.run.parts());
        assert!(self.announced.is_subset(&self.closed), "a card is left spinning");
        let mut stored = vec![Message::user("q")];
        stored.extend(self.parts.clone());
        let repaired = history::repair(stored.clone());
        assert_eq!(
            stored.len(),
            repaired.len(),
            "stored parts need more than an order: {stored:#?}"
        );
        assert!(
            repaired.iter().all(|message| !message.content().contains("NO_RESULT")),
            "{stored:#?}"
        );
    }

    /// What a worker that loads the checkpoint performs: all behind it, and the calls already at work.
    fn check_recovery(&self, effects: &[Effect]) {
        let Some(at) = effects.iter().rposition(|effect| *effect == Effect::Checkpoint) else {
            return;
        };
        let mut expected: Vec<Effect> = effects[at + 1..].to_vec();
        let parts = self.run.parts();
        let order: Vec<&str> =
            parts.iter().flat_map(Message::calls).map(|call| call.id.as_str()).collect();
        let mut calls: Vec<&PlannedCall> = self.open.values().collect();
        calls.sort_by_key(|call| order.iter().position(|id| *id == call.id));
        expected.retain(|effect| !matches!(effect, Effect::CallTool(_)));
        expected.extend(calls.into_iter().cloned().map(Effect::CallTool));
        assert_eq!(self.run.recover(), expected);
    }
}

pub(super) fn reload(run: &Run) -> Run {
    serde_json::from_str(&serde_json::to_string(run).unwrap()).unwrap()
}

pub(super) fn question(locale: Locale) -> Begin {
    Begin {
        locale,
        system: "rules".to_owned(),
        user: "question".to_owned(),
        tools: vec!["look".to_owned(), "deploy_dashboard".to_owned()],
        ..Begin::default()
    }
}

pub(super) fn text(text: &str) -> Input {
    Input::ModelText(text.to_owned())
}

pub(super) fn finish(finish: Finish, tool_calls: Vec<ProposedCall>) -> Input {
    let usage = Usage { input_tokens: 10, output_tokens: 1, steps: 1 };
    Input::ModelFinished(ModelOutput { tool_calls, finish, usage })
}

pub(super) fn stop() -> Input {
    finish(Finish::Stop, vec![])
}

pub(super) fn asks(tool_calls: Vec<ProposedCall>) -> Input {
    finish(Finish::ToolCalls, tool_calls)
}

pub(super) fn read(id: &str) -> ProposedCall {
    call(id, "look", SideEffect::Read, false, json!({"at": id}))
}

pub(super) fn write(id: &str) -> ProposedCall {
    call(id, "create_branch", SideEffect::Once, false, json!({"name": id}))
}

/// The shell says it is harmless; it asks all the same.
pub(super) fn deploy(id: &str) -> ProposedCall {
    call(id, "deploy_dashboard", SideEffect::Once, false, json!({"dashboard_id": id}))
}

/// Dangerous by configuration, and only looks.
pub(super) fn configured(id: &str) -> ProposedCall {
    call(id, "configured", SideEffect::Read, true, json!({"x": id}))
}

pub(super) fn call(
    id: &str,
    name: &str,
    side_effect: SideEffect,
    danger: bool,
    value: Value,
) -> ProposedCall {
    let arguments = Arguments::Valid { value, danger, side_effect };
    ProposedCall { id: id.to_owned(), name: name.to_owned(), arguments }
}

pub(super) fn with_arguments(id: &str, name: &str, arguments: Arguments) -> ProposedCall {
    ProposedCall { id: id.to_owned(), name: name.to_owned(), arguments }
}

pub(super) fn done(id: &str) -> Input {
    result(id, ToolOutcome::Ok(json!({"of": id})))
}

pub(super) fn result(id: &str, outcome: ToolOutcome) -> Input {
    Input::ToolFinished { call_id: id.to_owned(), outcome }
}

pub(super) fn decided(decisions: &[(&str, bool)]) -> Input {
    let decision = |(id, yes): &(&str, bool)| CallDecision {
        call_id: (*id).to_owned(),
        verdict: if *yes { Verdict::Confirm } else { Verdict::Deny { reason: None } },
    };
    Input::Decided(decisions.iter().map(decision).collect())
}
