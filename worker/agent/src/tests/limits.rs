//! What must end, and what must stay small.
use contract::event::{Event, TurnStatus};
use contract::job::Locale;
use contract::{error_code::ErrorCode, limits};
use serde_json::{Value, json};

use super::world::{World, asks, call, done, question, read, result, stop, text};
use crate::effect::Effect;
use crate::input::ToolOutcome;
use crate::message::Message;
use crate::tool::SideEffect;

fn same(id: &str) -> crate::input::ProposedCall {
    call(id, "look", SideEffect::Read, false, json!({"b": 1, "a": 2}))
}

fn end_of(effects: &[Effect]) -> Option<(TurnStatus, Option<ErrorCode>)> {
    match effects.last() {
        Some(Effect::End(end)) => Some((end.status, end.error.as_ref().map(|(code, _)| *code))),
        _ => None,
    }
}

const LOOPED: Option<(TurnStatus, Option<ErrorCode>)> =
    Some((TurnStatus::Failed, Some(ErrorCode::LoopDetected)));

#[test]
fn the_same_call_three_times_in_a_row_ends_the_turn() {
    let (mut world, _) = World::begin(question(Locale::En));
    world.feed(text("Looking.")).unwrap();
    for id in ["a", "b"] {
        world.feed(asks(vec![same(id)])).unwrap();
        world.feed(done(id)).unwrap();
    }
    let effects = world.feed(asks(vec![same("c")])).unwrap();
    assert_eq!(end_of(&effects), LOOPED);
    assert_eq!(effects.len(), 1, "nothing is announced or made");
    assert_eq!(world.run.text(), "Looking.");
    assert_eq!(world.run.parts().len(), 6);
}

#[test]
fn another_call_in_between_breaks_the_row() {
    let (mut world, _) = World::begin(question(Locale::En));
    for id in ["a", "b", "x", "c", "d"] {
        let proposal = if id == "x" { read(id) } else { same(id) };
        world.feed(asks(vec![proposal])).unwrap();
        assert_eq!(end_of(&world.feed(done(id)).unwrap()), None);
    }
    let (mut world, _) = World::begin(question(Locale::En));
    assert_eq!(end_of(&world.feed(asks(vec![same("a"), same("b"), same("c")])).unwrap()), LOOPED);
}

#[test]
fn a_turn_has_so_many_steps() {
    let (mut world, _) = World::begin(question(Locale::En));
    for step in 1..=limits::STEPS_PER_TURN {
        let id = format!("c{step}");
        assert_eq!(world.run.steps(), step);
        world.feed(asks(vec![read(&id)])).unwrap();
        let effects = world.feed(done(&id)).unwrap();
        let expected = if step == limits::STEPS_PER_TURN { LOOPED } else { None };
        assert_eq!(end_of(&effects), expected, "step {step}");
    }
    assert_eq!(world.run.usage().input_tokens, u64::from(limits::STEPS_PER_TURN) * 10);
}

#[test]
fn a_large_result_is_cut_for_the_screen_and_more_for_the_model() {
    let (mut world, _) = World::begin(question(Locale::En));
    world.feed(asks(vec![read("a")])).unwrap();
    let effects =
        world.feed(result("a", ToolOutcome::Ok(json!({"rows": "я🇷🇺".repeat(100_000)})))).unwrap();
    let Some(Effect::Emit(Event::ToolEnd { output: Value::String(shown), .. })) = effects.get(1)
    else {
        panic!("{effects:?}")
    };
    assert!(shown.len() < limits::TOOL_OUTPUT_BYTES + 100 && shown.contains("[... cut: "));
    let Some(Effect::CallModel(request)) = effects.last() else { panic!() };
    let told = request.messages.last().unwrap().content();
    assert!(told.len() < 16 * 1024 + 100 && told.contains("[... cut: "), "{}", told.len());
}

#[test]
fn results_of_one_step_share_their_room_and_older_ones_shrink() {
    let (mut world, _) = World::begin(question(Locale::En));
    let mut size = 0;
    for step in 0..8 {
        let ids: Vec<String> = (0..8).map(|n| format!("s{step}n{n}")).collect();
        world.feed(asks(ids.iter().map(|id| read(id)).collect())).unwrap();
        for id in &ids {
            world.feed(result(id, ToolOutcome::Ok(json!("d".repeat(40_000))))).unwrap();
        }
        size = world.run.parts().iter().map(|part| part.content().len()).sum();
        assert!(size < 96 * 1024, "step {step}: {size}");
    }
    assert!(size > 64 * 1024, "the newest results are whole: {size}");
    let first = world.run.parts()[1].clone();
    assert!(matches!(first, Message::Tool { content, .. } if content.len() < 500));
}

#[test]
fn a_step_has_so_many_calls_and_so_much_in_them() {
    let (mut world, _) = World::begin(question(Locale::En));
    let effects = world.feed(asks((0..20).map(|n| read(&format!("c{n}"))).collect())).unwrap();
    let made = effects.iter().filter(|effect| matches!(effect, Effect::CallTool(_))).count();
    assert_eq!(made, 16);
    let (mut world, _) = World::begin(question(Locale::En));
    let huge = |id: &str| {
        call(
            id,
            "deploy_dashboard",
            SideEffect::Once,
            true,
            json!({"x": "d".repeat(60_000), "id": id}),
        )
    };
    let effects = world.feed(asks(vec![huge("a"), huge("b")])).unwrap();
    assert_eq!(world.run.waiting().len(), 1);
    assert!(effects.iter().all(|effect| format!("{effect:?}").len() < 250_000));
}

#[test]
fn a_turn_without_a_system_prompt_and_with_broken_history_still_works() {
    let history = vec![Message::Tool { tool_call_id: "ghost".to_owned(), content: "x".to_owned() }];
    let begin = crate::run::Begin { history, system: String::new(), ..question(Locale::En) };
    let (mut world, effects) = World::begin(begin);
    let Some(Effect::CallModel(request)) = effects.first() else { panic!() };
    assert_eq!(request.messages, [Message::user("question")]);
    world.feed(text("hi")).unwrap();
    assert_eq!(end_of(&world.feed(stop()).unwrap()), Some((TurnStatus::Completed, None)));
}
