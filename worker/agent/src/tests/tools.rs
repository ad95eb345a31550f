//! Steps with tools: order, results, arguments that don't fit.
use contract::error_code::ErrorCode;
use contract::job::Locale;
use expect_test::expect;
use serde_json::json;

use super::render::{check, check_from};
use super::world::{asks, done, question, read, result, stop, text, with_arguments, write};
use crate::input::{Arguments, Input, ToolOutcome};
use crate::message::Message;
use crate::run::Begin;

#[test]
fn an_answer_without_tools() {
    check(
        vec![text("При"), text(""), text("вет"), stop(), stop()],
        expect![[r#"
        begin
          call model, 2 messages, last  user "question"
        text "При"
          emit token "При"
        text ""
        text "вет"
          emit token "вет"
        finish Stop
          end Completed
        finish Stop
          ! `model finished` is out of order while the run is over
        parts
          assistant "Привет"
        text "Привет", steps 1
    "#]],
    );
}

#[test]
fn reads_run_together_and_writes_one_after_another() {
    check(
        vec![
            text("Looking."),
            asks(vec![write("w1"), read("r1"), write("w2"), read("r2")]),
            done("w1"),
            done("r2"),
            Input::ToolProgress { call_id: "r1".to_owned(), elapsed_s: 30 },
            done("r1"),
            Input::ToolProgress { call_id: "r1".to_owned(), elapsed_s: 35 },
            done("w1"),
            done("w2"),
            text("Done."),
            stop(),
        ],
        expect![[r#"
            begin
              call model, 2 messages, last  user "question"
            text "Looking."
              emit token "Looking."
            finish ToolCalls w1:create_branch r1:look w2:create_branch r2:look
              checkpoint
              emit start r1 look
              emit start r2 look
              call r1 look {"at":"r1"}
              call r2 look {"at":"r2"}
            finished w1 Ok(Object {"of": String("w1")})
              ! `tool finished` is out of order while the run is not running that call
            finished r2 Ok(Object {"of": String("r2")})
              checkpoint
              emit end r2 {"of":"r2"}
            progress r1 30 s
              emit progress r1 30 s
            finished r1 Ok(Object {"of": String("r1")})
              checkpoint
              emit end r1 {"of":"r1"}
              emit start w1 create_branch
              call w1 create_branch {"name":"w1"}
            progress r1 35 s
              ! `tool progress` is out of order while the run is not running that call
            finished w1 Ok(Object {"of": String("w1")})
              checkpoint
              emit end w1 {"of":"w1"}
              emit start w2 create_branch
              call w2 create_branch {"name":"w2"}
            finished w2 Ok(Object {"of": String("w2")})
              checkpoint
              emit end w2 {"of":"w2"}
              call model, 7 messages, last  result r2 {"of":"r2"}
            text "Done."
              emit token "\n\n"
              emit token "Done."
            finish Stop
              end Completed
            parts
              assistant "Looking." w1 r1 w2 r2
              result w1 {"of":"w1"}
              result r1 {"of":"r1"}
              result w2 {"of":"w2"}
              result r2 {"of":"r2"}
              assistant "Done."
            text "Looking.\n\nDone.", steps 2
        "#]],
    );
}

#[test]
fn a_failed_call_is_told_to_the_model() {
    let failed =
        ToolOutcome::Failed { code: ErrorCode::Forbidden, text: "no permission".to_owned() };
    check(
        vec![
            asks(vec![read("a"), read("b")]),
            result("a", failed),
            result("b", ToolOutcome::Accepted { task: json!({"task_id": 7}) }),
            text("It failed."),
            stop(),
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
            finished a Failed { code: Forbidden, text: "no permission" }
              checkpoint
              emit error a FORBIDDEN "no permission"
            finished b Accepted { task: Object {"task_id": Number(7)} }
              checkpoint
              emit end b {"task_id":7}
              call model, 5 messages, last  result b {"accepted":true,"note":"Accepted; it goes on in the background. Tell the user, and offer to look at it later with get_task_status.","task":{"task_id":7}}
            text "It failed."
              emit token "It failed."
            finish Stop
              end Completed
            parts
              assistant "" a b
              result a {"error":"FORBIDDEN","message":"no permission"}
              result b {"accepted":true,"note":"Accepted; it goes on in the background. Tell the user, and offer to look at it later with get_task_status.","task":{"task_id":7}}
              assistant "It failed."
            text "It failed.", steps 2
        "#]],
    );
}

#[test]
fn an_unknown_outcome_is_said_as_it_is() {
    check(
        vec![asks(vec![write("a")]), result("a", ToolOutcome::OutcomeUnknown)],
        expect![[r#"
        begin
          call model, 2 messages, last  user "question"
        finish ToolCalls a:create_branch
          checkpoint
          emit start a create_branch
          call a create_branch {"name":"a"}
        finished a OutcomeUnknown
          checkpoint
          emit error a OUTCOME_UNKNOWN "Nobody knows whether this operation happened. Check before you repeat it."
          call model, 4 messages, last  result a {"error":"OUTCOME_UNKNOWN","message":"The connection was lost while this call was running. Nobody knows whether it took effect. Do not repeat it; tell the user and suggest how to check."}
        parts
          assistant "" a
          result a {"error":"OUTCOME_UNKNOWN","message":"The connection was lost while this call was running. Nobody knows whether it took effect. Do not repeat it; tell the user and suggest how to check."}
        text "", steps 2
    "#]],
    );
}

#[test]
fn arguments_that_do_not_fit_never_reach_the_backend() {
    let invalid =
        Arguments::Invalid { value: json!({"at": 1}), problem: "`at` must be a string".to_owned() };
    check(
        vec![
            asks(vec![
                with_arguments("a", "look", invalid),
                with_arguments("b", "deploy_all", Arguments::UnknownTool { value: json!({}) }),
                read("c"),
            ]),
            done("c"),
            asks(vec![with_arguments(
                "d",
                "deploy_dashboard",
                Arguments::Invalid { value: json!({}), problem: "empty".to_owned() },
            )]),
        ],
        expect![[r#"
            begin
              call model, 2 messages, last  user "question"
            finish ToolCalls a:look b:deploy_all c:look
              checkpoint
              emit start a look
              emit error a INVALID_ARGUMENTS "`at` must be a string"
              emit start b deploy_all
              emit error b INVALID_ARGUMENTS "there is no tool named \"deploy_all\""
              emit start c look
              call c look {"at":"c"}
            finished c Ok(Object {"of": String("c")})
              checkpoint
              emit end c {"of":"c"}
              call model, 6 messages, last  result c {"of":"c"}
            finish ToolCalls d:deploy_dashboard
              checkpoint
              emit start d deploy_dashboard
              emit error d INVALID_ARGUMENTS "empty"
              call model, 8 messages, last  result d {"error":"INVALID_ARGUMENTS","message":"empty"}
            parts
              assistant "" a b c
              result a {"error":"INVALID_ARGUMENTS","message":"`at` must be a string"}
              result b {"error":"INVALID_ARGUMENTS","message":"there is no tool named \"deploy_all\""}
              result c {"of":"c"}
              assistant "" d
              result d {"error":"INVALID_ARGUMENTS","message":"empty"}
            text "", steps 3
        "#]],
    );
}

#[test]
fn call_ids_are_unique_among_all_messages() {
    let history = vec![
        Message::user("before"),
        Message::Assistant {
            content: String::new(),
            tool_calls: vec![crate::message::ToolCall {
                id: "a".to_owned(),
                name: "look".to_owned(),
                arguments: json!({}),
            }],
        },
        Message::Tool { tool_call_id: "a".to_owned(), content: "x".to_owned() },
    ];
    let begin = Begin { history, ..question(Locale::En) };
    check_from(
        begin,
        vec![asks(vec![read("a"), read("a"), read("")]), done("a-3"), done("call-1"), done("a-2")],
        expect![[r#"
            begin
              call model, 5 messages, last  user "question"
            finish ToolCalls a:look a:look :look
              checkpoint
              emit start a-2 look
              emit start a-3 look
              emit start call-1 look
              call a-2 look {"at":"a"}
              call a-3 look {"at":"a"}
              call call-1 look {"at":""}
            finished a-3 Ok(Object {"of": String("a-3")})
              checkpoint
              emit end a-3 {"of":"a-3"}
            finished call-1 Ok(Object {"of": String("call-1")})
              checkpoint
              emit end call-1 {"of":"call-1"}
            finished a-2 Ok(Object {"of": String("a-2")})
              checkpoint
              emit end a-2 {"of":"a-2"}
              call model, 9 messages, last  result call-1 {"of":"call-1"}
            parts
              assistant "" a-2 a-3 call-1
              result a-2 {"of":"a-2"}
              result a-3 {"of":"a-3"}
              result call-1 {"of":"call-1"}
            text "", steps 2
        "#]],
    );
}

#[test]
fn nul_does_not_get_through() {
    check(
        vec![
            text("a\0b"),
            asks(vec![read("a")]),
            result("a", ToolOutcome::Ok(json!({"k\0": ["v\0", "\\u0000"]}))),
        ],
        expect![[r#"
            begin
              call model, 2 messages, last  user "question"
            text "a\0b"
              emit token "a�b"
            finish ToolCalls a:look
              checkpoint
              emit start a look
              call a look {"at":"a"}
            finished a Ok(Object {"k\0": Array [String("v\0"), String("\\u0000")]})
              checkpoint
              emit end a {"k�":["v�","\\u0000"]}
              call model, 4 messages, last  result a {"k�":["v�","\\u0000"]}
            parts
              assistant "a�b" a
              result a {"k�":["v�","\\u0000"]}
            text "a�b", steps 2
        "#]],
    );
}
