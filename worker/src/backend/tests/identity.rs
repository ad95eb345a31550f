//! Who calls, and with which token.
use std::time::Duration;

use agent::input::ToolOutcome;
use agent::tool::SideEffect;
use axum::response::IntoResponse;
use contract::error_code::ErrorCode;
use contract::job::Locale;
use contract::secret::UserToken;
use serde_json::json;
use shared::runtime::trace::Trace;
use tokio::time::Instant;

use super::mock::{self, Mock, answer, deploy, get, ok, once, read, user_token, valid_user};
use crate::backend::Identity;
use crate::backend::paths::Route;

#[tokio::test]
async fn every_call_carries_both_identities() {
    let mock = Mock::start(|_, _| ok()).await;
    let backend = mock.backend();
    let trace = Trace { tracestate: Some("a=b".to_owned()), ..Trace::root() };
    let token = valid_user();
    let identity = Identity {
        token: Some(&token),
        idempotency_key: "conv:call",
        trace: &trace,
        locale: Locale::En,
    };
    for (request, effect) in
        [(get(Route::ListTasks), SideEffect::Read), (deploy(), SideEffect::Once)]
    {
        assert_eq!(
            backend.call(&identity, &request, effect).await,
            ToolOutcome::Ok(json!({"ok": true}))
        );
    }
    for call in mock.calls() {
        assert_eq!(call.header("authorization"), "Bearer svc-1");
        assert_eq!(call.header("x-user-jwt"), token.expose());
        assert_eq!(call.header("idempotency-key"), "conv:call");
        assert_eq!(call.header("traceparent"), trace.traceparent.as_deref().unwrap());
        assert_eq!(call.header("tracestate"), "a=b");
    }
    assert_eq!(mock.calls()[1].body, json!({"environment_id": "prod"}).to_string());
    let asked = &mock.token_requests()[0];
    assert_eq!(asked.method, axum::http::Method::POST);
    assert_eq!(asked.header("x-user-jwt"), "-");
    assert_eq!(asked.header("authorization"), "-");
    let body: serde_json::Value = serde_json::from_slice(&asked.body).unwrap();
    assert_eq!(body["client_id"], "agent");
    assert_eq!(body["client_secret"], "s3cret");
}

#[tokio::test]
async fn the_users_token_stands_without_bearer() {
    let mock = Mock::start(|_, _| ok()).await;
    let token = UserToken::new(format!("Bearer {}", valid_user().expose()));
    let trace = Trace::default();
    let identity =
        Identity { token: Some(&token), idempotency_key: "k", trace: &trace, locale: Locale::En };
    mock.backend().call(&identity, &get(Route::ListTasks), SideEffect::Read).await;
    assert_eq!(mock.calls()[0].header("x-user-jwt"), valid_user().expose());
}

#[tokio::test]
async fn a_redirect_takes_no_identity_along() {
    let other = Mock::start(|_, _| ok()).await;
    let elsewhere = format!("{}/stolen", other.url);
    let mock =
        Mock::start(move |_, _| axum::response::Redirect::temporary(&elsewhere).into_response())
            .await;
    let outcome = read(&mock.backend()).await;
    let ToolOutcome::Failed { code: ErrorCode::ToolFailure, text } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(!text.contains("127.0.0.1"), "{text}");
    assert_eq!(other.calls().len(), 0);
    assert_eq!(mock.calls().len(), 1);
}

#[tokio::test]
async fn fifty_callers_fetch_one_token() {
    let mock = Mock::start(|_, _| ok()).await;
    let backend = mock.backend();
    let calls = (0..50).map(|_| read(&backend));
    for outcome in futures_util::future::join_all(calls).await {
        assert_eq!(outcome, ToolOutcome::Ok(json!({"ok": true})));
    }
    assert_eq!((mock.tokens_issued(), mock.token_requests().len()), (1, 1));
}

#[tokio::test]
async fn a_token_is_renewed_once_before_it_expires() {
    let mock = Mock::start(|_, _| ok()).await;
    *mock.desk.token_lifetime.lock().unwrap() = json!("100");
    let tokens = mock.service_tokens();
    let first = tokens.get().await.unwrap();
    let young = Instant::now() + Duration::from_secs(75);
    assert_eq!(tokens.get_at(young).await.unwrap().expose(), first.expose());
    let old = Instant::now() + Duration::from_secs(80);
    *mock.desk.token_lifetime.lock().unwrap() = json!(1000.5);
    let renewed = futures_util::future::join_all((0..50).map(|_| tokens.get_at(old))).await;
    assert!(renewed.iter().all(|token| token.as_ref().unwrap().expose() == "svc-2"));
    assert_eq!(mock.tokens_issued(), 2);
}

