//! `cancel` stops a submission. Nothing else does: a client that hangs up has not cancelled anything.
//!
//! Stock JavaScript clients send no token here, so the pair of event id and session hash, which were bound
//! to the user at the join, authorises a cancel. With a token the event id is enough if no session is named: so
//! a page that was loaded again stops its user's turn. The answer never says whether there was anything to stop.
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use contract::error_code::ErrorCode;
use contract::event::{Event, Queued};
use contract::ids::{TurnId, UserId};
use contract::subject;
use gradio::request::SESSION_HASH_CHARS;
use serde_json::{Value, json};
use shared::bus::control;
use shared::bus::events;
use tokio::time::Instant;

use crate::app::App;
use crate::auth::Presented;
use crate::error::ApiError;
use crate::http::queue;
use crate::metrics;
use crate::submissions::{dispatch, session_token};

/// A cancel that is not stored by then is answered with 503; it is tried on for a while.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const STORE_WITHIN: Duration = Duration::from_secs(30);
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// What a cancel that waits for NATS takes, generously.
const TASK_BYTES: usize = 1024;

#[derive(Debug)]
struct Cancelling {
    /// `None`: whatever the session has running.
    turn: Option<TurnId>,
    session_hash: Option<String>,
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
    let turn = text("event_id").map(|id| id.parse::<TurnId>());
    let session_hash = text("session_hash");
    let is_too_long = |hash: &String| hash.chars().count() > SESSION_HASH_CHARS;
    // Nobody was ever given such an id, nor joined with such a hash.
    if matches!(turn, Some(Err(_))) || session_hash.as_ref().is_some_and(is_too_long) {
        return Ok(success());
    }
    let room = app.load.memory(TASK_BYTES).ok_or(ErrorCode::QueueFull)?;
    metrics::CANCELS.add(1, &[]);
    let cancelling = Cancelling {
        turn: turn.transpose().unwrap_or_default(),
        session_hash,
        user: match presented {
            Presented::Valid(caller) => Some(caller.user),
            Presented::Expired(_) | Presented::Refused | Presented::Missing => None,
        },
    };
    let stopping = stop(app.clone(), cancelling);
    let task = app.shutdown.spawn("cancel", async move {
        let _room = room;
        stopping.await
    });
    match tokio::time::timeout(ANSWER_WITHIN, task).await {
        Ok(Ok(true)) => Ok(success()),
        Ok(Ok(false) | Err(_)) | Err(_) => Err(ErrorCode::Unavailable.into()),
    }
}

/// POST `reset`: there is nothing to reset.
pub async fn reset() -> Json<Value> {
    success()
}

fn success() -> Json<Value> {
    Json(json!({"success": true}))
}

/// False when NATS stayed away.
async fn stop(app: Arc<App>, cancelling: Cancelling) -> bool {
    let until = Instant::now() + STORE_WITHIN;
    loop {
        let Err(error) = try_stop(&app, &cancelling).await else { return true };
        if Instant::now() + STORE_PAUSE > until {
            tracing::warn!(%error, "Can't cancel: {error}");
            return false;
        }
        tokio::time::sleep(STORE_PAUSE).await;
    }
}

async fn try_stop(app: &App, cancelling: &Cancelling) -> Result<(), shared::bus::Error> {
    match cancelling.turn {
        Some(turn) => stop_one(app, turn, cancelling).await,
        None => stop_session(app, cancelling).await,
    }
}

async fn stop_one(
    app: &App,
    turn: TurnId,
    cancelling: &Cancelling,
) -> Result<(), shared::bus::Error> {
    let Some(first) = events::first(&app.bus, &subject::events_of_turn(turn)).await? else {
        return Ok(());
    };
    let Event::Queued(queued) = &first.envelope.event else { return Ok(()) };
    if !cancelling.is_for(queued) {
        return Ok(());
    }
    let turn = match &queued.attach {
        // Who follows a turn reads only.
        Some(_) if queued.digest.is_none() => {
            dispatch::stop_showing(&app.bus, &first.address).await;
            return Ok(());
        }
        Some(attach) => attach.turn_id,
        None => turn,
    };
    control::publish_cancel(&app.bus, turn, queued.user_id.as_str()).await
}

impl Cancelling {
    fn is_for(&self, queued: &Queued) -> bool {
        let is_user = self.user.as_ref().is_none_or(|user| *user == queued.user_id);
        let is_session = match &self.session_hash {
            Some(hash) => queued.session_hash == *hash,
            None => self.user.is_some(),
        };
        is_user && is_session
    }
}

/// The client cancelled before it knew the event's id: whatever its session has running is meant.
async fn stop_session(app: &App, cancelling: &Cancelling) -> Result<(), shared::bus::Error> {
    let (Some(user), Some(hash)) = (&cancelling.user, &cancelling.session_hash) else {
        return Ok(());
    };
    let Ok(session) = session_token(user, hash) else { return Ok(()) };
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
