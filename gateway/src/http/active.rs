//! The multi-tab gate: is an answer being written in this conversation, and where can a tab join it.
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use contract::event::Card;
use contract::ids::{ConversationId, SessionToken, TurnId};
use contract::subject;
use serde::Serialize;
use shared::bus::{self, events, jobs};
use shared::runtime::clock;
use shared::store::confirmations::{self, OpenCard};
use shared::store::{conversations, turns};

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::http::conversations::parse_reference;

/// `{active, turn_id, started_at, cursor, confirmation}`; what doesn't apply is `null`.
#[derive(Debug, Serialize)]
pub struct ActiveView {
    /// A turn is queued or running.
    pub active: bool,
    pub turn_id: Option<TurnId>,
    /// When the turn was submitted, RFC 3339.
    pub started_at: Option<String>,
    /// Of the live turn's last event, else of the conversation's; `null` once the log has none.
    pub cursor: Option<String>,
    /// The open confirmation card, in the form of `confirm_required`.
    pub confirmation: Option<Card>,
}

struct Live {
    turn: TurnId,
    session: Option<SessionToken>,
    started_at: String,
}

/// `GET /api/agent/conversations/{id}/active` -> [`ActiveView`].
pub async fn active(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(reference): Path<String>,
) -> Result<Json<ActiveView>, ApiError> {
    let id = parse_reference(&caller.user, &reference)?;
    let job = jobs::active(&app.bus, id).await.map_err(unavailable)?;
    let job = job.filter(|job| job.user_id == caller.user);
    // A conversation whose first turn no worker has begun exists as a job only.
    if conversations::get(&app.rows, &caller.user, id).await?.is_none() && job.is_none() {
        return Err(ApiError::NOT_FOUND);
    }
    let live = match job {
        Some(job) => {
            Some(Live { turn: job.turn_id, session: Some(job.session), started_at: job.created_at })
        }
        None => turns::live(&app.rows, id).await?.map(|turn| Live {
            turn: turn.turn_id,
            session: None,
            started_at: clock::rfc3339(turn.started_at),
        }),
    };
    let cursor = cursor(&app, id, live.as_ref()).await?;
    let card = confirmations::open_card(&app.rows, id).await?;
    let card = card.filter(|card| card.expires_at > clock::now());
    Ok(Json(ActiveView {
        active: live.is_some(),
        turn_id: live.as_ref().map(|live| live.turn),
        started_at: live.map(|live| live.started_at),
        cursor: cursor.map(|seq| seq.to_string()),
        confirmation: card.map(|card| shown(card, &reference)),
    }))
}

async fn cursor(
    app: &App,
    id: ConversationId,
    live: Option<&Live>,
) -> Result<Option<u64>, ApiError> {
    let filter = match live {
        Some(Live { turn, session: Some(session), .. }) => subject::event(id, session, *turn),
        Some(Live { turn, session: None, .. }) => subject::events_of_turn(*turn),
        None => subject::events_of_conversation(id),
    };
    let last = events::last(&app.bus, &filter).await.map_err(unavailable)?;
    Ok(last.map(|stored| stored.seq))
}

/// `thread_id` is what this client calls the conversation.
fn shown(card: OpenCard, reference: &str) -> Card {
    Card {
        confirmation_id: card.id,
        prompt: card.prompt,
        thread_id: reference.to_owned(),
        calls: card.calls,
        expires_at: clock::rfc3339(card.expires_at),
    }
}

fn unavailable(error: bus::Error) -> ApiError {
    ApiError::Unavailable(anyhow::Error::new(error).context("looking up the live turn"))
}
