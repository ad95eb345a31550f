//! Middleware: request ids and the log line, deadlines, and the shapes of what no handler answers.
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use contract::error_code::ErrorCode;
use tokio::sync::Semaphore;
use tracing::Instrument;
use uuid::Uuid;

use crate::auth::Presented;
use crate::error::ApiError;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Who a response was for, set by the gate for the log line.
#[derive(Clone)]
pub struct ServedUser(pub String);

/// How many requests of a kind may be at work at once, and how long each.
pub struct Bounds {
    slots: Semaphore,
    within: Duration,
}

impl Bounds {
    pub fn new(requests: usize, within: Duration) -> Arc<Self> {
        Arc::new(Self { slots: Semaphore::new(requests), within })
    }
}

/// Gives each request an id (the caller's, if it is a plain token) and writes one line when its answer starts.
/// Neither has anything of the query string or of a header in it.
pub async fn identify_and_log(
    path: Option<MatchedPath>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let id = request.headers().get(&REQUEST_ID).filter(|id| is_plain(id)).cloned();
    let id = id.unwrap_or_else(fresh_id);
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let method = request.method().clone();
    let route = path.as_ref().map_or("(no route)", MatchedPath::as_str).to_owned();
    let request_id = id.to_str().unwrap_or_default().to_owned();
    let span = tracing::info_span!("request", request.id = %request_id);
    let mut response = next.run(request).instrument(span).await;
    response.headers_mut().insert(REQUEST_ID, id);
    let user = response.extensions().get::<ServedUser>().map(|user| user.0.as_str());
    let (status, ms) = (response.status().as_u16(), started.elapsed().as_millis() as u64);
    if route.starts_with("/healthz/") {
        tracing::debug!(request.id = %request_id, status, ms, "{method} {route} {status}");
    } else {
        tracing::info!(request.id = %request_id, user, status, ms, "{method} {route} {status}");
    }
    response
}

/// One request too many is told to come back at once; one that takes too long is given up.
pub async fn bounded(State(bounds): State<Arc<Bounds>>, request: Request, next: Next) -> Response {
    let Ok(_slot) = bounds.slots.try_acquire() else {
        return ApiError::Code(ErrorCode::QueueFull).into_response();
    };
    match tokio::time::timeout(bounds.within, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let seconds = bounds.within.as_secs();
            tracing::warn!(seconds, "A request was given up after {seconds} s");
            ApiError::Code(ErrorCode::Unavailable).into_response()
        }
    }
}

pub async fn not_found() -> ApiError {
    ApiError::Protocol(StatusCode::NOT_FOUND, "Not Found".to_owned())
}

pub async fn method_not_allowed() -> ApiError {
    ApiError::Protocol(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed".to_owned())
}

/// The panic itself is logged by the panic hook of `runtime::telemetry`.
pub fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    ApiError::Code(ErrorCode::Internal).into_response()
}

/// Marks an answer with its user, for the log line.
pub fn mark(response: &mut Response, presented: &Presented) {
    if let Presented::Valid(caller) | Presented::Expired(caller) = presented {
        response.extensions_mut().insert(ServedUser(caller.user.to_string()));
    }
}

fn is_plain(id: &HeaderValue) -> bool {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-' || *b == b'_';
    (1..=64).contains(&id.len()) && id.as_bytes().iter().all(plain)
}

fn fresh_id() -> HeaderValue {
    let id = Uuid::new_v4().simple().to_string();
    HeaderValue::try_from(id).unwrap_or_else(|_| HeaderValue::from_static("none"))
}

#[cfg(test)]
mod tests;
