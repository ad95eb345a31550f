//! `turns` with `checkpoints`: the two statements between which a worker's turn lives.
use std::time::Duration;

use contract::event::{Event, TurnStatus};
use contract::ids::{ConversationId, TurnId, UserId};
use contract::job::{FileRef, JobKind};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;

use crate::store::audit::{self, AuditRow};
use crate::store::confirmations::{self, NewCard, OpenCard};
use crate::store::messages::{Finish, Role};
use crate::store::pool::{HotPool, RowPool, hot_row, within};
use crate::store::{CommitError, Error, lease, sanitize};

/// The rows of 200 turns.
const HISTORY_ROWS: i32 = 400;

const BEGIN: &str =
    "SELECT * FROM agent_begin_turn($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
const COMMIT: &str = "SELECT agent_commit_turn($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, \
    $16, $17)";
const BEGUN: &str = "SELECT t.turn_id, t.finished_at IS NOT NULL AS finished, u.content AS question, \
    a.content AS answer, t.outbox FROM turns t \
    LEFT JOIN agent_messages u ON u.turn_id = t.turn_id AND u.role = 'user' \
    LEFT JOIN agent_messages a ON a.turn_id = t.turn_id AND a.role = 'assistant' \
    WHERE t.turn_id = ANY($1) AND t.user_id = $2 AND t.status <> 'rejected'";
const LIVE: &str = "SELECT t.turn_id, t.user_id, t.attempts, t.started_at \
    FROM leases l JOIN turns t ON t.turn_id = l.turn_id \
    WHERE l.conversation_id = $1 AND l.until > clock_timestamp()";
const LAST: &str = "SELECT t.turn_id, t.finished_at IS NOT NULL AS finished, u.content AS question, \
    a.content AS answer, t.outbox FROM leases l JOIN turns t ON t.turn_id = l.turn_id \
    LEFT JOIN agent_messages u ON u.turn_id = t.turn_id AND u.role = 'user' \
    LEFT JOIN agent_messages a ON a.turn_id = t.turn_id AND a.role = 'assistant' \
    WHERE l.conversation_id = $1 AND t.user_id = $2 AND t.status <> 'rejected'";

