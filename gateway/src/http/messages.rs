//! `/api/assistant/history` and the append of older clients.
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use contract::text;
use serde::Serialize;
use serde_json::Value;
use shared::runtime::clock;
use shared::store::messages::{self, Finish, HistoryCursor, Message, NewMessage, Role};

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::http::conversations::parse_reference;
use crate::http::input::{Fields, JsonFields};
use crate::http::paging::{self, Listed};

const CLIENT_ID_CHARS: usize = 128;

/// A message as REST shows it.
#[derive(Debug, Serialize)]
pub struct MessageView {
    /// Grows with every message of a conversation.
    pub id: i64,
    /// `null` for what a client appended itself.
    pub turn_id: Option<String>,
    pub role: Role,
    /// The visible text.
    pub content: String,
    /// How an answer ended: `completed`, `interrupted`, `cancelled`, `failed`.
    pub finish: Option<Finish>,
    /// The steps behind an answer, `[{role, content, tool_calls} | {role: "tool", tool_call_id, content}]`.
    pub parts: Option<Value>,
    pub files: Vec<FileView>,
    pub created_at: String,
}

#[derive(Debug, Serialize)]
pub struct FileView {
    /// For `GET /gradio_api/file=<path>` while the upload is kept.
    pub path: String,
    pub name: String,
    pub mime: String,
    pub size: u64,
}

/// `GET /api/assistant/history?conversation_id, cursor&limit | page&page_size` -> [`Listed`] of
/// [`MessageView`]. The newest messages are on the first page; within a page the oldest comes first.
pub async fn history(
    State(app): State<Arc<App>>,
    caller: Caller,
    mut query: Fields,
) -> Result<Json<Listed<MessageView>>, ApiError> {
    let reference = query.required_text("conversation_id");
    let paging = paging::read::<HistoryCursor>(&mut query);
    query.finish()?;
    let id = parse_reference(&caller.user, &reference)?;
    let page = messages::page(&app.rows, &caller.user, id, paging).await?;
    let page = page.ok_or(ApiError::NOT_FOUND)?;
    Ok(Json(Listed::new(page, paging, MessageView::from)))
}

/// `POST /api/assistant/conversations/{id}/messages`, body `{"role": "user"|"assistant", "content": string,
/// "turn_id"?: uuid, "id"?: string}` -> [`MessageView`], 201 when it is new, 200 when it was there.
///
/// The server writes history itself; this is an upsert for older clients. It knows a message again by the
/// client's `id`, by `turn_id` and role, or by role and content, and never makes a second copy.
pub async fn append(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(reference): Path<String>,
    JsonFields(mut body): JsonFields,
) -> Result<(StatusCode, Json<MessageView>), ApiError> {
    let role = role(&mut body);
    let content = body.required_text("content");
    let turn = body.text("turn_id").and_then(|turn| match turn.parse() {
        Ok(turn) => Some(turn),
        Err(error) => {
            body.complain("turn_id", "uuid", format!("is {error}"));
            None
        }
    });
    let client_id = body.text("id").filter(|id| !id.is_empty());
    if client_id.as_ref().is_some_and(|id| id.chars().count() > CLIENT_ID_CHARS) {
        body.complain("id", "too_long", format!("has more than {CLIENT_ID_CHARS} characters"));
    }
    body.finish()?;
    let conversation = parse_reference(&caller.user, &reference)?;
    let new = NewMessage {
        conversation,
        user: &caller.user,
        client_id: client_id.as_deref(),
        turn,
        role,
        content: &text::truncate_message(&content),
        now: clock::now(),
    };
    let upserted = messages::upsert(&app.rows, &new).await?.ok_or(ApiError::NOT_FOUND)?;
    let status = if upserted.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(upserted.message.into())))
}

fn role(body: &mut Fields) -> Role {
    match body.required_text("role").as_str() {
        "user" | "" => Role::User,
        "assistant" => Role::Assistant,
        _ => {
            body.complain("role", "literal_error", "must be \"user\" or \"assistant\"");
            Role::User
        }
    }
}

impl From<Message> for MessageView {
    fn from(message: Message) -> Self {
        let file = |file: contract::job::FileRef| FileView {
            path: file.blob,
            name: file.name,
            mime: file.mime,
            size: file.size,
        };
        Self {
            id: message.id,
            turn_id: message.turn_id.map(|turn| turn.to_string()),
            role: message.role,
            content: message.content,
            finish: message.finish,
            parts: message.parts,
            files: message.files.into_iter().map(file).collect(),
            created_at: clock::rfc3339(message.created_at),
        }
    }
}
