//! A worker dies after any effect: the next one, from the checkpoint, comes to the same end.
use std::collections::BTreeSet;

use contract::job::Locale;
use serde_json::json;

use super::world::{asks, decided, deploy, finish, question, read, reload, stop, text, write};
use crate::effect::Effect;
use crate::input::{Finish, Input, ToolOutcome};
use crate::message::Message;
use crate::run::Run;

/// What a turn leaves behind.
#[derive(Debug, PartialEq)]
struct Outcome {
    parts: Vec<Message>,
    texts: Vec<String>,
    once: Vec<String>,
}

/// The world outside: answers effects with inputs, the same ones for the same request.
struct Outside {
    run: Run,
    saved: Option<String>,
    /// The saved run is the paused one and the decision is there.
    decided: bool,
    pending: Vec<Input>,
    /// The call journal: made is made.
    made: BTreeSet<String>,
    once: Vec<String>,
    effects_left: usize,
    outcome: Option<Outcome>,
    parts: Vec<Message>,
    texts: Vec<String>,
}

#[test]
fn death_after_any_effect_changes_nothing() {
    let straight = play(usize::MAX).0;
    assert_eq!(straight.once, ["w", "d1", "d2"]);
    let (_, effects) = play(usize::MAX);
    assert!(effects > 30, "{effects}");
    for death in 0..effects {
        assert_eq!(play(death).0, straight, "death after effect {death}");
    }
}

fn play(death: usize) -> (Outcome, usize) {
    let (run, effects) = Run::begin(question(Locale::En));
    let mut outside = Outside {
        run,
        saved: None,
        decided: false,
        pending: Vec::new(),
        made: BTreeSet::new(),
        once: Vec::new(),
        effects_left: death,
        outcome: None,
        parts: Vec::new(),
        texts: Vec::new(),
    };
    let mut count = 0;
    outside.perform_all(effects, &mut count);
    while outside.outcome.is_none() {
        let input = outside.pending.remove(0);
        let effects = outside.run.handle(input).unwrap();
        outside.perform_all(effects, &mut count);
    }
    (outside.outcome.unwrap(), count)
}

impl Outside {
    fn perform_all(&mut self, effects: Vec<Effect>, count: &mut usize) {
        for effect in effects {
            if self.effects_left == 0 {
                self.effects_left = usize::MAX;
                return self.die(count);
            }
            self.effects_left -= 1;
            *count += 1;
            self.perform(effect);
        }
    }

    fn die(&mut self, count: &mut usize) {
        self.pending.clear();
        let effects = match &self.saved {
            Some(saved) => {
                self.run = serde_json::from_str(saved).unwrap();
                if self.decided {
                    return self.decide();
                }
                self.run.recover()
            }
            None => {
                let (run, effects) = Run::begin(question(Locale::En));
                self.run = run;
                effects
            }
        };
        self.perform_all(effects, count);
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Checkpoint => {
                self.saved = Some(serde_json::to_string(&self.run).unwrap());
                self.decided = false;
            }
            Effect::CallModel(request) => self.pending.extend(model(&request.messages)),
            Effect::CallTool(call) => {
                if self.made.insert(call.id.clone())
                    && call.side_effect != crate::tool::SideEffect::Read
                {
                    self.once.push(call.id.clone());
                }
                let outcome = ToolOutcome::Ok(json!({"of": call.id}));
                self.pending.push(Input::ToolFinished { call_id: call.id, outcome });
            }
            Effect::Pause(_) => {
                self.store();
                self.decided = true;
                self.decide();
            }
            Effect::End(_) => {
                self.store();
                self.outcome = Some(Outcome {
                    parts: std::mem::take(&mut self.parts),
                    texts: std::mem::take(&mut self.texts),
                    once: std::mem::take(&mut self.once),
                });
            }
            Effect::Emit(_) | Effect::WithdrawStep => {}
        }
    }

    /// The turn of the decision starts, or starts again.
    fn decide(&mut self) {
        self.run = reload(&self.run);
        self.run.start_turn();
        let ids: Vec<String> =
            self.run.waiting().iter().map(|call| call.tool_call_id.clone()).collect();
        let yes: Vec<(&str, bool)> = ids.iter().map(|id| (id.as_str(), true)).collect();
        self.pending.push(decided(&yes));
    }

    fn store(&mut self) {
        self.parts.extend(self.run.parts());
        self.texts.push(self.run.text().to_owned());
    }
}

/// The model's side, by how far the conversation is.
fn model(messages: &[Message]) -> Vec<Input> {
    let steps = messages.iter().filter(|message| !message.calls().is_empty()).count();
    match steps {
        0 => vec![text("Look"), asks(vec![read("a"), read("b"), write("w")])],
        1 => vec![text("Then"), asks(vec![read("c"), deploy("d1"), deploy("d2")])],
        2 => vec![asks(vec![read("e")])],
        3 => vec![text("Done"), stop()],
        _ => vec![finish(Finish::Missing, vec![])],
    }
}
