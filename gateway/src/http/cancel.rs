//! `cancel` stops a submission. Nothing else does: a client that hangs up has not cancelled anything.
//!
//! Stock JavaScript clients send no token here, so the pair of event id and session hash, which were bound
//! to the user at the join, authorises a cancel. The answer never says whether there was anything to stop.
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use contract::event::{Event, Queued};
use contract::ids::{TurnId, UserId};
use contract::subject;
use serde_json::{Value, json};
use shared::bus::control;
use shared::bus::events;

use crate::app::App;
use crate::auth::Presented;
use crate::error::ApiError;
use crate::http::queue;
use crate::submissions::session_token;

/// The client is answered after this long, whether the cancel was stored by then or not.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Cancelling {
    event_id: Option<String>,
    session_hash: String,
    user: Option<UserId>,
}

/// POST `cancel`.
pub async fn cancel(
    State(app): State<Arc<App>>,
    presented: Presented,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let body = queue::body(request).await?;
    let body: Value = serde_json::from_slice(&body)
        .map_err(|_| ApiError::bad_request("the body is not valid JSON"))?;
    let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
    let cancelling = Cancelling {
        event_id: text("event_id"),
        session_hash: text("session_hash").unwrap_or_default(),
        user: match presented {
            Presented::Valid(caller) => Some(caller.user),
            Presented::Expired(_) | Presented::Refused | Presented::Missing => None,
        },
    };
    let task = app.shutdown.spawn("cancel", stop(app.clone(), cancelling));
    let _ = tokio::time::timeout(ANSWER_WITHIN, task).await;
    Ok(success())
}

/// POST `reset`: there is nothing to reset.
pub async fn reset() -> Json<Value> {
    success()
}

fn success() -> Json<Value> {
    Json(json!({"success": true}))
}

async fn stop(app: Arc<App>, cancelling: Cancelling) {
    let stopped = match &cancelling.event_id {
        Some(event_id) => match event_id.parse() {
            Ok(turn) => stop_one(&app, turn, &cancelling).await,
            Err(_) => Ok(()),
        },
        None => stop_session(&app, &cancelling).await,
    };
    if let Err(error) = stopped {
        tracing::warn!(%error, "Can't cancel: {error}");
    }
}

async fn stop_one(
    app: &App,
    turn: TurnId,
    cancelling: &Cancelling,
) -> Result<(), shared::bus::Error> {
    let first = events::first(&app.bus, &subject::events_of_turn(turn)).await?;
    let Some(Event::Queued(queued)) = first.map(|first| first.envelope.event) else {
        return Ok(());
    };
    let theirs = queued.session_hash == cancelling.session_hash
        && cancelling.user.as_ref().is_none_or(|user| *user == queued.user_id);
    if !theirs {
        return Ok(());
    }
    publish(app, turn, &queued).await
}

/// A submission that only shows another turn stops that one: it is what its user sees running.
async fn publish(app: &App, turn: TurnId, queued: &Queued) -> Result<(), shared::bus::Error> {
    let turn = queued.attach.as_ref().map_or(turn, |attach| attach.turn_id);
    control::publish_cancel(&app.bus, turn, queued.user_id.as_str()).await
}

/// The client cancelled before it knew the event's id: whatever its session has running is meant.
async fn stop_session(app: &App, cancelling: &Cancelling) -> Result<(), shared::bus::Error> {
    let Some(user) = &cancelling.user else { return Ok(()) };
    let Ok(session) = session_token(user, &cancelling.session_hash) else { return Ok(()) };
    let lasts = match events::multi_last(&app.bus, &subject::events_of_session(&session)).await {
        Ok(lasts) => lasts,
        Err(events::MultiLastError::TooMany) => return Ok(()),
        Err(events::MultiLastError::Bus(error)) => return Err(error),
    };
    for last in lasts {
        let ended =
            last.envelope.event.is_terminal() || matches!(last.envelope.event, Event::Session(_));
        if !ended {
            stop_one(app, last.address.turn, cancelling).await?;
        }
    }
    Ok(())
}
