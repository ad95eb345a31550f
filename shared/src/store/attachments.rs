//! `attachments`: what was read from uploads.
use contract::ids::{ConversationId, UserId};
use contract::job::FileRef;
use serde_json::Value;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::store::pool::{HotPool, hot_row, hot_rows};
use crate::store::{CommitError, Error, sanitize};

const SAVE: &str = "WITH fence AS MATERIALIZED (SELECT agent_fence($2, $11) AS held), \
    saved AS (INSERT INTO attachments \
    (id, conversation_id, user_id, blob, name, mime, size, text, extraction, image, created_at) \
    SELECT $1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::text, $7::bigint, '', $8::jsonb, $9::text, \
    $10::timestamptz FROM fence WHERE fence.held ON CONFLICT (conversation_id, blob) DO UPDATE SET extraction = excluded.extraction, image = excluded.image \
    WHERE attachments.extraction IS NULL OR attachments.extraction ->> 'outcome' = 'failed') \
    SELECT held FROM fence";
const LIST: &str = "SELECT blob, name, mime, size, extraction, created_at FROM (SELECT * FROM attachments \
    WHERE conversation_id = $1 AND extraction IS NOT NULL ORDER BY created_at DESC, id DESC LIMIT $2) newest \
    ORDER BY created_at, id";
const FIND: &str = "SELECT blob, name, mime, size, extraction, created_at FROM attachments \
    WHERE conversation_id = $1 AND blob = $2 AND extraction IS NOT NULL";
const IMAGE: &str = "SELECT image FROM attachments WHERE conversation_id = $1 AND blob = $2";

#[derive(Clone, Debug)]
pub struct NewAttachment<'a> {
    pub id: Uuid,
    pub conversation: ConversationId,
    pub epoch: i64,
    pub user: &'a UserId,
    pub file: &'a FileRef,
    /// What came out of it, in the worker's own form.
    pub extraction: &'a Value,
    /// Of a picture: the `data:` URL of what a model is shown.
    pub image: Option<&'a str>,
    pub now: OffsetDateTime,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Attachment {
    pub file: FileRef,
    pub extraction: Value,
    pub created_at: OffsetDateTime,
}

/// Whoever comes first stores; a later result for the same blob of the conversation is dropped, unless nothing was
/// read so far. Fenced.
pub async fn save(pool: &HotPool, new: &NewAttachment<'_>) -> Result<(), CommitError> {
    let file = new.file;
    let size = i64::try_from(file.size).unwrap_or(i64::MAX);
    let (blob, name, mime) =
        (sanitize::text(&file.blob), sanitize::text(&file.name), sanitize::text(&file.mime));
    let (user, extraction) = (new.user.as_str(), sanitize::json(new.extraction));
    let params: [&(dyn ToSql + Sync); 11] = [
        &new.id,
        &new.conversation.0,
        &user,
        &blob,
        &name,
        &mime,
        &size,
        &extraction.as_ref(),
        &new.image,
        &new.now,
        &new.epoch,
    ];
    let row = hot_row(pool, SAVE, &params).await?;
    if row.try_get(0)? { Ok(()) } else { Err(CommitError::Fenced) }
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

/// The picture of one, if it is one.
pub async fn image(
    pool: &HotPool,
    conversation: ConversationId,
    blob: &str,
) -> Result<Option<String>, Error> {
    let blob = sanitize::text(blob);
    let rows = hot_rows(pool, IMAGE, &[&conversation.0, &blob]).await?;
    rows.first().map(|row| row.try_get(0)).transpose().map(Option::flatten).map_err(Error::from)
}

fn attachment(row: &Row) -> Result<Attachment, Error> {
    let size: i64 = row.try_get("size")?;
    Ok(Attachment {
        file: FileRef {
            blob: row.try_get("blob")?,
            name: row.try_get("name")?,
            mime: row.try_get("mime")?,
            size: u64::try_from(size).map_err(|_| Error::Corrupt { what: "attachment" })?,
        },
        extraction: row.try_get("extraction")?,
        created_at: row.try_get("created_at")?,
    })
}
