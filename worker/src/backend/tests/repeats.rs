//! What is asked again, and what nobody knows.
use std::time::{Duration, Instant};

use agent::input::ToolOutcome;
use agent::tool::SideEffect;
use axum::body::{Body, Bytes};
use axum::response::Response;
use contract::error_code::ErrorCode;
use serde_json::json;
use tokio::io::AsyncReadExt;

use super::mock::{Mock, answer, config, deploy, ok, once, perform, read};
use crate::backend::Backend;

fn half() -> Response {
    let pieces: [Result<Bytes, std::io::Error>; 2] =
        [Ok(Bytes::from_static(b"{\"ok\":")), Err(std::io::Error::other("gone"))];
    answer(200, Body::from_stream(futures_util::stream::iter(pieces)))
}

#[tokio::test]
async fn a_read_is_asked_again() {
    for bad in
        [|| answer(502, "<html>"), || answer(503, ""), || answer(504, ""), || answer(429, ""), half]
    {
        let mock = Mock::start(move |_, before| if before < 2 { bad() } else { ok() }).await;
        assert_eq!(read(&mock.backend()).await, ToolOutcome::Ok(json!({"ok": true})));
        assert_eq!(mock.calls().len(), 3);
    }
}

#[tokio::test]
async fn a_read_is_given_up() {
    let mock = Mock::start(|_, _| answer(503, "")).await;
    let outcome = read(&mock.backend()).await;
    let ToolOutcome::Failed { code: ErrorCode::ToolFailure, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(mock.calls().len(), 3);
    let mock = Mock::start(|_, _| answer(500, "")).await;
    read(&mock.backend()).await;
    assert_eq!(mock.calls().len(), 1);
}

#[tokio::test]
async fn a_lost_side_effect_is_not_repeated() {
    for bad in [half, || answer(502, ""), || answer(504, "")] {
        let mock = Mock::start(move |_, _| bad()).await;
        assert_eq!(once(&mock.backend()).await, ToolOutcome::OutcomeUnknown);
        assert_eq!(mock.calls().len(), 1);
    }
}

#[tokio::test]
async fn an_idempotent_one_is_repeated_under_its_key() {
    let mock = Mock::start(|_, before| if before == 0 { half() } else { ok() }).await;
    let outcome = perform(&mock.backend(), &deploy(), SideEffect::Idempotent).await;
    assert_eq!(outcome, ToolOutcome::Ok(json!({"ok": true})));
    let keys: Vec<String> =
        mock.calls().iter().map(|call| call.header("idempotency-key").to_owned()).collect();
    assert_eq!(keys, ["key-1", "key-1"]);
    let mock = Mock::start(|_, _| half()).await;
    let outcome = perform(&mock.backend(), &deploy(), SideEffect::Idempotent).await;
    assert_eq!(outcome, ToolOutcome::OutcomeUnknown);
}

#[tokio::test]
async fn a_reset_before_the_answer_leaves_it_open() {
    let tokens = Mock::start(|_, _| ok()).await;
    let (url, asked) = resetting_server().await;
    let backend = Backend::new(config(&url, &format!("{}/token", tokens.url))).unwrap();
    assert_eq!(once(&backend).await, ToolOutcome::OutcomeUnknown);
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
    let outcome = read(&backend).await;
    let ToolOutcome::Failed { code: ErrorCode::Unavailable, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 4);
}

#[tokio::test]
async fn nobody_listens_so_nothing_happened() {
    let tokens = Mock::start(|_, _| ok()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let backend = Backend::new(config(&url, &format!("{}/token", tokens.url))).unwrap();
    for outcome in [once(&backend).await, read(&backend).await] {
        let ToolOutcome::Failed { code: ErrorCode::Unavailable, text } = outcome else {
            panic!("{outcome:?}")
        };
        assert!(!text.contains("127.0.0.1"), "{text}");
    }
}

#[tokio::test]
async fn no_call_lasts_for_ever() {
    let mock = Mock::start(|_, _| {
        answer(
            200,
            Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>()),
        )
    })
    .await;
    let mut config = mock.config();
    config.call_timeout = Duration::from_millis(300);
    let backend = Backend::new(config).unwrap();
    let started = Instant::now();
    assert_eq!(once(&backend).await, ToolOutcome::OutcomeUnknown);
    let outcome = read(&backend).await;
    let ToolOutcome::Failed { code: ErrorCode::Unavailable, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(started.elapsed() < Duration::from_secs(3));
}

/// Takes a request and resets the connection, whatever it says.
#[expect(clippy::disallowed_methods, reason = "a test server; it ends with the test")]
async fn resetting_server() -> (String, std::sync::Arc<std::sync::atomic::AtomicU32>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counter = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = socket.read(&mut [0; 4096]).await;
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            socket.set_zero_linger().unwrap();
        }
    });
    (url, asked)
}