#[tokio::test]
async fn an_old_token_serves_while_its_renewal_fails() {
    let mock = Mock::start(|_, _| ok()).await;
    let tokens = mock.service_tokens();
    tokens.get().await.unwrap();
    *mock.desk.token_status.lock().unwrap() = 500;
    let old = Instant::now() + Duration::from_secs(280);
    assert_eq!(tokens.get_at(old).await.unwrap().expose(), "svc-1");
    let over = Instant::now() + Duration::from_secs(301);
    assert!(tokens.get_at(over).await.is_err());
}

#[tokio::test]
async fn without_a_service_token_nothing_is_sent() {
    let mock = Mock::start(|_, _| ok()).await;
    *mock.desk.token_status.lock().unwrap() = 401;
    let backend = mock.backend();
    let outcomes = futures_util::future::join_all((0..20).map(|_| once(&backend))).await;
    for outcome in outcomes {
        let ToolOutcome::Failed { code: ErrorCode::Unavailable, .. } = outcome else {
            panic!("{outcome:?}")
        };
    }
    assert_eq!((mock.calls().len(), mock.token_requests().len()), (0, 1));
}

#[tokio::test]
async fn a_refused_service_token_is_renewed_once_for_all() {
    let mock = Mock::start(|call, _| {
        if call.header("authorization") == "Bearer svc-1" {
            answer(401, r#"{"detail":"expired"}"#)
        } else {
            ok()
        }
    })
    .await;
    let backend = mock.backend();
    for outcome in futures_util::future::join_all((0..20).map(|_| once(&backend))).await {
        assert_eq!(outcome, ToolOutcome::Ok(json!({"ok": true})));
    }
    assert_eq!(mock.tokens_issued(), 2);
}

#[tokio::test]
async fn a_second_401_is_the_users() {
    let mock = Mock::start(|_, _| answer(401, r#"{"detail":"Not authenticated"}"#)).await;
    assert_eq!(once(&mock.backend()).await, ToolOutcome::TokenExpired);
    assert_eq!((mock.calls().len(), mock.tokens_issued()), (2, 2));
}

#[tokio::test]
async fn a_401_that_names_the_user_is_the_users_at_once() {
    for body in [
        r#"{"detail":"user token: ExpiredSignature"}"#,
        r#"{"error":{"code":"USER_TOKEN_EXPIRED"}}"#,
    ] {
        let mock = Mock::start(move |_, _| answer(401, body)).await;
        assert_eq!(once(&mock.backend()).await, ToolOutcome::TokenExpired);
        assert_eq!((mock.calls().len(), mock.tokens_issued()), (1, 1), "{body}");
    }
    let mock = Mock::start(|_, _| {
        let mut refusal = answer(401, "");
        refusal.headers_mut().insert("www-authenticate", r#"Bearer realm="user""#.parse().unwrap());
        refusal
    })
    .await;
    assert_eq!(once(&mock.backend()).await, ToolOutcome::TokenExpired);
    assert_eq!(mock.calls().len(), 1);
}

#[tokio::test]
async fn a_service_refused_twice_is_not_the_users_fault() {
    let mock =
        Mock::start(|_, _| answer(401, r#"{"detail":"service token: InvalidSignature"}"#)).await;
    let outcome = once(&mock.backend()).await;
    let ToolOutcome::Failed { code: ErrorCode::Unavailable, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(mock.calls().len(), 2);
}

#[tokio::test]
async fn an_expired_or_missing_user_token_is_not_sent() {
    let mock = Mock::start(|_, _| ok()).await;
    let backend = mock.backend();
    let trace = Trace::default();
    let now = shared::runtime::clock::now().unix_timestamp();
    for token in [
        None,
        Some(user_token(now)),
        Some(user_token(now - 60)),
        Some(UserToken::new("a\nb".to_owned())),
    ] {
        let identity = Identity {
            token: token.as_ref(),
            idempotency_key: "k",
            trace: &trace,
            locale: Locale::En,
        };
        let outcome = backend.call(&identity, &get(Route::ListTasks), SideEffect::Read).await;
        assert_eq!(outcome, ToolOutcome::TokenExpired);
    }
    assert_eq!(mock.calls().len(), 0);
    // One that can't be read is the backend's business.
    let odd = UserToken::new("opaque".to_owned());
    let identity =
        Identity { token: Some(&odd), idempotency_key: "k", trace: &trace, locale: Locale::En };
    backend.call(&identity, &get(Route::ListTasks), SideEffect::Read).await;
    assert_eq!(mock.calls().len(), 1);
}

#[tokio::test]
async fn secrets_show_in_no_debug_output() {
    let config = mock::config("http://127.0.0.1:1", "http://127.0.0.1:1/token");
    assert!(!format!("{config:?}").contains("s3cret"));
}
