//! Windows over random histories are valid, fit, and keep what must be kept.
use serde_json::json;

use super::*;
use crate::message::ToolCall;
use crate::tests::random::Random;

#[test]
fn everything_is_kept_while_it_fits() {
    let turns = [
        turn(vec![user("one"), says("1")]),
        turn(vec![user("two"), calls(&["a"]), result("a", "r"), says("2")]),
    ];
    let window = window(&turns, 1_000, &words);
    assert_eq!(window.kept, turns.iter().flat_map(|t| t.messages.clone()).collect::<Vec<_>>());
    assert_eq!((window.dropped, window.whole_turns_dropped), (vec![], 0));
}

#[test]
fn oldest_turns_go_first() {
    let turns = [
        turn(vec![user("one"), says("1")]),
        turn(vec![user("two"), says("2")]),
        turn(vec![user("three"), says("3")]),
    ];
    let window = window(&turns, 20, &words);
    assert_eq!(window.kept, [turns[1].messages.clone(), turns[2].messages.clone()].concat());
    assert_eq!(window.dropped, turns[..1]);
    assert_eq!(window.whole_turns_dropped, 1);
}

#[test]
fn nothing_older_is_kept_behind_a_gap() {
    let long = "слово ".repeat(100);
    let turns = [
        turn(vec![user("one"), says("1")]),
        turn(vec![user("two"), says(&long)]),
        turn(vec![user("three"), says("3")]),
    ];
    let window = window(&turns, 60, &words);
    assert_eq!(window.kept, turns[2].messages);
    assert_eq!((window.dropped.len(), window.whole_turns_dropped), (2, 2));
}

#[test]
fn a_long_result_is_shortened_before_its_call_is_dropped() {
    let long = "слово ".repeat(2_000);
    let turns = [turn(vec![user("дашборд 42"), calls(&["a"]), result("a", &long), says("вот он")])];
    let window = window(&turns, 100, &words);
    assert_eq!(window.kept.len(), 4);
    assert!(window.kept[2].content().ends_with("[... older result, cut]"));
    assert_eq!(validate_history(&window.kept), Ok(()));
}

#[test]
fn newest_user_message_is_cut_when_it_alone_is_too_long() {
    let long = "слово ".repeat(500);
    let window =
        window(&[turn(vec![user("old"), says("old")]), turn(vec![user(&long)])], 50, &words);
    let [Message::User { content, .. }] = window.kept.as_slice() else {
        panic!("{:?}", window.kept)
    };
    assert!(window.user_message_cut);
    assert!(
        content.ends_with(limits::TRUNCATION_MARK) && words(content) + OVERHEAD_TOKENS <= 50,
        "{content}"
    );
    assert_eq!(window.whole_turns_dropped, 1);
}

#[test]
fn a_result_written_by_a_later_turn_moves_to_its_call() {
    let messages = vec![
        user("deploy"),
        calls(&["a", "b"]),
        result("b", "read"),
        result("a", "deployed"),
        says("done"),
    ];
    let expected = vec![
        user("deploy"),
        calls(&["a", "b"]),
        result("a", "deployed"),
        result("b", "read"),
        says("done"),
    ];
    assert_eq!(repair(messages), expected);
}

#[test]
fn broken_rows_are_repaired() {
    let messages = vec![
        result("ghost", "x"),
        user("one"),
        calls(&["a"]),
        user("two"),
        calls(&["a"]),
        result("a", "second"),
        result("a", "again"),
        Message::Assistant { content: String::new(), tool_calls: vec![] },
    ];
    let repaired = repair(messages);
    assert_eq!(validate(&repaired), Ok(()));
    assert_eq!(repaired.len(), 6);
    assert!(repaired[2].content().contains("NO_RESULT"));
    assert_eq!(repaired[5].content(), "second");
}

#[test]
fn a_message_keeps_one_of_two_calls_with_the_same_id() {
    let repaired = repair(vec![user("q"), calls(&["a", "a"]), result("a", "x")]);
    assert_eq!(repaired, [user("q"), calls(&["a"]), result("a", "x")]);
}

