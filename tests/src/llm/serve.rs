//! The model's HTTP side.
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::reply::{self, Ending, Part, Reply};
use super::{API_KEY, Desk, MODEL, check};

pub(super) async fn run(listener: TcpListener, desk: Arc<Desk>) {
    let models =
        || async { Json(json!({"object": "list", "data": [{"id": MODEL, "object": "model"}]})) };
    let app = Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(completions))
        .layer(DefaultBodyLimit::max(64 * 1024 * 1024))
        .with_state(desk);
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        let _ = stream.set_nodelay(true);
    });
    let _ = axum::serve(listener, app).await;
}

async fn completions(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        desk.violations.lock().unwrap().push("a body that is not JSON".to_owned());
        return refusal(400, None, "{}");
    };
    let expected = format!("Bearer {API_KEY}");
    if headers.get("authorization").is_none_or(|value| value.as_bytes() != expected.as_bytes()) {
        desk.violations.lock().unwrap().push("a request without the API key".to_owned());
        return refusal(401, None, r#"{"error":{"message":"Incorrect API key provided"}}"#);
    }
    let wrong = check::violations(&request, body.len());
    if !wrong.is_empty() {
        desk.violations.lock().unwrap().extend(wrong.iter().cloned());
    }
    let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok());
    let index = desk.open(request.clone(), traceparent.unwrap_or_default());
    let chosen = desk.choose(&request);
    if let Ending::Refusal { status, retry_after_s, body } = &chosen.ending {
        tokio::time::sleep(chosen.before).await;
        desk.update(index, |exchange| exchange.finished = true);
        return refusal(*status, *retry_after_s, body);
    }
    if request["stream"] == true {
        stream(desk, index, chosen, &request)
    } else {
        whole(&desk, index, &chosen).await
    }
}

fn refusal(status: u16, retry_after_s: Option<u64>, body: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    let mut answer =
        (status, [(header::CONTENT_TYPE, "application/json")], body.to_owned()).into_response();
    if let Some(seconds) = retry_after_s {
        answer.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    answer
}

/// Notes a hang-up: the stream is dropped before it was finished.
struct Watch {
    desk: Arc<Desk>,
    index: usize,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.desk.update(self.index, |exchange| {
            if !exchange.finished {
                exchange.hung_up_at = Some(Instant::now());
            }
        });
    }
}

/// What is written, in order: after so long, these bytes.
enum Piece {
    Chunk(Duration, String),
    Cut,
    Hang,
}

fn stream(desk: Arc<Desk>, index: usize, chosen: Reply, request: &Value) -> Response {
    let usage = request["stream_options"]["include_usage"] == true;
    let pieces = pieces(&chosen, usage, request.to_string().len() / 4);
    let watch = Watch { desk, index };
    let start = tokio::time::Instant::now();
    let state = (pieces.into_iter(), watch, start);
    let body = futures_util::stream::unfold(state, |(mut pieces, watch, due)| async move {
        let Some(piece) = pieces.next() else {
            watch.desk.update(watch.index, |exchange| exchange.finished = true);
            return None;
        };
        match piece {
            Piece::Chunk(wait, text) => {
                let due = due + wait;
                tokio::time::sleep_until(due).await;
                watch.desk.update(watch.index, |exchange| exchange.chunks_sent += 1);
                Some((Ok(Bytes::from(text)), (pieces, watch, due)))
            }
            Piece::Cut => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                watch.desk.update(watch.index, |exchange| exchange.finished = true);
                Some((
                    Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                    (pieces, watch, due),
                ))
            }
            Piece::Hang => std::future::pending().await,
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(body)).into_response()
}

fn pieces(chosen: &Reply, usage: bool, prompt_tokens: usize) -> Vec<Piece> {
    let id = format!("chatcmpl-{}", uuid::Uuid::new_v4().simple());
    let chunk = |choices: Value, usage: Value| {
        let body = json!({"id": id, "object": "chat.completion.chunk", "created": 1_780_000_000, "model": MODEL, "choices": choices, "usage": usage});
        format!("data: {body}\n\n")
    };
    let choice = |delta: &Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let mut pieces = Vec::new();
    let role =
        chunk(choice(&json!({"role": "assistant", "content": ""}), Value::Null), Value::Null);
    pieces.push(Piece::Chunk(chosen.before, role));
    let (mut calls, mut written, mut wait) = (0, 0, Duration::ZERO);
    for part in &chosen.parts {
        if let Part::Pause(pause) = part {
            wait += *pause;
        }
        for delta in reply::deltas(part, calls) {
            pieces.push(Piece::Chunk(wait, chunk(choice(&delta, Value::Null), Value::Null)));
            written += 1;
            wait = chosen.pace;
        }
        calls += usize::from(matches!(part, Part::Call { .. }));
    }
    match chosen.ending {
        Ending::Cut => pieces.push(Piece::Cut),
        Ending::Hang => pieces.push(Piece::Hang),
        Ending::Whole | Ending::Refusal { .. } => {
            let reason = chosen
                .finish
                .clone()
                .unwrap_or(if calls > 0 { "tool_calls" } else { "stop" }.to_owned());
            pieces.push(Piece::Chunk(wait, chunk(choice(&json!({}), json!(reason)), Value::Null)));
            if usage {
                let total = prompt_tokens + written;
                let usage = json!({"prompt_tokens": prompt_tokens, "completion_tokens": written, "total_tokens": total});
                pieces.push(Piece::Chunk(Duration::ZERO, chunk(json!([]), usage)));
            }
            pieces.push(Piece::Chunk(Duration::ZERO, "data: [DONE]\n\n".to_owned()));
        }
    }
    pieces
}

/// The answer to a request that wants no stream.
async fn whole(desk: &Desk, index: usize, chosen: &Reply) -> Response {
    tokio::time::sleep(chosen.before).await;
    let mut text = String::new();
    let mut calls = Vec::new();
    for part in &chosen.parts {
        match part {
            Part::Text(more) => text.push_str(more),
            Part::Call { id, tool, arguments } => {
                calls.push(json!({"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}));
            }
            Part::Delta(_) => {}
            Part::Pause(pause) => tokio::time::sleep(*pause).await,
        }
    }
    let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    desk.update(index, |exchange| exchange.finished = true);
    Json(json!({
        "id": "chatcmpl-whole", "object": "chat.completion", "created": 1_780_000_000, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
    }))
    .into_response()
}
