//! The plain REST form: POST `call/{api}` takes a submission, GET `call/{api}/{event_id}` streams it.
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use contract::error_code::ErrorCode;
use contract::event::Event;
use contract::ids::TurnId;
use contract::subject;
use gradio::config::API_NAME;
use gradio::frame::Frame;
use gradio::request::{self, PlainCall};
use serde_json::{Value, json};
use shared::bus::events;

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::http::queue;
use crate::submissions::accept::{self, Submission};
use crate::submissions::outbox::Form;
use crate::submissions::stream;

/// POST `call/{api}`.
pub async fn submit(
    State(app): State<Arc<App>>,
    Path(api): Path<String>,
    caller: Caller,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    if api != API_NAME {
        let detail = "There is no such API.".to_owned();
        return Err(ApiError::Protocol(StatusCode::NOT_FOUND, detail));
    }
    let (locale, trace) = (queue::locale(request.headers()), queue::trace(request.headers()));
    let PlainCall { session_hash, call } = request::parse_call(&queue::body(request).await?)?;
    let submission = Submission { caller, session_hash, call, locale, trace };
    let event_id = accept::submit(&app, submission).await?;
    Ok(Json(json!({"event_id": event_id})))
}

/// POST `call/v2/{api}`: the body is the named parameters.
pub async fn submit_named(
    app: State<Arc<App>>,
    api: Path<String>,
    caller: Caller,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    submit(app, api, caller, request).await
}

/// GET `call/{api}/{event_id}` and `call/v2/{api}/{event_id}`. An event can be read to its end once.
pub async fn stream(
    State(app): State<Arc<App>>,
    Path((_, event_id)): Path<(String, String)>,
    caller: Caller,
    headers: HeaderMap,
) -> Response {
    let unknown = || stream::single(Form::Call, &Frame::SessionNotFound);
    let Ok(turn) = event_id.parse::<TurnId>() else { return unknown() };
    let first = match events::first(&app.bus, &subject::events_of_turn(turn)).await {
        Ok(Some(first)) => first,
        Ok(None) => return unknown(),
        Err(error) => {
            tracing::warn!(turn.id = %turn, %error, "Can't find turn {turn}: {error}");
            let text = ErrorCode::Unavailable.text(queue::locale(&headers));
            return stream::single(Form::Call, &Frame::Failed { text });
        }
    };
    let theirs =
        matches!(&first.envelope.event, Event::Queued(queued) if queued.user_id == caller.user);
    if !theirs {
        return unknown();
    }
    let (session, locale) = (first.address.session, queue::locale(&headers));
    let request = stream::Request { session, locale, only: Some(turn), ending: None };
    stream::open(&app, request, &caller.user)
}
