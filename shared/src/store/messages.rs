//! `agent_messages`: the history that people read.
use std::fmt;
use std::str::FromStr;

use contract::ids::{ConversationId, TurnId, UserId};
use contract::job::FileRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::paging::{InvalidCursor, Page, Paging};
use crate::store::pool::{RowPool, within};
use crate::store::{Error, sanitize};

/// One row if the conversation is this user's.
const COUNT: &str = "SELECT (SELECT count(*) FROM agent_messages m WHERE m.conversation_id = c.id) \
    FROM agent_conversations c WHERE c.id = $1 AND c.user_id = $2";
const PAGE: &str = "SELECT id, turn_id, role, content, parts, finish, files, created_at FROM agent_messages m \
    WHERE m.conversation_id = $1 AND ($2::bigint IS NULL OR m.id < $2) ORDER BY m.id DESC LIMIT $3 OFFSET $4";
const UPSERT: &str =
    "SELECT message_id, created FROM agent_upsert_message($1, $2, $3, $4, $5, $6, $7, $8)";
const BY_ID: &str = "SELECT id, turn_id, role, content, parts, finish, files, created_at FROM agent_messages \
    WHERE id = $1";
const LAST_ANSWER: &str = "SELECT m.id, m.turn_id, m.role, m.content, m.parts, m.finish, m.files, m.created_at \
    FROM agent_messages m JOIN agent_conversations c ON c.id = m.conversation_id \
    WHERE m.conversation_id = $1 AND c.user_id = $2 AND m.role = 'assistant' ORDER BY m.id DESC LIMIT 1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Assistant,
}

/// How an assistant message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    Completed,
    Interrupted,
    Cancelled,
    Failed,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Order within the conversation.
    pub id: i64,
    pub turn_id: Option<TurnId>,
    pub role: Role,
    /// The visible text.
    pub content: String,
    /// The steps behind an assistant's text: model messages and tool results.
    pub parts: Option<Value>,
    pub finish: Option<Finish>,
    pub files: Vec<FileRef>,
    pub created_at: OffsetDateTime,
}

/// Place in a history read from the newest message back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryCursor(pub i64);

impl fmt::Display for HistoryCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for HistoryCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        text.parse().map(Self).map_err(|_| InvalidCursor)
    }
}

/// What an older client posts after a stream ended.
#[derive(Clone, Debug)]
pub struct NewMessage<'a> {
    pub conversation: ConversationId,
    pub user: &'a UserId,
    /// The client's own id of the message, if it has one.
    pub client_id: Option<&'a str>,
    pub turn: Option<TurnId>,
    pub role: Role,
    pub content: &'a str,
    pub now: OffsetDateTime,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Upserted {
    pub message: Message,
    /// False: the message was there already.
    pub created: bool,
}

/// Messages of a conversation. The newest page comes first; within a page the oldest message comes first.
/// `None` if the conversation is not this user's.
pub async fn page(
    pool: &RowPool,
    user: &UserId,
    conversation: ConversationId,
    paging: Paging<HistoryCursor>,
) -> Result<Option<Page<Message>>, Error> {
    let window = paging.window();
    let read = within(async {
        let total: Option<i64> = sqlx::query_scalar(COUNT)
            .bind(conversation.0)
            .bind(user.as_str())
            .fetch_optional(pool)
            .await?;
        let Some(total) = total else { return Ok(None) };
        let rows = sqlx::query(PAGE)
            .bind(conversation.0)
            .bind(window.after.map(|cursor| cursor.0))
            .bind(window.fetch)
            .bind(window.skip)
            .fetch_all(pool)
            .await?;
        Ok(Some((rows, total)))
    });
    let Some((rows, total)) = read.await? else { return Ok(None) };
    let items = rows.iter().map(message).collect::<Result<Vec<_>, _>>()?;
    let mut page = window.page(items, total, |last| HistoryCursor(last.id).to_string());
    page.items.reverse();
    Ok(Some(page))
}

/// Idempotent by client id, by turn and role, and by role and content of a message that the server wrote.
/// `None` if the conversation is not this user's.
pub async fn upsert(pool: &RowPool, new: &NewMessage<'_>) -> Result<Option<Upserted>, Error> {
    let content = sanitize::text(new.content);
    let title = contract::text::title(&content);
    let row = within(async {
        let stored = sqlx::query(UPSERT)
            .bind(new.user.as_str())
            .bind(new.conversation.0)
            .bind(new.client_id.map(sanitize::text))
            .bind(new.turn.map(|turn| turn.0))
            .bind(new.role.as_str())
            .bind(content)
            .bind(title)
            .bind(new.now)
            .fetch_one(pool)
            .await?;
        let (id, created): (Option<i64>, bool) =
            (stored.try_get("message_id")?, stored.try_get("created")?);
        let Some(id) = id else { return Ok(None) };
        Ok(Some((sqlx::query(BY_ID).bind(id).fetch_one(pool).await?, created)))
    });
    let Some((row, created)) = row.await? else { return Ok(None) };
    Ok(Some(Upserted { message: message(&row)?, created }))
}

/// The newest assistant message, for a reader whose events are no longer in the log.
pub async fn last_answer(
    pool: &RowPool,
    user: &UserId,
    conversation: ConversationId,
) -> Result<Option<Message>, Error> {
    let row = within(async {
        Ok(sqlx::query(LAST_ANSWER)
            .bind(conversation.0)
            .bind(user.as_str())
            .fetch_optional(pool)
            .await?)
    });
    row.await?.as_ref().map(message).transpose()
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl Finish {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

fn message(row: &PgRow) -> Result<Message, Error> {
    let turn: Option<Uuid> = row.try_get("turn_id")?;
    let files: Option<Json<Vec<FileRef>>> = row.try_get("files")?;
    let (role, finish): (String, Option<String>) = (row.try_get("role")?, row.try_get("finish")?);
    Ok(Message {
        id: row.try_get("id")?,
        turn_id: turn.map(TurnId),
        role: word(role)?,
        content: row.try_get("content")?,
        parts: row.try_get("parts")?,
        finish: finish.map(word).transpose()?,
        files: files.map(|files| files.0).unwrap_or_default(),
        created_at: row.try_get("created_at")?,
    })
}

fn word<T: for<'de> Deserialize<'de>>(word: String) -> Result<T, Error> {
    serde_json::from_value(Value::String(word)).map_err(|_| Error::Corrupt { what: "message" })
}
