//! `attachments`: what was read from uploads.
use contract::ids::{ConversationId, UserId};
use contract::job::FileRef;
use time::OffsetDateTime;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::store::pool::{HotPool, hot_rows};
use crate::store::{Error, sanitize};

const SAVE: &str = "INSERT INTO attachments (id, conversation_id, user_id, blob, name, mime, size, text, created_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (conversation_id, blob) DO NOTHING";
const LIST: &str = "SELECT id, blob, name, mime, size, text, created_at FROM (SELECT * FROM attachments \
    WHERE conversation_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2) newest ORDER BY created_at, id";
const FIND: &str = "SELECT id, blob, name, mime, size, text, created_at FROM attachments \
    WHERE conversation_id = $1 AND blob = $2";

#[derive(Clone, Debug)]
pub struct NewAttachment<'a> {
    pub id: Uuid,
    pub conversation: ConversationId,
    pub user: &'a UserId,
    pub file: &'a FileRef,
    /// Extracted text; empty if there is none.
    pub text: &'a str,
    pub now: OffsetDateTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub id: Uuid,
    pub file: FileRef,
    pub text: String,
    pub created_at: OffsetDateTime,
}

/// Idempotent by conversation and blob. The conversation must have begun.
pub async fn save(pool: &HotPool, new: &NewAttachment<'_>) -> Result<(), Error> {
    let file = new.file;
    let size = i64::try_from(file.size).unwrap_or(i64::MAX);
    let (blob, name, mime) =
        (sanitize::text(&file.blob), sanitize::text(&file.name), sanitize::text(&file.mime));
    let (user, text) = (new.user.as_str(), sanitize::text(new.text));
    hot_rows(
        pool,
        SAVE,
        &[&new.id, &new.conversation.0, &user, &blob, &name, &mime, &size, &text, &new.now],
    )
    .await?;
    Ok(())
}

/// The newest `limit` attachments of a conversation, oldest first.
pub async fn list(
    pool: &HotPool,
    conversation: ConversationId,
    limit: u32,
) -> Result<Vec<Attachment>, Error> {
    hot_rows(pool, LIST, &[&conversation.0, &i64::from(limit)])
        .await?
        .iter()
        .map(attachment)
        .collect()
}

/// One by its blob.
pub async fn find(
    pool: &HotPool,
    conversation: ConversationId,
    blob: &str,
) -> Result<Option<Attachment>, Error> {
    let blob = sanitize::text(blob);
    hot_rows(pool, FIND, &[&conversation.0, &blob]).await?.first().map(attachment).transpose()
}

fn attachment(row: &Row) -> Result<Attachment, Error> {
    let size: i64 = row.try_get("size")?;
    Ok(Attachment {
        id: row.try_get("id")?,
        file: FileRef {
            blob: row.try_get("blob")?,
            name: row.try_get("name")?,
            mime: row.try_get("mime")?,
            size: u64::try_from(size).map_err(|_| Error::Corrupt { what: "attachment" })?,
        },
        text: row.try_get("text")?,
        created_at: row.try_get("created_at")?,
    })
}
