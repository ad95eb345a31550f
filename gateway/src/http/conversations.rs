//! `/api/assistant/conversations`: create, list, rename, archive, unarchive.
//!
//! An id in a path or a parameter is what the client calls the conversation: a UUID, or a name in the
//! caller's own space. Another user's conversation answers exactly as a missing one: 404.
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use contract::error_code::ErrorCode;
use contract::ids::{ConversationId, TurnId, UserId};
use contract::text;
use serde::Serialize;
use shared::bus;
use shared::runtime::clock;
use shared::store::conversations::{
    self, Archived, Conversation, Filter, ListCursor, NewConversation, Scope,
};
use tokio::time::Instant;
use uuid::Uuid;

use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, BadParameter};
use crate::http::input::{Fields, JsonFields};
use crate::http::paging::{self, Listed};
use crate::ownership;

/// How long an archive waits for a live turn that it cancelled.
const ARCHIVE_WAIT: Duration = Duration::from_secs(5);
const ARCHIVE_POLL: Duration = Duration::from_millis(50);

/// A conversation as REST shows it.
#[derive(Debug, Serialize)]
pub struct ConversationView {
    /// What the client calls it.
    pub id: String,
    pub title: String,
    pub is_archived: bool,
    pub message_count: u32,
    /// RFC 3339, UTC, like all times.
    pub created_at: String,
    pub updated_at: String,
    pub last_message_at: Option<String>,
}

/// Answer of `DELETE`.
#[derive(Debug, Serialize)]
pub struct ArchivedView {
    pub id: String,
    pub is_archived: bool,
}

/// `POST /api/assistant/conversations`, body `{"title"?: string, "id"?: string}` (or none) -> 201
/// [`ConversationView`]. Without `id` the server makes one. With an `id` of the caller's that exists already, that one is the
/// answer. An empty title is replaced by the first message.
pub async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    JsonFields(mut body): JsonFields,
) -> Result<(StatusCode, Json<ConversationView>), ApiError> {
    let title = body.text("title").unwrap_or_default();
    let reference = body.text("id").filter(|id| !id.is_empty());
    body.finish()?;
    let id = match &reference {
        Some(reference) => parse_reference(&caller.user, reference)?,
        None => ConversationId(Uuid::now_v7()),
    };
    let new = NewConversation {
        id,
        user: &caller.user,
        reference: reference.as_deref().filter(|reference| *reference != id.to_string()),
        title: &text::title(&title),
        now: clock::now(),
    };
    let made = conversations::create(&app.rows, &new).await?.ok_or(ApiError::NOT_FOUND)?;
    app.owners.remember(id, &caller.user);
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// `GET /api/assistant/conversations?cursor&limit | page&page_size, include_archived, archived_only, search`
/// -> [`Listed`] of [`ConversationView`], the last used one first. `search`: words in titles and messages.
pub async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    mut query: Fields,
) -> Result<Json<Listed<ConversationView>>, ApiError> {
    let paging = paging::read::<ListCursor>(&mut query);
    let (with_archived, only_archived) =
        (query.flag("include_archived"), query.flag("archived_only"));
    let search = query.text("search").filter(|words| !words.trim().is_empty());
    query.finish()?;
    let scope = match (only_archived, with_archived) {
        (true, _) => Scope::Archived,
        (false, true) => Scope::All,
        (false, false) => Scope::Active,
    };
    let filter = Filter { user: &caller.user, scope, search: search.as_deref(), paging };
    let page = conversations::list(&app.rows, &filter).await?;
    Ok(Json(Listed::new(page, paging, ConversationView::from)))
}

/// `PATCH /api/assistant/conversations/{id}`, body `{"title": string}` -> [`ConversationView`]. Its place in the list
/// stays. A title is cut like every other.
pub async fn rename(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(reference): Path<String>,
    JsonFields(mut body): JsonFields,
) -> Result<Json<ConversationView>, ApiError> {
    let wanted = body.required_text("title");
    let title = text::title(&wanted);
    if title.is_empty() && !wanted.is_empty() {
        body.complain("title", "missing", "must not be empty");
    }
    body.finish()?;
    let id = parse_reference(&caller.user, &reference)?;
    let renamed = conversations::rename(&app.rows, &caller.user, id, &title).await?;
    Ok(Json(renamed.ok_or(ApiError::NOT_FOUND)?.into()))
}

