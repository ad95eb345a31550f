//! All short input sequences, and long random ones, under the watch of `World`.
use contract::error_code::ErrorCode;
use contract::job::Locale;
use serde_json::json;

use super::random::Random;
use super::world::{
    World, asks, call, configured, decided, deploy, finish, question, read, text, with_arguments,
    write,
};
use crate::effect::Effect;
use crate::input::{Arguments, CallDecision, Finish, Input, ModelFailure, ToolOutcome, Verdict};
use crate::tool::SideEffect;

#[test]
fn no_short_sequence_breaks_a_promise() {
    let mut seen = Seen::default();
    let (world, _) = World::begin(question(Locale::En));
    explore(&world, 4, possible, &mut seen);
    assert!(
        seen.sequences > 1_000 && seen.refused > 1_000 && seen.ends > 300 && seen.cards > 100,
        "{seen:?}"
    );
    let mut seen = Seen::default();
    explore(&world, 12, usual, &mut seen);
    assert!(seen.dangerous_calls > 100 && seen.ends > 500 && seen.cards > 400, "{seen:?}");
}

#[test]
fn no_long_sequence_breaks_a_promise() {
    let mut dangerous_calls = 0;
    for seed in 1..=120 {
        let mut random = Random::new(seed);
        let (mut world, _) = World::begin(question(Locale::Ru));
        for depth in 0..80 {
            let inputs = possible(&world, depth);
            let input = inputs[random.below(inputs.len())].clone();
            if matches!(input, Input::Cancel | Input::ModelFailed(_)) && random.below(4) > 0 {
                continue;
            }
            let Ok(effects) = step(&mut world, input) else { continue };
            dangerous_calls += effects.iter().filter(|effect| is_dangerous(effect)).count();
        }
    }
    assert!(dangerous_calls > 30, "{dangerous_calls}");
}

#[derive(Debug, Default)]
struct Seen {
    sequences: usize,
    refused: usize,
    dangerous_calls: usize,
    cards: usize,
    ends: usize,
}

fn explore(world: &World, depth: usize, inputs: fn(&World, usize) -> Vec<Input>, seen: &mut Seen) {
    seen.sequences += 1;
    if depth == 0 {
        return;
    }
    for input in inputs(world, depth) {
        let mut probe = world.run.clone();
        if probe.handle(input.clone()).is_err() {
            assert_eq!(probe, world.run, "a refused input changed the run");
            seen.refused += 1;
            continue;
        }
        let mut next = world.clone();
        let effects = step(&mut next, input).unwrap();
        seen.dangerous_calls += effects.iter().filter(|effect| is_dangerous(effect)).count();
        seen.cards += effects.iter().filter(|effect| matches!(effect, Effect::Pause(_))).count();
        seen.ends += effects.iter().filter(|effect| matches!(effect, Effect::End(_))).count();
        explore(&next, depth - 1, inputs, seen);
    }
}

fn step(world: &mut World, input: Input) -> Result<Vec<Effect>, crate::run::OutOfOrder> {
    let goes_on = matches!(input, Input::Decided(_) | Input::Resumed | Input::Cancel);
    if world.run.paused().is_some() && goes_on && world.run.clone().handle(input.clone()).is_ok() {
        world.start_turn();
    }
    world.feed(input)
}

fn is_dangerous(effect: &Effect) -> bool {
    matches!(effect, Effect::CallTool(call) if super::world::DANGEROUS.contains(&call.name.as_str()))
}

/// What could happen, also what shouldn't. `salt` keeps calls apart.
fn possible(world: &World, salt: usize) -> Vec<Input> {
    let id = |name: &str| format!("{name}{salt}");
    let invalid = Arguments::Invalid { value: json!({}), problem: "bad".to_owned() };
    let cut = with_arguments(&id("u"), "look", Arguments::Unparsable { raw_len: 3 });
    let same = call("s", "look", SideEffect::Read, false, json!({}));
    let mut inputs = vec![
        text("t"),
        finish(Finish::Stop, vec![]),
        finish(Finish::Length, vec![read(&id("r"))]),
        finish(Finish::ContentFilter, vec![]),
        asks(vec![same]),
        asks(vec![deploy(&id("d")), read(&id("r")), write(&id("w"))]),
        asks(vec![deploy("x"), configured("x")]),
        asks(vec![with_arguments(&id("i"), "deploy_dashboard", invalid), cut.clone()]),
        asks(vec![with_arguments(
            &id("i"),
            "nothing",
            Arguments::UnknownTool { value: json!({}) },
        )]),
        Input::ModelFailed(ModelFailure::Unavailable),
        Input::ModelFailed(ModelFailure::Malformed),
        Input::Resumed,
        Input::Cancel,
        decided(&[("d1", true)]),
    ];
    let ids: Vec<String> =
        world.run.waiting().iter().map(|call| call.tool_call_id.clone()).collect();
    if !ids.is_empty() {
        let all = |yes: fn(usize) -> bool| -> Vec<(&str, bool)> {
            ids.iter().enumerate().map(|(at, id)| (id.as_str(), yes(at))).collect()
        };
        inputs.extend([decided(&all(|_| true)), decided(&all(|at| at % 2 == 1)), deny_all(&ids)]);
    }
    for call_id in world.open.keys() {
        let failed =
            ToolOutcome::Failed { code: ErrorCode::ToolFailure, text: "broken".to_owned() };
        let approved = ToolOutcome::Ok(json!("user approved, action: confirm"));
        let outcomes = [approved, failed, ToolOutcome::TokenExpired, ToolOutcome::OutcomeUnknown];
        inputs.extend(
            outcomes.map(|outcome| Input::ToolFinished { call_id: call_id.clone(), outcome }),
        );
        inputs.push(Input::ToolProgress { call_id: call_id.clone(), elapsed_s: 30 });
    }
    inputs
}

/// What happens in most turns.
fn usual(world: &World, salt: usize) -> Vec<Input> {
    let id = |name: &str| format!("{name}{salt}");
    let mut inputs = vec![
        finish(Finish::Stop, vec![]),
        asks(vec![deploy(&id("d")), read(&id("r"))]),
        Input::Resumed,
        Input::Cancel,
    ];
    let ids: Vec<String> =
        world.run.waiting().iter().map(|call| call.tool_call_id.clone()).collect();
    let yes: Vec<(&str, bool)> = ids.iter().map(|id| (id.as_str(), true)).collect();
    inputs.extend([decided(&yes), deny_all(&ids)]);
    for call_id in world.open.keys() {
        let outcomes = [ToolOutcome::Ok(json!("confirm")), ToolOutcome::TokenExpired];
        inputs.extend(
            outcomes.map(|outcome| Input::ToolFinished { call_id: call_id.clone(), outcome }),
        );
    }
    inputs
}

fn deny_all(ids: &[String]) -> Input {
    let deny = |id: &String| CallDecision {
        call_id: id.clone(),
        verdict: Verdict::Deny { reason: Some("confirm".to_owned()) },
    };
    Input::Decided(ids.iter().map(deny).collect())
}
