//! A model that fails, stops short, or answers nonsense.
use contract::job::Locale;
use expect_test::expect;

use super::render::{check, check_from};
use super::world::{asks, done, finish, question, read, stop, text, with_arguments};
use crate::input::{Arguments, Finish, Input, ModelFailure};

#[test]
fn malformed_is_asked_once_more() {
    let cut = || with_arguments("a", "look", Arguments::Unparsable { raw_len: 7 });
    check(
        vec![
            text("Wait"),
            asks(vec![read("r"), cut()]),
            text("Again"),
            asks(vec![read("r")]),
            done("r"),
            stop(),
        ],
        expect![[r#"
            begin
              call model, 2 messages, last  user "question"
            text "Wait"
              emit token "Wait"
            finish ToolCalls r:look a:look
              withdraw step
              call model, 2 messages, last  user "question"
            text "Again"
              emit token "Again"
            finish ToolCalls r:look
              checkpoint
              emit start r look
              call r look {"at":"r"}
            finished r Ok(Object {"of": String("r")})
              checkpoint
              emit end r {"of":"r"}
              call model, 4 messages, last  result r {"of":"r"}
            finish Stop
              call model, 4 messages, last  result r {"of":"r"}
            parts
              assistant "Again" r
              result r {"of":"r"}
            text "Again", steps 4
        "#]],
    );
    check(
        vec![text("One"), asks(vec![cut()]), text("Two"), finish(Finish::Length, vec![read("a")])],
        expect![[r#"
            begin
              call model, 2 messages, last  user "question"
            text "One"
              emit token "One"
            finish ToolCalls a:look
              withdraw step
              call model, 2 messages, last  user "question"
            text "Two"
              emit token "Two"
            finish Length a:look
              end Failed LLM_UNAVAILABLE "The language model can't be reached. Try again in a moment."
            parts
              assistant "Two"
            text "Two", steps 2
        "#]],
    );
}

#[test]
fn every_step_has_its_own_second_try() {
    check(
        vec![
            stop(),
            text("A"),
            asks(vec![read("r")]),
            done("r"),
            Input::ModelFailed(ModelFailure::Malformed),
            text("B"),
            finish(Finish::Missing, vec![]),
        ],
        expect![[r#"
            begin
              call model, 2 messages, last  user "question"
            finish Stop
              call model, 2 messages, last  user "question"
            text "A"
              emit token "A"
            finish ToolCalls r:look
              checkpoint
              emit start r look
              call r look {"at":"r"}
            finished r Ok(Object {"of": String("r")})
              checkpoint
              emit end r {"of":"r"}
              call model, 4 messages, last  result r {"of":"r"}
            model failed Malformed
              call model, 4 messages, last  result r {"of":"r"}
            text "B"
              emit token "\n\n"
              emit token "B"
            finish Missing
              end Failed LLM_UNAVAILABLE "The language model can't be reached. Try again in a moment."
            parts
              assistant "A" r
              result r {"of":"r"}
              assistant "B"
            text "A\n\nB", steps 4
        "#]],
    );
}

#[test]
fn white_space_is_no_answer() {
    check(
        vec![text("\n"), stop(), finish(Finish::Length, vec![])],
        expect![[r#"
        begin
          call model, 2 messages, last  user "question"
        text "\n"
          emit token "\n"
        finish Stop
          withdraw step
          call model, 2 messages, last  user "question"
        finish Length
          end Failed LLM_UNAVAILABLE "The language model can't be reached. Try again in a moment."
        parts
        text "", steps 2
    "#]],
    );
}

#[test]
fn a_long_answer_is_kept_with_a_warning() {
    check(
        vec![text("Long"), finish(Finish::Length, vec![])],
        expect![[r#"
        begin
          call model, 2 messages, last  user "question"
        text "Long"
          emit token "Long"
        finish Length
          emit warning ANSWER_CUT
          end Completed
        parts
          assistant "Long"
        text "Long", steps 1
    "#]],
    );
}

#[test]
fn a_filtered_answer_is_refused_or_marked() {
    check_from(
        question(Locale::Ru),
        vec![finish(Finish::ContentFilter, vec![])],
        expect![[r#"
        begin
          call model, 2 messages, last  user "question"
        finish ContentFilter
          end Failed LLM_REFUSED "Языковая модель отказалась отвечать на это."
        parts
        text "", steps 1
    "#]],
    );
    check(
        vec![text("Some"), finish(Finish::ContentFilter, vec![read("a")])],
        expect![[r#"
        begin
          call model, 2 messages, last  user "question"
        text "Some"
          emit token "Some"
        finish ContentFilter a:look
          emit warning ANSWER_FILTERED
          end Completed
        parts
          assistant "Some"
        text "Some", steps 1
    "#]],
    );
    check(
        vec![text("Some"), Input::ModelFailed(ModelFailure::Refused)],
        expect![[r#"
        begin
          call model, 2 messages, last  user "question"
        text "Some"
          emit token "Some"
        model failed Refused
          emit warning ANSWER_FILTERED
          end Completed
        parts
          assistant "Some"
        text "Some", steps 1
    "#]],
    );
}

#[test]
fn an_unreachable_model_ends_the_turn_and_keeps_the_text() {
    let fails = || Input::ModelFailed(ModelFailure::Unavailable);
    check(
        vec![fails()],
        expect![[r#"
        begin
          call model, 2 messages, last  user "question"
        model failed Unavailable
          end Failed LLM_UNAVAILABLE "The language model can't be reached. Try again in a moment."
        parts
        text "", steps 1
    "#]],
    );
    check(
        vec![text("A"), asks(vec![read("r")]), done("r"), text("Half"), fails()],
        expect![[r#"
            begin
              call model, 2 messages, last  user "question"
            text "A"
              emit token "A"
            finish ToolCalls r:look
              checkpoint
              emit start r look
              call r look {"at":"r"}
            finished r Ok(Object {"of": String("r")})
              checkpoint
              emit end r {"of":"r"}
              call model, 4 messages, last  result r {"of":"r"}
            text "Half"
              emit token "\n\n"
              emit token "Half"
            model failed Unavailable
              end Failed LLM_UNAVAILABLE "The language model can't be reached. Try again in a moment."
            parts
              assistant "A" r
              result r {"of":"r"}
              assistant "Half"
            text "A\n\nHalf", steps 2
        "#]],
    );
}
