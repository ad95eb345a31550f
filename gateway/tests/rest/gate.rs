//! Who gets past the gate; what no handler answers; readiness; shutdown.
use std::time::Duration;

use gateway::http::PUBLIC;
use jsonwebtoken::Algorithm;
use reqwest::Method;
use serde_json::json;
use tests::token;

use crate::stand::{PREFIX, Stand, read};

const PROTECTED: &[(&str, &str)] = &[
    ("POST", "/gradio_api/queue/join"),
    ("POST", "/gradio_api/call/chat"),
    ("POST", "/gradio_api/call/v2/chat"),
    ("GET", "/gradio_api/call/chat/0199aaaa-0000-7000-8000-000000000001"),
    ("GET", "/gradio_api/call/v2/chat/0199aaaa-0000-7000-8000-000000000001"),
    ("POST", "/gradio_api/upload"),
    ("GET", "/gradio_api/file=0123456789abcdef0123456789abcdef/a.pdf"),
    ("POST", "/api/assistant/conversations"),
    ("GET", "/api/assistant/conversations"),
    ("DELETE", "/api/assistant/conversations/x"),
    ("POST", "/api/assistant/conversations/x/unarchive"),
    ("POST", "/api/assistant/conversations/x/messages"),
    ("GET", "/api/assistant/history"),
    ("GET", "/api/agent/conversations/x/active"),
];

#[tokio::test]
async fn every_route_but_the_public_ones_needs_a_users_token() {
    let stand = Stand::start().await;
    let user = token::user("anna");
    let claims = json!({ "sub": "anna", "exp": 4_000_000_000_u64 });
    let refused = [
        None,
        Some(format!("Bearer {}", token::expired("anna"))),
        Some(format!("Bearer {}", token::service("agent", Duration::from_secs(60)))),
        Some(format!("Bearer {}", token::sign(&claims, "x".repeat(40).as_str(), Algorithm::HS256))),
        Some(format!("Bearer {user}, Bearer {user}")),
        Some(user.clone()),
    ];
    for prefix in ["", PREFIX] {
        for (method, path) in PROTECTED {
            for header in &refused {
                let method = Method::from_bytes(method.as_bytes()).unwrap();
                let url = format!("{}{prefix}{path}", stand.base);
                let mut request = stand.http.request(method, url);
                if let Some(header) = header {
                    request = request.header("authorization", header);
                }
                let answer = read(request.send().await.unwrap()).await;
                let expected = (401, json!({ "detail": "UNAUTHORIZED" }));
                assert_eq!(answer, expected, "{prefix}{path} {header:?}");
            }
        }
    }
}

#[tokio::test]
async fn public_routes_answer_without_a_token() {
    let stand = Stand::start().await;
    for prefix in ["", PREFIX] {
        for path in PUBLIC {
            let path = path.replace("{session_hash}", "abc12345");
            let url = format!("{}{prefix}{path}?session_hash=abc12345", stand.base);
            let mut response = stand.http.get(&url).send().await.unwrap();
            if response.status() == 405 {
                let body = json!({ "session_hash": "abc12345", "client_id": "agent" });
                response = stand.http.post(&url).json(&body).send().await.unwrap();
            }
            let status = response.status().as_u16();
            let expected = if path.ends_with("service-token") { 401 } else { 200 };
            assert_eq!(status, expected, "{prefix}{path}");
        }
    }
}

#[tokio::test]
async fn what_no_route_answers_has_a_shape_too() {
    let stand = Stand::start().await;
    let not_found = (404, json!({ "detail": "Not Found" }));
    assert_eq!(stand.get("anna", "/nowhere").await, not_found);
    assert_eq!(stand.get("anna", "/api/agent/gradio/nowhere").await, not_found);
    let not_allowed = (405, json!({ "detail": "Method Not Allowed" }));
    assert_eq!(stand.delete("anna", "/api/assistant/history").await, not_allowed);
    assert_eq!(stand.get("anna", "/gradio_api/upload").await, not_allowed);

    let url = format!("{}/healthz/live", stand.base);
    let own = stand.http.get(&url).header("x-request-id", "from-the-proxy_1").send().await.unwrap();
    assert_eq!(own.headers()["x-request-id"], "from-the-proxy_1");
    let odd = stand.http.get(&url).header("x-request-id", "a b\"c").send().await.unwrap();
    assert_eq!(odd.headers()["x-request-id"].len(), 32);

    let large = "x".repeat(3 * 1024 * 1024);
    let body = json!({ "title": large });
    let answer = stand.post("anna", "/api/assistant/conversations", body).await;
    assert_eq!(answer, (413, json!({ "detail": "The request is too large." })));
}

#[tokio::test]
async fn the_gateway_is_ready_once_streams_and_tables_are_there() {
    let stand = Stand::start_bare().await;
    let (status, report) = stand.get("anna", "/healthz/ready").await;
    assert_eq!((status, &report["ready"]), (503, &json!(false)), "{report}");
    let missing = report["missing"].to_string();
    assert!(missing.contains("AGENT_JOBS") || missing.contains("NATS streams"), "{missing}");
    assert!(missing.contains("database"), "{missing}");

    shared::bus::topology::apply(&stand.app.bus, &stand.app.config.topology).await.unwrap();
    shared::store::migrate::run(&stand.app.config.database.url).await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    let report = stand.get("anna", "/healthz/ready").await;
    assert_eq!(report, (200, json!({ "ready": true, "missing": [] })));
    assert_eq!(stand.get("anna", "/healthz/live").await.0, 200);
}

#[tokio::test]
async fn shutdown_ends_the_server() {
    let stand = Stand::start().await;
    // A connection that is kept alive does not hold it up.
    assert_eq!(stand.get("anna", "/healthz/live").await.0, 200);
    stand.app.shutdown.trigger();
    let ended = tokio::time::timeout(Duration::from_secs(10), stand.serving).await;
    ended.unwrap().unwrap();
}
