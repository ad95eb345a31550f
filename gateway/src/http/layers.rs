//! Middleware: request ids and the log line, deadlines, and the shapes of what no handler answers.
use std::any::Any;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use contract::error_code::ErrorCode;
use futures_util::StreamExt as _;
use shared::runtime::telemetry::attr;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use uuid::Uuid;

use crate::auth::Presented;
use crate::error::ApiError;
use crate::http::queue;
use crate::load::Load;
use crate::metrics;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Who a response was for, set by the gate for the log line.
#[derive(Clone)]
pub struct ServedUser(pub String);

/// How many requests of a kind may be at work at once, how long each, and what their bodies take.
pub struct Bounds {
    slots: Semaphore,
    within: Duration,
    /// Counts the bodies, which are read as a whole.
    load: Option<Arc<Load>>,
}

impl Bounds {
    pub fn new(requests: usize, within: Duration, load: Arc<Load>) -> Arc<Self> {
        Arc::new(Self { slots: Semaphore::new(requests), within, load: Some(load) })
    }

    /// For bodies that are passed on as they come.
    pub fn passing(requests: usize, within: Duration) -> Arc<Self> {
        Arc::new(Self { slots: Semaphore::new(requests), within, load: None })
    }
}

/// The room that one request's body takes, for as long as the request is at work.
#[derive(Default)]
struct Room {
    held: Option<OwnedSemaphorePermit>,
    was_denied: bool,
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
    let is_probe = route.starts_with("/healthz/") || route == "/metrics";
    let span = if is_probe {
        tracing::debug_span!("probe")
    } else {
        spanned(&request, &request_id, &route)
    };
    let mut response = next.run(request).instrument(span.clone()).await;
    span.set_attribute(attr::STATUS, i64::from(response.status().as_u16()));
    response.headers_mut().insert(REQUEST_ID, id);
    let user = response.extensions().get::<ServedUser>().map(|user| user.0.as_str());
    let (status, ms) = (response.status().as_u16(), started.elapsed().as_millis() as u64);
    if is_probe {
        tracing::debug!(request.id = %request_id, status, ms, "{method} {route} {status}");
    } else {
        tracing::info!(request.id = %request_id, user, status, ms, "{method} {route} {status}");
    }
    response
}

fn spanned(request: &Request, id: &str, route: &str) -> Span {
    let name = format!("{} {route}", request.method());
    let span =
        tracing::info_span!("request", otel.name = name, otel.kind = "server", request.id = %id);
    queue::place(request.headers()).adopt(&span);
    span.set_attribute(attr::METHOD, request.method().to_string());
    span.set_attribute(attr::ROUTE, route.to_owned());
    span
}

/// One request too many is told to come back at once; one that takes too long is given up.
pub async fn bounded(State(bounds): State<Arc<Bounds>>, request: Request, next: Next) -> Response {
    let Ok(_slot) = bounds.slots.try_acquire() else {
        metrics::REJECTED.add(1, &metrics::label("reason", ErrorCode::QueueFull.as_str()));
        return ApiError::Code(ErrorCode::QueueFull).into_response();
    };
    let room = Arc::new(Mutex::new(Room::default()));
    let request = match bounds.load.clone() {
        Some(load) => request.map(|body| measured(body, load, room.clone())),
        None => request,
    };
    let answered = tokio::time::timeout(bounds.within, next.run(request)).await;
    let was_denied = room.lock().unwrap_or_else(PoisonError::into_inner).was_denied;
    match answered {
        Ok(_) if was_denied => ApiError::Code(ErrorCode::QueueFull).into_response(),
        Ok(response) => response,
        Err(_) => {
            let seconds = bounds.within.as_secs();
            tracing::warn!(seconds, "A request was given up after {seconds} s");
            ApiError::Code(ErrorCode::Unavailable).into_response()
        }
    }
}

/// The body, which breaks off when there is no more room for bodies.
fn measured(body: Body, load: Arc<Load>, room: Arc<Mutex<Room>>) -> Body {
    let chunks = body.into_data_stream().map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        let mut room = room.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(held) = load.memory(chunk.len()) else {
            room.was_denied = true;
            return Err(io::Error::other("no room for the body"));
        };
        match &mut room.held {
            Some(all) => all.merge(held),
            None => room.held = Some(held),
        }
        Ok(chunk)
    });
    Body::from_stream(chunks)
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
