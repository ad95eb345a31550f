//! `agent_conversations`: create, list, search, archive.
use std::fmt;
use std::str::FromStr;

use contract::ids::{ConversationId, TurnId, UserId};
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::paging::{InvalidCursor, Page, Paging, Window};
use crate::store::pool::{HotPool, RowPool, hot_row, within};
use crate::store::{CommitError, Error, sanitize};

/// More words in a search are left out.
const SEARCH_WORDS: usize = 16;
/// So much of a word is looked for: Postgres takes none of 2 KiB, and the start of one is enough.
const SEARCH_WORD_CHARS: usize = 200;

const CREATE: &str = "INSERT INTO agent_conversations AS c (id, user_id, reference, title, created_at, updated_at) \
    VALUES ($1, $2, $3, $4, $5, $5) \
    ON CONFLICT (id) DO UPDATE SET is_listed = true WHERE c.user_id = excluded.user_id AND NOT c.is_listed";
const GET: &str = "SELECT id, reference, title, is_archived, message_count, created_at, updated_at, last_message_at \
    FROM agent_conversations WHERE id = $1 AND user_id = $2";
const OWNER: &str = "SELECT user_id FROM agent_conversations WHERE id = $1";
const LIST: &str = "SELECT id, reference, title, is_archived, message_count, created_at, updated_at, last_message_at \
    FROM agent_conversations c \
    WHERE c.user_id = $1 AND c.is_listed AND ($2::boolean IS NULL OR c.is_archived = $2) \
    AND ($3::timestamptz IS NULL OR (c.updated_at, c.id) < ($3, $4)) \
    ORDER BY c.updated_at DESC, c.id DESC LIMIT $5 OFFSET $6";
const COUNT: &str = "SELECT count(*) FROM agent_conversations c \
    WHERE c.user_id = $1 AND c.is_listed AND ($2::boolean IS NULL OR c.is_archived = $2)";
/// The page and, in every row, the number of all that is found; a row without an id stands for an empty page.
const SEARCH: &str = "WITH hits AS MATERIALIZED (SELECT DISTINCT s.conversation_id FROM message_search s \
        WHERE s.words @@ agent_user_query($1, $7)), \
    found AS MATERIALIZED (SELECT c.id, c.updated_at FROM agent_conversations c \
        WHERE c.user_id = $1 AND c.is_listed AND ($2::boolean IS NULL OR c.is_archived = $2) \
        AND (c.id IN (SELECT conversation_id FROM hits) \
            OR c.title_words @@ to_tsquery('pg_catalog.russian', $7) \
            OR strpos(c.title_folded, agent_fold($8)) > 0)) \
    SELECT (SELECT count(*) FROM found) AS total, c.id, reference, title, is_archived, message_count, \
        created_at, c.updated_at, last_message_at \
    FROM (SELECT) AS always LEFT JOIN (SELECT * FROM found f \
        WHERE $3::timestamptz IS NULL OR (f.updated_at, f.id) < ($3, $4) \
        ORDER BY f.updated_at DESC, f.id DESC LIMIT $5 OFFSET $6) AS page ON true \
    LEFT JOIN agent_conversations c ON c.id = page.id \
    ORDER BY page.updated_at DESC, page.id DESC";
const ARCHIVE: &str = "SELECT outcome, live_turn FROM agent_archive($1, $2, $3, false)";
const ARCHIVE_BY_FORCE: &str = "SELECT outcome, live_turn FROM agent_archive($1, $2, $3, true)";
const RENAME: &str =
    "UPDATE agent_conversations SET title = $3 WHERE id = $1 AND user_id = $2 AND is_listed";
const UNARCHIVE: &str = "UPDATE agent_conversations SET is_archived = false, updated_at = greatest(updated_at, $3) \
    WHERE id = $1 AND user_id = $2 AND is_archived";
/// The conversation row is locked before the lease row, as everywhere.
const SAVE_SUMMARY: &str = "WITH locked AS MATERIALIZED \
    (SELECT id FROM agent_conversations WHERE id = $1 FOR NO KEY UPDATE), \
    fence AS MATERIALIZED (SELECT agent_fence(id, $2) AS held FROM locked), \
    saved AS (UPDATE agent_conversations c SET summary = $3, summary_upto = $4 FROM fence \
    WHERE fence.held AND c.id = $1) \
    SELECT coalesce((SELECT held FROM fence), false)";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub id: ConversationId,
    /// What the client calls it; absent when that is the id.
    pub reference: Option<String>,
    pub title: String,
    pub is_archived: bool,
    /// User and assistant messages.
    pub message_count: u32,
    pub created_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
    pub last_message_at: Option<OffsetDateTime>,
}