/// `DELETE /api/assistant/conversations/{id}` -> [`ArchivedView`]. A live turn is cancelled first and has
/// five seconds to end; then the conversation is archived all the same, and that turn can write nothing more.
pub async fn archive(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(reference): Path<String>,
) -> Result<Json<ArchivedView>, ApiError> {
    let id = parse_reference(&caller.user, &reference)?;
    let known = conversations::get(&app.rows, &caller.user, id).await?;
    known.ok_or(ApiError::NOT_FOUND)?;
    // Goes on when the client hangs up: a cancelled turn in a conversation that stayed would be a surprise.
    let (user, work) = (caller.user.clone(), app.clone());
    let archived =
        app.shutdown.spawn("archive", async move { archive_now(&work, &user, id).await });
    match archived.await.map_err(anyhow::Error::from)?? {
        Archived::Done => Ok(Json(ArchivedView { id: reference, is_archived: true })),
        Archived::NotFound => Err(ApiError::NOT_FOUND),
        Archived::Live(_) => Err(ApiError::Code(ErrorCode::ConversationBusy)),
    }
}

/// `POST /api/assistant/conversations/{id}/unarchive` -> [`ConversationView`].
pub async fn unarchive(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(reference): Path<String>,
) -> Result<Json<ConversationView>, ApiError> {
    let id = parse_reference(&caller.user, &reference)?;
    let back = conversations::unarchive(&app.rows, &caller.user, id, clock::now()).await?;
    Ok(Json(back.ok_or(ApiError::NOT_FOUND)?.into()))
}

/// The id behind a path's or a parameter's reference; names what is wrong with it.
pub fn parse_reference(user: &UserId, reference: &str) -> Result<ConversationId, ApiError> {
    if reference.is_empty() {
        return Err(ApiError::NOT_FOUND);
    }
    ownership::id_of(user, reference).map_err(|reason| {
        ApiError::Parameters(vec![BadParameter::path("id", "conversation_id", reason)])
    })
}

impl From<Conversation> for ConversationView {
    fn from(conversation: Conversation) -> Self {
        let id = conversation.id.to_string();
        Self {
            id: conversation.reference.unwrap_or(id),
            title: conversation.title,
            is_archived: conversation.is_archived,
            message_count: conversation.message_count,
            created_at: clock::rfc3339(conversation.created_at),
            updated_at: clock::rfc3339(conversation.updated_at),
            last_message_at: conversation.last_message_at.map(clock::rfc3339),
        }
    }
}

async fn archive_now(app: &App, user: &UserId, id: ConversationId) -> Result<Archived, ApiError> {
    // A job that waits has no lease yet; its cancel stays behind as a tombstone.
    let mut cancelled = match bus::jobs::active(&app.bus, id).await {
        Ok(Some(job)) => Some(cancel(app, job.turn_id, user).await),
        Ok(None) => None,
        Err(error) => {
            tracing::warn!(conversation.id = %id, error = format!("{error:#}"), "Can't ask whether a turn is live");
            None
        }
    };
    let deadline = Instant::now() + ARCHIVE_WAIT;
    loop {
        let outcome = conversations::archive(&app.rows, user, id, clock::now()).await?;
        let Archived::Live(turn) = outcome else { return Ok(outcome) };
        if cancelled != Some(turn) {
            cancelled = Some(cancel(app, turn, user).await);
        }
        if Instant::now() >= deadline {
            tracing::warn!(conversation.id = %id, turn.id = %turn, "Archiving {id} over a live turn");
            return Ok(conversations::archive_by_force(&app.rows, user, id, clock::now()).await?);
        }
        tokio::time::sleep(ARCHIVE_POLL).await;
    }
}

async fn cancel(app: &App, turn: TurnId, user: &UserId) -> TurnId {
    if let Err(error) = bus::control::publish_cancel(&app.bus, turn, user.as_str()).await {
        tracing::warn!(turn.id = %turn, error = format!("{error:#}"), "Can't cancel turn {turn}");
    }
    turn
}
