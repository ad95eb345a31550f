//! What the middleware makes of a slow, a crowded and a broken handler.
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream::{self, FuturesUnordered};
use tower::ServiceExt as _;
use tower_http::catch_panic::CatchPanicLayer;

use super::*;
use crate::load::Limits;

const FULL: &str =
    r#"{"detail":"The service is full. Try again in a moment.","code":"QUEUE_FULL"}"#;
const LATE: &str =
    r#"{"detail":"The service can't be reached. Try again in a moment.","code":"UNAVAILABLE"}"#;
const BROKEN: &str = r#"{"detail":"Something went wrong. Try again.","code":"INTERNAL"}"#;

#[tokio::test]
async fn a_handler_that_hangs_is_given_up_and_its_slot_is_free_again() {
    let app = app(1);
    for _ in 0..2 {
        assert_eq!(ask(&app, "/slow").await, (503, LATE.to_owned()));
    }
}

#[tokio::test]
async fn one_request_too_many_is_told_to_come_back() {
    let app = app(1);
    let (first, second) = tokio::join!(ask(&app, "/slow"), ask(&app, "/slow"));
    assert_eq!(first, (503, LATE.to_owned()));
    assert_eq!(second, (503, FULL.to_owned()));
}

#[tokio::test]
async fn a_panic_is_an_answer_too() {
    assert_eq!(ask(&app(1), "/broken").await, (500, BROKEN.to_owned()));
}

#[tokio::test]
async fn bodies_at_work_have_so_much_room_together() {
    let app = app_within(100, Duration::from_secs(60));
    let slow = |_| {
        let chunk = stream::iter([Ok::<_, io::Error>(Bytes::from(vec![b' '; 1024 * 1024]))]);
        let body = Body::from_stream(chunk.chain(stream::pending()));
        app.clone().oneshot(Request::post("/read").body(body).unwrap())
    };
    // 64 of them fit, and wait for the rest of their bodies.
    let answers: FuturesUnordered<_> = (0..70).map(slow).collect();
    let refused: Vec<_> =
        answers.take(6).map(|answer| answer.unwrap().status().as_u16()).collect().await;
    assert_eq!(refused, [503; 6]);
    let body = Body::from(vec![b' '; 1024 * 1024]);
    let answer = app.oneshot(Request::post("/read").body(body).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[test]
fn only_a_plain_request_id_is_taken_over() {
    let plain = |id: &str| is_plain(&HeaderValue::from_str(id).unwrap());
    assert!(plain("0199-abc_D"));
    for id in ["", "a b", "a\"b", "a.b", &"a".repeat(65)] {
        assert!(!plain(id), "{id}");
    }
}

fn app(requests: usize) -> Router {
    app_within(requests, Duration::from_millis(20))
}

fn app_within(requests: usize, within: Duration) -> Router {
    let limits = Limits { streams: 1, streams_per_user: 1, jobs_per_user: 1 };
    let bounds = Bounds::new(requests, within, Load::new(limits));
    Router::new()
        .route("/slow", get(std::future::pending::<()>))
        .route("/read", post(async |body: Bytes| body.len().to_string()))
        .route(
            "/broken",
            get(|| async {
                if true {
                    panic!("secret detail")
                }
            }),
        )
        .route_layer(from_fn_with_state(bounds, bounded))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(identify_and_log))
}

async fn ask(app: &Router, path: &str) -> (u16, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 10_000).await.unwrap();
    (status, String::from_utf8_lossy(&body).into_owned())
}