#[derive(Clone, Debug)]
pub struct BeginTurn<'a> {
    pub turn: TurnId,
    pub conversation: ConversationId,
    pub reference: Option<&'a str>,
    pub user: &'a UserId,
    pub kind: &'a JobKind,
    /// Stored as the user's message if `kind` is `Message`.
    pub text: &'a str,
    pub files: &'a [FileRef],
    /// For a conversation that has none.
    pub title: &'a str,
    /// Worker name.
    pub owner: &'a str,
    pub lease_ttl: Duration,
    pub max_attempts: u32,
    pub turns_per_user: u32,
    pub now: OffsetDateTime,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Begun {
    Started(Box<Started>),
    /// An unexpired lease, whoever holds it.
    LeaseHeld,
    /// The conversation is another user's.
    NotOwner,
    Archived,
    /// The user has `turns_per_user` live turns in other conversations.
    UserBusy,
    /// The turn has ended (an interrupted turn too): the events to publish again.
    Finished {
        outbox: Value,
    },
    /// Died too often. The lease is taken, so that the failure can be committed.
    Poisoned {
        attempt: u32,
        epoch: i64,
        checkpoint: Option<SavedRun>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Started {
    pub epoch: i64,
    /// Counts from 1.
    pub attempt: u32,
    /// The conversation did not exist before.
    pub new_conversation: bool,
    pub checkpoint: Option<SavedRun>,
    pub open_card: Option<OpenCard>,
    pub summary: Option<Summary>,
    /// After the summary, oldest first, without this turn; of the last 200 turns at most.
    pub history: Vec<HistoryRow>,
}

/// The run as it was last saved, by this turn or by the one that paused.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedRun {
    pub turn_id: TurnId,
    pub run: Value,
    /// Stream sequence of the last event before the save.
    pub cursor: u64,
}

/// Stands for all messages up to `upto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub text: String,
    pub upto: i64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct HistoryRow {
    pub id: i64,
    pub turn_id: Option<TurnId>,
    pub role: Role,
    pub content: String,
    pub parts: Option<Value>,
    pub finish: Option<Finish>,
    #[serde(deserialize_with = "null_as_empty")]
    pub files: Vec<FileRef>,
}

/// All that a step changes, written together or not at all.
#[derive(Clone, Debug)]
pub struct Commit {
    pub conversation: ConversationId,
    pub turn: TurnId,
    pub epoch: i64,
    /// Stream sequence of the last published event; goes with the run.
    pub cursor: u64,
    pub run: RunChange,
    /// The turn's assistant message; replaces an earlier one of this turn.
    pub assistant: Option<AssistantRow>,
    /// Appended to the parts of another turn's assistant message (the paused one's).
    pub append_parts: Option<(TurnId, Value)>,
    /// Opened; there must be no other open card.
    pub card: Option<NewCard>,
    /// Ends the turn; with the events that a redelivery publishes again.
    pub finish: Option<(TurnStatus, Value)>,
    pub audit: Vec<AuditRow>,
    pub release_lease: bool,
    pub now: OffsetDateTime,
}

#[derive(Clone, Debug)]
pub enum RunChange {
    Save(Value),
    /// No run is left: its checkpoint and its journal go.
    Clear,
    Keep,
}

#[derive(Clone, Debug)]
pub struct AssistantRow {
    pub text: String,
    /// Array of step messages.
    pub parts: Value,
    pub finish: Finish,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveTurn {
    pub turn_id: TurnId,
    pub user_id: UserId,
    pub attempt: u32,
    pub started_at: OffsetDateTime,
}

/// What is stored of a turn, whether it has ended or not.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTurn {
    pub turn_id: TurnId,
    pub finished: bool,
    /// The user's message; a decision has none.
    pub question: Option<String>,
    /// As far as it got.
    pub answer: Option<String>,
    /// The last events of a turn that has ended: a card or an error, and the end.
    pub outbox: Vec<Event>,
}

/// Starts a turn or goes on with it, in one statement: takes the lease, stores the user's message, loads
/// what a run needs. Nothing is written unless the answer is `Started` or `Poisoned`.
pub async fn begin(pool: &HotPool, begin: &BeginTurn<'_>) -> Result<Begun, Error> {
    let kind = match begin.kind {
        JobKind::Message => "message",
        JobKind::Confirm { .. } => "confirm",
        JobKind::Deny { .. } => "deny",
        JobKind::Resume => "resume",
    };
    let user = begin.user.as_str();
    let (reference, text, title) = (
        begin.reference.map(sanitize::text),
        sanitize::text(begin.text),
        sanitize::text(begin.title),
    );
    let (files, owner) = (sanitize::files(begin.files), sanitize::text(begin.owner));
    let (attempts, turns) = (small(begin.max_attempts), small(begin.turns_per_user));
    let params: [&(dyn ToSql + Sync); 14] = [
        &begin.turn.0,
        &begin.conversation.0,
        &reference,
        &user,
        &kind,
        &text,
        &files,
        &title,
        &owner,
        &lease::millis(begin.lease_ttl),
        &attempts,
        &turns,
        &HISTORY_ROWS,
        &begin.now,
    ];
    let row = hot_row(pool, BEGIN, &params).await?;
    match row.try_get("outcome")? {
        "started" => Ok(Begun::Started(Box::new(started(&row)?))),
        "poisoned" => {
            let (attempt, epoch) = (attempt(&row)?, row.try_get("lease_epoch")?);
            Ok(Begun::Poisoned { attempt, epoch, checkpoint: saved_run(&row)? })
        }
        "finished" => {
            let outbox: Option<Value> = row.try_get("events")?;
            Ok(Begun::Finished { outbox: outbox.unwrap_or_else(|| Value::Array(Vec::new())) })
        }
        "lease_held" => Ok(Begun::LeaseHeld),
        "not_owner" => Ok(Begun::NotOwner),
        "archived" => Ok(Begun::Archived),
        "user_busy" => Ok(Begun::UserBusy),
        _ => Err(Error::Corrupt { what: "turn" }),
    }
}

/// Plans the statement of [`begin`] on so many connections, so that the first turns don't wait for that.
/// Writes nothing.
pub async fn warm(pool: &HotPool, connections: usize) -> Result<(), Error> {
    let mut held = Vec::with_capacity(connections);
    for _ in 0..connections {
        held.push(pool.get().await?);
    }
    let (turn, conversation, now) = (Uuid::nil(), Uuid::nil(), OffsetDateTime::UNIX_EPOCH);
    let (nobody, files, lease_ms) = ("warm-up", sanitize::files(&[]), 1_000_i64);
    let params: [&(dyn ToSql + Sync); 14] = [
        &turn,
        &conversation,
        &None::<&str>,
        &nobody,
        &"message",
        &"",
        &files,
        &"",
        &nobody,
        &lease_ms,
        &1_i32,
        &1_i32,
        &HISTORY_ROWS,
        &now,
    ];
    for client in &held {
        client.batch_execute("BEGIN").await?;
        let statement = client.prepare_cached(BEGIN).await?;
        client.query_one(&statement, &params).await?;
        client.batch_execute("ROLLBACK").await?;
    }
    Ok(())
}

/// One transaction in one statement, fenced by (conversation, epoch).
pub async fn commit(pool: &HotPool, commit: &Commit) -> Result<(), CommitError> {
    let (change, run) = match &commit.run {
        RunChange::Save(run) => ("save", Some(sanitize::json(run))),
        RunChange::Clear => ("clear", None),
        RunChange::Keep => ("keep", None),
    };
    let cursor = i64::try_from(commit.cursor).map_err(|_| Error::Corrupt { what: "cursor" })?;
    let assistant = commit.assistant.as_ref();
    let (text, parts) = (
        assistant.map(|row| sanitize::text(&row.text)),
        assistant.map(|row| sanitize::json(&row.parts)),
    );
    let (append_turn, append_parts) = match &commit.append_parts {
        Some((turn, parts)) => (Some(turn.0), Some(sanitize::json(parts))),
        None => (None, None),
    };
    let card = commit.card.as_ref().map(confirmations::document).transpose()?;
    let (status, outbox) = match &commit.finish {
        Some((status, outbox)) => (Some(status_word(*status)), Some(sanitize::json(outbox))),
        None => (None, None),
    };
    let audit = audit::document(&commit.audit)?;
    let params: [&(dyn ToSql + Sync); 17] = [
        &commit.conversation.0,
        &commit.turn.0,
        &commit.epoch,
        &commit.now,
        &change,
        &run.as_deref(),
        &cursor,
        &text,
        &parts.as_deref(),
        &assistant.map(|row| row.finish.as_str()),
        &append_turn,
        &append_parts.as_deref(),
        &card,
        &status,
        &outbox.as_deref(),
        &audit,
        &commit.release_lease,
    ];
    let row = hot_row(pool, COMMIT, &params).await?;
    if row.try_get(0)? { Ok(()) } else { Err(CommitError::Fenced) }
}

/// Those of these turns of the user's that were ever begun.
pub async fn begun(
    pool: &RowPool,
    user: &UserId,
    turns: &[TurnId],
) -> Result<Vec<StoredTurn>, Error> {
    let ids: Vec<Uuid> = turns.iter().map(|turn| turn.0).collect();
    let query = sqlx::query(BEGUN).bind(ids).bind(user.as_str());
    let rows = within(async { Ok(query.fetch_all(pool).await?) }).await?;
    rows.iter().map(stored).collect()
}

/// The conversation's last turn, unless it was refused.
pub async fn last(
    pool: &RowPool,
    user: &UserId,
    conversation: ConversationId,
) -> Result<Option<StoredTurn>, Error> {
    let row = within(async {
        let query = sqlx::query(LAST).bind(conversation.0).bind(user.as_str());
        Ok(query.fetch_optional(pool).await?)
    });
    row.await?.as_ref().map(stored).transpose()
}

fn stored(row: &sqlx::postgres::PgRow) -> Result<StoredTurn, Error> {
    let outbox: Option<sqlx::types::Json<Vec<Value>>> = sqlx::Row::try_get(row, "outbox")?;
    // A newer worker may have written events that this program doesn't know.
    let outbox = outbox.into_iter().flat_map(|outbox| outbox.0);
    Ok(StoredTurn {
        turn_id: TurnId(sqlx::Row::try_get(row, "turn_id")?),
        finished: sqlx::Row::try_get(row, "finished")?,
        question: sqlx::Row::try_get(row, "question")?,
        answer: sqlx::Row::try_get(row, "answer")?,
        outbox: outbox.filter_map(|event| serde_json::from_value(event).ok()).collect(),
    })
}

/// The turn that holds the conversation's lease.
pub async fn live(pool: &RowPool, conversation: ConversationId) -> Result<Option<LiveTurn>, Error> {
    let row =
        within(async { Ok(sqlx::query(LIVE).bind(conversation.0).fetch_optional(pool).await?) });
    let Some(row) = row.await? else { return Ok(None) };
    let attempts: i32 = sqlx::Row::try_get(&row, "attempts")?;
    let user: String = sqlx::Row::try_get(&row, "user_id")?;
    Ok(Some(LiveTurn {
        turn_id: TurnId(sqlx::Row::try_get(&row, "turn_id")?),
        user_id: UserId::try_from(user).map_err(|_| Error::Corrupt { what: "user id" })?,
        attempt: u32::try_from(attempts).map_err(|_| Error::Corrupt { what: "turn" })?,
        started_at: sqlx::Row::try_get(&row, "started_at")?,
    }))
}

fn saved_run(row: &Row) -> Result<Option<SavedRun>, Error> {
    let (turn, run): (Option<Uuid>, Option<Value>) =
        (row.try_get("saved_turn")?, row.try_get("saved_run")?);
    let cursor: Option<i64> = row.try_get("saved_cursor")?;
    let Some((turn, run)) = turn.zip(run) else { return Ok(None) };
    let cursor =
        u64::try_from(cursor.unwrap_or_default()).map_err(|_| Error::Corrupt { what: "cursor" })?;
    Ok(Some(SavedRun { turn_id: TurnId(turn), run, cursor }))
}

fn started(row: &Row) -> Result<Started, Error> {
    let history: Option<Json<Vec<HistoryRow>>> = row.try_get("history")?;
    let (summary, upto): (Option<String>, Option<i64>) =
        (row.try_get("summary_text")?, row.try_get("summary_end")?);
    Ok(Started {
        epoch: row.try_get("lease_epoch")?,
        attempt: attempt(row)?,
        new_conversation: row.try_get("is_new")?,
        checkpoint: saved_run(row)?,
        open_card: confirmations::read_open(row.try_get("card")?)?,
        summary: summary.zip(upto).map(|(text, upto)| Summary { text, upto }),
        history: history.map(|rows| rows.0).unwrap_or_default(),
    })
}

fn attempt(row: &Row) -> Result<u32, Error> {
    let attempt: i32 = row.try_get("attempt")?;
    u32::try_from(attempt).map_err(|_| Error::Corrupt { what: "turn" })
}

fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn status_word(status: TurnStatus) -> &'static str {
    match status {
        TurnStatus::Completed => "completed",
        TurnStatus::Interrupted => "interrupted",
        TurnStatus::Cancelled => "cancelled",
        TurnStatus::Failed => "failed",
        TurnStatus::Rejected => "rejected",
    }
}

fn null_as_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<FileRef>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
