//! What answers mean.
use agent::input::ToolOutcome;
use agent::tool::SideEffect;
use axum::response::Response;
use contract::job::Locale;
use expect_test::{Expect, expect};
use serde_json::json;
use shared::runtime::trace::Trace;

use super::mock::{Mock, answer, deploy, once, read, valid_user};
use crate::backend::Identity;

#[tokio::test]
async fn results() {
    for (body, value) in [
        (r#"{"items":[],"total":0}"#, json!({"items": [], "total": 0})),
        ("[1,2]", json!([1, 2])),
        ("", json!({})),
        ("plain words", json!("plain words")),
        ("\u{feff}{\"a\":1}", json!({"a": 1})),
        (
            "{\"a\\u0000b\":\"x\\u0000y\",\"l\":[\"\\\\u0000\"]}",
            json!({"a\u{fffd}b": "x\u{fffd}y", "l": ["\\u0000"]}),
        ),
    ] {
        let mock = Mock::start(move |_, _| answer(200, body)).await;
        assert_eq!(read(&mock.backend()).await, ToolOutcome::Ok(value));
    }
    let mock = Mock::start(|_, _| answer(204, "")).await;
    assert_eq!(once(&mock.backend()).await, ToolOutcome::Ok(json!({})));
}

#[tokio::test]
async fn accepted_work_goes_on_by_itself() {
    let mock = Mock::start(|_, _| answer(202, r#"{"task_id":"task-7","status":"running"}"#)).await;
    let task = json!({"task_id": "task-7", "status": "running"});
    assert_eq!(once(&mock.backend()).await, ToolOutcome::Accepted { task });
}

#[tokio::test]
async fn refusals_speak_to_people() {
    check(
        403,
        r#"{"detail":"user `anna` may not do deploy"}"#,
        expect![
            "FORBIDDEN: You have no permission for this operation. user `anna` may not do deploy"
        ],
    )
    .await;
    check(
        404,
        r#"{"detail":"dashboard 42 does not exist"}"#,
        expect!["TOOL_FAILURE: Nothing was found under this id. dashboard 42 does not exist"],
    )
    .await;
    check(409, r#"{"error":{"code":"branch_exists","message":"branch `fix` already exists"}}"#, expect!["TOOL_FAILURE: This conflicts with the current state; nothing was changed. branch_exists; branch `fix` already exists"]).await;
    check(
        422,
        r#"{"detail":[{"loc":["body","name"],"msg":"field required","type":"missing"}]}"#,
        expect!["TOOL_FAILURE: The backend did not accept these values. name: field required"],
    )
    .await;
    check(400, "{}", expect!["TOOL_FAILURE: The backend did not accept these values."]).await;
    check(418, "{}", expect!["TOOL_FAILURE: The operation failed."]).await;
    check(
        429,
        "{}",
        expect!["TOOL_FAILURE: Too many requests at the moment. Try again in a minute."],
    )
    .await;
    check(
        500,
        r#"{"detail":"division by zero"}"#,
        expect!["TOOL_FAILURE: The backend failed while it worked on this. Try again later."],
    )
    .await;
    check(503, "", expect!["TOOL_FAILURE: The backend is busy at the moment. Try again later."])
        .await;
}

#[tokio::test]
async fn machinery_is_never_shown() {
    for detail in [
        "<html><body>nginx/1.25</body></html>",
        "duplicate key: SELECT * FROM users WHERE id = 1",
        "connect to db-1.prod.svc.cluster.local failed",
        "upstream 10.12.0.7 refused",
        "can't reach db:5432",
        "https://internal/trace",
        "Traceback (most recent call last)",
        "psycopg.errors.UniqueViolation",
        "token eyJhbGciOiJIUzI1NiJ9.e30.x",
        "password is wrong",
    ] {
        let body = json!({ "detail": detail }).to_string();
        check(400, &body, expect!["TOOL_FAILURE: The backend did not accept these values."]).await;
    }
    let long = json!({ "detail": "x".repeat(400) }).to_string();
    check(400, &long, expect!["TOOL_FAILURE: The backend did not accept these values."]).await;
}

#[tokio::test]
async fn a_page_is_no_result() {
    let page = || {
        let page = "<html><h1>Sign in</h1></html>";
        Response::builder()
            .status(200)
            .header("content-type", "text/html")
            .body(page.into())
            .unwrap()
    };
    let mock = Mock::start(move |_, _| page()).await;
    expect!["TOOL_FAILURE: The operation failed."].assert_eq(&failure(read(&mock.backend()).await));
    let mock = Mock::start(|_, _| answer(200, "<!DOCTYPE html><p>SELECT 1")).await;
    expect!["TOOL_FAILURE: The operation failed."].assert_eq(&failure(read(&mock.backend()).await));
}

#[tokio::test]
async fn refusals_speak_russian_to_russians() {
    let mock = Mock::start(|_, _| answer(404, "{}")).await;
    let (token, trace) = (valid_user(), Trace::default());
    let identity =
        Identity { token: Some(&token), idempotency_key: "k", trace: &trace, locale: Locale::Ru };
    let outcome = mock.backend().call(&identity, &deploy(), SideEffect::Once).await;
    expect!["TOOL_FAILURE: По этому идентификатору ничего не найдено."]
        .assert_eq(&failure(outcome));
}

async fn check(status: u16, body: &str, expected: Expect) {
    let body = body.to_owned();
    let mock = Mock::start(move |_, _| answer(status, body.clone())).await;
    expected.assert_eq(&failure(once(&mock.backend()).await));
    assert_eq!(mock.calls().len(), 1);
}

fn failure(outcome: ToolOutcome) -> String {
    let ToolOutcome::Failed { code, text } = outcome else { panic!("{outcome:?}") };
    format!("{}: {text}", code.as_str())
}