#[derive(Clone, Debug)]
pub struct NewConversation<'a> {
    pub id: ConversationId,
    pub user: &'a UserId,
    pub reference: Option<&'a str>,
    /// Empty: the first message gives it.
    pub title: &'a str,
    pub now: OffsetDateTime,
}

#[derive(Clone, Debug)]
pub struct Filter<'a> {
    pub user: &'a UserId,
    pub scope: Scope,
    /// Words in titles and messages, Russian and English; each word may be the start of one.
    pub search: Option<&'a str>,
    pub paging: Paging<ListCursor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Active,
    Archived,
    All,
}

/// Place in a list ordered by `updated_at`, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListCursor {
    pub updated_at: OffsetDateTime,
    pub id: ConversationId,
}

impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.updated_at.unix_timestamp_nanos() / 1_000, self.id)
    }
}

impl FromStr for ListCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let (micros, id) = text.split_once('_').ok_or(InvalidCursor)?;
        let micros: i64 = micros.parse().map_err(|_| InvalidCursor)?;
        let updated_at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000);
        Ok(Self {
            updated_at: updated_at.map_err(|_| InvalidCursor)?,
            id: id.parse().map_err(|_| InvalidCursor)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archived {
    Done,
    /// Nothing was changed: this turn holds the lease. Cancel it, wait, call again.
    Live(TurnId),
    /// Not there, or another user's.
    NotFound,
}

/// The conversation as it stands, made if it was absent. `None`: the id is another user's.
pub async fn create(
    pool: &RowPool,
    new: &NewConversation<'_>,
) -> Result<Option<Conversation>, Error> {
    let reference = new.reference.map(sanitize::text);
    let work = async {
        sqlx::query(CREATE)
            .bind(new.id.0)
            .bind(new.user.as_str())
            .bind(reference)
            .bind(sanitize::text(new.title))
            .bind(new.now)
            .execute(pool)
            .await?;
        Ok(())
    };
    within(work).await?;
    get(pool, new.user, new.id).await
}

pub async fn list(pool: &RowPool, filter: &Filter<'_>) -> Result<Page<Conversation>, Error> {
    let archived = match filter.scope {
        Scope::Active => Some(false),
        Scope::Archived => Some(true),
        Scope::All => None,
    };
    let window = filter.paging.window();
    let (rows, total) = within(async {
        match filter.search.map(Search::parse) {
            Some(search) => found(pool, filter, archived, &window, &search).await,
            None => listed(pool, filter, archived, &window).await,
        }
    })
    .await?;
    let items = rows.iter().map(conversation).collect::<Result<Vec<_>, _>>()?;
    Ok(window.page(items, total, |last| {
        ListCursor { updated_at: last.updated_at, id: last.id }.to_string()
    }))
}

async fn listed(
    pool: &RowPool,
    filter: &Filter<'_>,
    archived: Option<bool>,
    window: &Window<ListCursor>,
) -> Result<(Vec<PgRow>, i64), Error> {
    let rows = sqlx::query(LIST)
        .bind(filter.user.as_str())
        .bind(archived)
        .bind(window.after.map(|cursor| cursor.updated_at))
        .bind(window.after.map(|cursor| cursor.id.0))
        .bind(window.fetch)
        .bind(window.skip)
        .fetch_all(pool)
        .await?;
    let count = sqlx::query_scalar(COUNT).bind(filter.user.as_str()).bind(archived);
    Ok((rows, count.fetch_one(pool).await?))
}

async fn found(
    pool: &RowPool,
    filter: &Filter<'_>,
    archived: Option<bool>,
    window: &Window<ListCursor>,
    search: &Search,
) -> Result<(Vec<PgRow>, i64), Error> {
    let mut rows = sqlx::query(SEARCH)
        .bind(filter.user.as_str())
        .bind(archived)
        .bind(window.after.map(|cursor| cursor.updated_at))
        .bind(window.after.map(|cursor| cursor.id.0))
        .bind(window.fetch)
        .bind(window.skip)
        .bind(&search.words)
        .bind(&search.phrase)
        .fetch_all(pool)
        .await?;
    let total = rows.first().map(|row| row.try_get("total")).transpose()?.unwrap_or_default();
    let is_empty =
        |row: &PgRow| Ok::<_, sqlx::Error>(row.try_get::<Option<Uuid>, _>("id")?.is_none());
    if rows.first().map(is_empty).transpose()?.unwrap_or_default() {
        rows.clear();
    }
    Ok((rows, total))
}

pub async fn get(
    pool: &RowPool,
    user: &UserId,
    id: ConversationId,
) -> Result<Option<Conversation>, Error> {
    let row = within(async {
        Ok(sqlx::query(GET).bind(id.0).bind(user.as_str()).fetch_optional(pool).await?)
    });
    row.await?.as_ref().map(conversation).transpose()
}

pub async fn owner_of(pool: &RowPool, id: ConversationId) -> Result<Option<UserId>, Error> {
    let owner = within(async {
        Ok(sqlx::query_scalar::<_, String>(OWNER).bind(id.0).fetch_optional(pool).await?)
    });
    let owner = owner.await?.map(UserId::try_from).transpose();
    owner.map_err(|_| Error::Corrupt { what: "user id" })
}

/// FR-011, FR-029. Archives unless a turn is live.
pub async fn archive(
    pool: &RowPool,
    user: &UserId,
    id: ConversationId,
    now: OffsetDateTime,
) -> Result<Archived, Error> {
    archive_as(pool, user, id, now, ARCHIVE).await
}

/// As `archive`, but takes the lease from a live turn, which can write nothing from then on. Never `Live`.
pub async fn archive_by_force(
    pool: &RowPool,
    user: &UserId,
    id: ConversationId,
    now: OffsetDateTime,
) -> Result<Archived, Error> {
    archive_as(pool, user, id, now, ARCHIVE_BY_FORCE).await
}

async fn archive_as(
    pool: &RowPool,
    user: &UserId,
    id: ConversationId,
    now: OffsetDateTime,
    sql: &'static str,
) -> Result<Archived, Error> {
    let row = within(async {
        Ok(sqlx::query(sql).bind(user.as_str()).bind(id.0).bind(now).fetch_one(pool).await?)
    });
    let row = row.await?;
    let live: Option<Uuid> = row.try_get("live_turn")?;
    match (row.try_get("outcome")?, live) {
        ("done", _) => Ok(Archived::Done),
        ("live", Some(turn)) => Ok(Archived::Live(TurnId(turn))),
        ("not_found", _) => Ok(Archived::NotFound),
        _ => Err(Error::Corrupt { what: "conversation" }),
    }
}

/// The conversation with its new title; `None` if it is not this user's.
pub async fn rename(
    pool: &RowPool,
    user: &UserId,
    id: ConversationId,
    title: &str,
) -> Result<Option<Conversation>, Error> {
    let title = sanitize::text(title);
    let work = async {
        sqlx::query(RENAME).bind(id.0).bind(user.as_str()).bind(title).execute(pool).await?;
        Ok(())
    };
    within(work).await?;
    get(pool, user, id).await
}

/// The conversation, back in the list; `None` if it is not this user's.
pub async fn unarchive(
    pool: &RowPool,
    user: &UserId,
    id: ConversationId,
    now: OffsetDateTime,
) -> Result<Option<Conversation>, Error> {
    let work = async {
        sqlx::query(UNARCHIVE).bind(id.0).bind(user.as_str()).bind(now).execute(pool).await?;
        Ok(())
    };
    within(work).await?;
    get(pool, user, id).await
}

/// Text that stands for all messages up to and including `upto`. Fenced.
pub async fn save_summary(
    pool: &HotPool,
    id: ConversationId,
    epoch: i64,
    text: &str,
    upto: i64,
) -> Result<(), CommitError> {
    let row = hot_row(pool, SAVE_SUMMARY, &[&id.0, &epoch, &sanitize::text(text), &upto]).await?;
    if row.try_get(0)? { Ok(()) } else { Err(CommitError::Fenced) }
}

/// What a person typed into the search field.
struct Search {
    /// For `to_tsquery`: every word, and what begins with it.
    words: String,
    /// For titles, where any part counts.
    phrase: String,
}

impl Search {
    fn parse(text: &str) -> Self {
        let folded = text.to_lowercase().replace('ё', "е");
        let words: Vec<&str> = folded
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .take(SEARCH_WORDS)
            .collect();
        let start = |word: &&str| word.chars().take(SEARCH_WORD_CHARS).collect::<String>();
        let words: Vec<String> = words.iter().map(|word| format!("{}:*", start(word))).collect();
        let words = words.join(" & ");
        Self { words, phrase: sanitize::text(text.trim()).into_owned() }
    }
}

fn conversation(row: &PgRow) -> Result<Conversation, Error> {
    let count: i32 = row.try_get("message_count")?;
    Ok(Conversation {
        id: ConversationId(row.try_get("id")?),
        reference: row.try_get("reference")?,
        title: row.try_get("title")?,
        is_archived: row.try_get("is_archived")?,
        message_count: u32::try_from(count)
            .map_err(|_| Error::Corrupt { what: "message count" })?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        last_message_at: row.try_get("last_message_at")?,
    })
}
