//! Cancel at every place: text stays, every call has a result.
use contract::error_code::ErrorCode;
use contract::job::Locale;
use expect_test::expect;
use serde_json::json;

use super::render::{check, check_from};
use super::world::{asks, deploy, done, question, read, result, text, write};
use crate::input::{Input, ToolOutcome};
use crate::run::Begin;

#[test]
fn while_the_model_writes() {
    check(
        vec![text("Half an"), Input::Cancel, Input::Cancel, text("x")],
        expect![[r#"
        begin
          call model, 2 messages, last  user "question"
        text "Half an"
          emit token "Half an"
        cancel
          end Cancelled
        cancel
          ! `cancel` is out of order while the run is over
        text "x"
          ! `model text` is out of order while the run is over
        parts
          assistant "Half an"
        text "Half an", steps 1
    "#]],
    );
    check(
        vec![Input::Cancel],
        expect![[r#"
        begin
          call model, 2 messages, last  user "question"
        cancel
          end Cancelled
        parts
        text "", steps 1
    "#]],
    );
}

#[test]
fn while_tools_run() {
    let begin = Begin { text_prefix: "Before.".to_owned(), ..question(Locale::Ru) };
    check_from(
        begin,
        vec![
            text("Смотрю."),
            asks(vec![read("r1"), read("r2"), write("w"), deploy("d")]),
            done("r1"),
            Input::Cancel,
            done("r2"),
        ],
        expect![[r#"
            begin
              call model, 2 messages, last  user "question"
            text "Смотрю."
              emit token "\n\n"
              emit token "Смотрю."
            finish ToolCalls r1:look r2:look w:create_branch d:deploy_dashboard
              checkpoint
              emit start r1 look
              emit start r2 look
              call r1 look {"at":"r1"}
              call r2 look {"at":"r2"}
            finished r1 Ok(Object {"of": String("r1")})
              checkpoint
              emit end r1 {"of":"r1"}
            cancel
              emit error r2 - "Отменено."
              end Cancelled
            finished r2 Ok(Object {"of": String("r2")})
              ! `tool finished` is out of order while the run is over
            parts
              assistant "Смотрю." r1 r2 w d
              result r1 {"of":"r1"}
              result r2 {"error":"CANCELLED","message":"The turn was stopped before this call had a result."}
              result w {"error":"CANCELLED","message":"The turn was stopped before this call had a result."}
              result d {"error":"CANCELLED","message":"The turn was stopped before this call had a result."}
            text "Before.\n\nСмотрю.", steps 1
        "#]],
    );
}

#[test]
fn a_change_on_its_way_has_an_unknown_outcome() {
    check(
        vec![asks(vec![write("w")]), Input::Cancel],
        expect![[r#"
        begin
          call model, 2 messages, last  user "question"
        finish ToolCalls w:create_branch
          checkpoint
          emit start w create_branch
          call w create_branch {"name":"w"}
        cancel
          emit error w OUTCOME_UNKNOWN "Nobody knows whether this operation happened. Check before you repeat it."
          end Cancelled
        parts
          assistant "" w
          result w {"error":"OUTCOME_UNKNOWN","message":"The connection was lost while this call was running. Nobody knows whether it took effect. Do not repeat it; tell the user and suggest how to check."}
        text "", steps 1
    "#]],
    );
}

#[test]
fn a_late_result_is_kept_and_starts_nothing() {
    let settled = |id: &str, outcome| Input::ToolSettled { call_id: id.to_owned(), outcome };
    check(
        vec![
            asks(vec![write("w1"), write("w2"), deploy("d")]),
            settled("w1", ToolOutcome::Ok(json!(1))),
            settled("w2", ToolOutcome::Ok(json!(2))),
            Input::Cancel,
        ],
        expect![[r#"
            begin
              call model, 2 messages, last  user "question"
            finish ToolCalls w1:create_branch w2:create_branch d:deploy_dashboard
              checkpoint
              emit start w1 create_branch
              call w1 create_branch {"name":"w1"}
            settled w1 Ok(Number(1))
              emit end w1 1
            settled w2 Ok(Number(2))
              ! `tool settled` is out of order while the run is not running that call
            cancel
              end Cancelled
            parts
              assistant "" w1 w2 d
              result w1 1
              result w2 {"error":"CANCELLED","message":"The turn was stopped before this call had a result."}
              result d {"error":"CANCELLED","message":"The turn was stopped before this call had a result."}
            text "", steps 1
        "#]],
    );
}

#[test]
fn while_a_card_is_open() {
    check(
        vec![asks(vec![read("r"), deploy("d")]), done("r"), Input::Cancel],
        expect![[r#"
            begin
              call model, 2 messages, last  user "question"
            finish ToolCalls r:look d:deploy_dashboard
              checkpoint
              emit start r look
              call r look {"at":"r"}
            finished r Ok(Object {"of": String("r")})
              checkpoint
              emit end r {"of":"r"}
              pause for d: "Confirm deploying dashboard d?"
            cancel
              end Cancelled
            parts
              result d {"error":"CANCELLED","message":"The turn was stopped before this call had a result."}
            text "", steps 0
        "#]],
    );
}

#[test]
fn while_a_token_is_awaited() {
    let failed = ToolOutcome::Failed { code: ErrorCode::ToolFailure, text: "broken".to_owned() };
    check(
        vec![
            asks(vec![read("a"), read("b")]),
            result("a", ToolOutcome::TokenExpired),
            result("b", failed),
            Input::Cancel,
        ],
        expect![[r#"
            begin
              call model, 2 messages, last  user "question"
            finish ToolCalls a:look b:look
              checkpoint
              emit start a look
              emit start b look
              call a look {"at":"a"}
              call b look {"at":"b"}
            finished a TokenExpired
              checkpoint
            finished b Failed { code: ToolFailure, text: "broken" }
              checkpoint
              emit error b TOOL_FAILURE "broken"
              pause for a token
            cancel
              emit error a - "Cancelled."
              end Cancelled
            parts
              result a {"error":"CANCELLED","message":"The turn was stopped before this call had a result."}
            text "", steps 0
        "#]],
    );
}
