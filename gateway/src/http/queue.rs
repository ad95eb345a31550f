//! `queue/join` takes a submission, `queue/data` streams a session, `queue/status` has nothing to say.
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use contract::error_code::ErrorCode;
use contract::job::Locale;
use contract::{limits, subject};
use futures_util::StreamExt as _;
use gradio::frame::Frame;
use gradio::request::{self, Join, Refused, SESSION_HASH_CHARS};
use serde_json::{Value, json};
use shared::runtime::trace::Trace;
use tracing::Span;

use crate::app::App;
use crate::auth::{Caller, Presented};
use crate::error::ApiError;
use crate::submissions::accept::{self, Submission};
use crate::submissions::outbox::Form;
use crate::submissions::{session_token, stream};

/// What follows the limit of a body is read for so long.
const DRAIN_WITHIN: Duration = Duration::from_secs(3);
/// A body comes within this time, or its request is refused.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// POST `queue/join` -> `{"event_id"}`.
pub async fn join(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let (locale, trace) = (locale(request.headers()), trace(request.headers()));
    let Join { session_hash, call } = request::parse_join(&body(request).await?)?;
    let session_hash = Some(session_hash);
    let submission = Submission { caller, session_hash, call, locale, trace };
    let event_id = accept::submit(&app, submission).await?;
    Ok(Json(json!({"event_id": event_id})))
}

/// GET `queue/data?session_hash=`. Always 200: anything else kills a JavaScript client for good.
pub async fn data(
    State(app): State<Arc<App>>,
    presented: Presented,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let unknown = || stream::single(Form::Queue, &Frame::SessionNotFound);
    let (caller, expired) = match presented {
        Presented::Valid(caller) => (caller, false),
        Presented::Expired(caller) => (caller, true),
        Presented::Refused | Presented::Missing => return unknown(),
    };
    let hash = query.get("session_hash").map(String::as_str).unwrap_or_default();
    if hash.is_empty() || hash.chars().count() > SESSION_HASH_CHARS {
        return unknown();
    }
    let Ok(session) = session_token(&caller.user, hash) else { return unknown() };
    let ending = expired.then_some(ErrorCode::Unauthorized);
    let request = stream::Request { session, locale: locale(&headers), only: None, ending };
    stream::open(&app, request, &caller.user)
}

/// GET `queue/status`.
pub async fn status() -> Json<Value> {
    let nothing = json!({
        "msg": "estimation", "event_id": null, "rank": null, "queue_size": 0, "rank_eta": null,
    });
    Json(nothing)
}

/// The whole body, up to the limit of a join.
pub async fn body(request: Request) -> Result<Bytes, ApiError> {
    let late = || {
        let detail = "The body did not arrive in time.".to_owned();
        ApiError::Protocol(StatusCode::REQUEST_TIMEOUT, detail)
    };
    tokio::time::timeout(BODY_WITHIN, read(request)).await.map_err(|_| late())?
}

/// The rest of a body that is too large is read and thrown away: a client that is still sending as the connection
/// closes never reads why.
async fn read(request: Request) -> Result<Bytes, ApiError> {
    let mut chunks = request.into_body().into_data_stream();
    let mut body = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| too_large())?;
        if body.len() + chunk.len() > limits::JOIN_BODY_BYTES {
            let rest = async { while let Some(Ok(_)) = chunks.next().await {} };
            let _ = tokio::time::timeout(DRAIN_WITHIN, rest).await;
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

fn too_large() -> ApiError {
    let detail = format!("The body has more than {} bytes.", limits::JOIN_BODY_BYTES);
    ApiError::Protocol(StatusCode::PAYLOAD_TOO_LARGE, detail)
}

/// Of the languages that the system speaks, the one the client asks for first.
pub fn locale(headers: &HeaderMap) -> Locale {
    let languages = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
    let mut tags = languages.unwrap_or_default().split(',').map(str::trim);
    let starts = |tag: &str, language: &str| {
        tag.get(..2).is_some_and(|head| head.eq_ignore_ascii_case(language))
    };
    match tags.find(|tag| starts(tag, "ru") || starts(tag, "en")) {
        Some(tag) if starts(tag, "ru") => Locale::Ru,
        Some(_) | None => Locale::En,
    }
}

/// Where the caller stands in a trace.
pub fn place(headers: &HeaderMap) -> Trace {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    Trace::from_parts(text(subject::HEADER_TRACEPARENT), text(subject::HEADER_TRACESTATE))
}

/// Where this request stands in it.
pub fn trace(headers: &HeaderMap) -> Trace {
    place(headers).within(&Span::current())
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let status = StatusCode::from_u16(refused.status()).unwrap_or(StatusCode::BAD_REQUEST);
        Self::Protocol(status, refused.to_string())
    }
}