#[test]
fn the_validator_refuses_what_providers_refuse() {
    let id = |id: &str| id.to_owned();
    let check =
        |messages: &[Message], expected: Invalid| assert_eq!(validate(messages), Err(expected));
    check(&[], Invalid::NoUserMessage);
    check(&[Message::System { content: "s".to_owned() }], Invalid::NoUserMessage);
    check(&[user("q"), says("a")], Invalid::NothingToAnswer);
    check(&[user("q"), calls(&["a"])], Invalid::Unanswered { id: id("a") });
    check(
        &[user("q"), calls(&["a"]), user("r"), result("a", "x")],
        Invalid::Unanswered { id: id("a") },
    );
    check(&[user("q"), result("a", "x")], Invalid::Orphan { id: id("a") });
    check(
        &[user("q"), calls(&["a"]), result("a", "x"), result("a", "x")],
        Invalid::Orphan { id: id("a") },
    );
    check(
        &[user("q"), calls(&["a", "a"]), result("a", "x")],
        Invalid::RepeatedCall { id: id("a") },
    );
    check(&[user("q"), calls(&[]), user("r")], Invalid::EmptyAssistant);
}

#[test]
fn a_summary_stands_before_what_was_kept() {
    let messages = with_summary(Some("dashboard 42"), vec![user("q")]);
    assert!(
        matches!(&messages[0], Message::System { content } if content.contains("dashboard 42"))
    );
    assert_eq!(with_summary(Some(" "), vec![user("q")]), [user("q")]);
    assert_eq!(with_summary(None, vec![user("q")]), [user("q")]);
}

/// PAINS 71: any history, also a broken one, any budget.
#[test]
fn windows_of_random_histories_are_valid_and_fit() {
    for seed in 1..=1_000 {
        let mut random = Random::new(seed);
        let turns: Vec<TurnHistory> =
            (0..random.below(12)).map(|_| random_turn(&mut random)).collect();
        let budget = 60 + random.below(600);
        let window = window(&turns, budget, &words);
        let all = || turns.iter().flat_map(|turn| &turn.messages);
        assert_eq!(validate_history(&window.kept), Ok(()), "seed {seed}: {:#?}", window.kept);
        let size: usize = window.kept.iter().map(|message| tokens(message, &words)).sum();
        assert!(size <= budget, "seed {seed}: {size} > {budget}");
        let newest = all().rev().find(|message| matches!(message, Message::User { .. }));
        let kept = window.kept.iter().rev().find(|message| matches!(message, Message::User { .. }));
        match (newest, window.user_message_cut) {
            (Some(_), true) => assert!(
                kept.is_some_and(|m| m.content().ends_with(limits::TRUNCATION_MARK)),
                "seed {seed}"
            ),
            (newest, _) => assert_eq!(kept, newest, "seed {seed}"),
        }
        let users = |messages: &[Message]| {
            messages.iter().filter(|m| matches!(m, Message::User { .. })).count()
        };
        let dropped: Vec<Message> =
            window.dropped.iter().flat_map(|turn| turn.messages.clone()).collect();
        assert_eq!(
            users(&dropped) + users(&window.kept),
            users(&all().cloned().collect::<Vec<_>>()),
            "seed {seed}"
        );
        assert!(window.whole_turns_dropped <= turns.len());
        assert_eq!(
            repair(window.kept.clone()),
            window.kept,
            "seed {seed}: repair has a fixed point"
        );
    }
}

fn random_turn(random: &mut Random) -> TurnHistory {
    let ids = ["a", "b", "c", "d"];
    let mut messages = vec![user(&"слово ".repeat(random.below(90)))];
    for _ in 0..random.below(5) {
        let id = ids[random.below(ids.len())];
        let message = match random.below(6) {
            0 => says(&"text ".repeat(random.below(60))),
            1 | 2 => calls(&ids[..random.below(4)]),
            3 | 4 => result(id, &"data ".repeat(random.below(300))),
            _ => user("again"),
        };
        messages.push(message);
    }
    TurnHistory { messages }
}

/// History may end with the assistant's answer: the question follows.
fn validate_history(kept: &[Message]) -> Result<(), Invalid> {
    validate(&[kept, &[user("next")]].concat())
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn turn(messages: Vec<Message>) -> TurnHistory {
    TurnHistory { messages }
}

fn user(content: &str) -> Message {
    Message::user(content)
}

fn says(content: &str) -> Message {
    Message::Assistant { content: content.to_owned(), tool_calls: Vec::new() }
}

fn calls(ids: &[&str]) -> Message {
    let call = |id: &&str| ToolCall {
        id: (*id).to_owned(),
        name: "look".to_owned(),
        arguments: json!({}),
    };
    Message::Assistant { content: String::new(), tool_calls: ids.iter().map(call).collect() }
}

fn result(id: &str, content: &str) -> Message {
    Message::Tool { tool_call_id: id.to_owned(), content: content.to_owned() }
}
