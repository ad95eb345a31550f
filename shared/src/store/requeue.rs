//! A turn that was given up runs again as another one: its user's message goes over to the new turn.
use contract::ids::{ConversationId, TurnId, UserId};
use sqlx::Row as _;
use uuid::Uuid;

use crate::store::Error;
use crate::store::pool::{RowPool, within};

/// The conversation row is locked before the lease row, as everywhere. The message is written anew: its
/// answer will stand at the end of the history, and what belongs to a message by its id follows.
const TAKE_OVER: &str = "WITH conversation AS MATERIALIZED \
    (SELECT id, user_id, is_archived FROM agent_conversations WHERE id = $1 FOR NO KEY UPDATE), \
    lease AS MATERIALIZED (SELECT l.turn_id FROM conversation c JOIN leases l ON l.conversation_id = c.id \
    WHERE l.until > clock_timestamp() FOR NO KEY UPDATE OF l), \
    allowed AS MATERIALIZED (SELECT c.id FROM conversation c \
    WHERE c.user_id = $2 AND NOT c.is_archived AND NOT EXISTS (SELECT FROM lease)), \
    taken AS (DELETE FROM agent_messages m USING allowed \
    WHERE m.conversation_id = allowed.id AND m.role = 'user' AND m.turn_id = ANY($3) \
    RETURNING m.conversation_id, m.role, m.content, m.files, m.created_at), \
    written AS (INSERT INTO agent_messages (conversation_id, turn_id, role, content, files, created_at) \
    SELECT conversation_id, $4, role, content, files, created_at FROM taken) \
    SELECT c.user_id, c.is_archived, (SELECT turn_id FROM lease) AS live_turn FROM conversation c";
const EXISTS: &str = "SELECT EXISTS (SELECT FROM turns WHERE turn_id = $1)";

#[derive(Clone, Debug)]
pub struct TakeOver<'a> {
    pub conversation: ConversationId,
    pub user: &'a UserId,
    /// The turn that was given up, and others that took its message over but never began.
    pub from: &'a [TurnId],
    pub to: TurnId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenOver {
    /// The message, if there is one, belongs to the new turn.
    Done,
    /// Nothing was changed: this turn holds the lease.
    Live(TurnId),
    Archived,
    /// The conversation is another user's.
    NotOwner,
}

/// May be repeated.
pub async fn take_over(pool: &RowPool, take: &TakeOver<'_>) -> Result<TakenOver, Error> {
    let from: Vec<Uuid> = take.from.iter().map(|turn| turn.0).collect();
    let row = within(async {
        Ok(sqlx::query(TAKE_OVER)
            .bind(take.conversation.0)
            .bind(take.user.as_str())
            .bind(from)
            .bind(take.to.0)
            .fetch_optional(pool)
            .await?)
    });
    // A conversation that is not there is made by its next turn.
    let Some(row) = row.await? else { return Ok(TakenOver::Done) };
    let (owner, is_archived): (String, bool) =
        (row.try_get("user_id")?, row.try_get("is_archived")?);
    let live: Option<Uuid> = row.try_get("live_turn")?;
    Ok(match live {
        _ if owner != take.user.as_str() => TakenOver::NotOwner,
        Some(turn) => TakenOver::Live(TurnId(turn)),
        None if is_archived => TakenOver::Archived,
        None => TakenOver::Done,
    })
}

/// Whether a worker has ever begun this turn.
pub async fn has_begun(pool: &RowPool, turn: TurnId) -> Result<bool, Error> {
    within(async { Ok(sqlx::query_scalar(EXISTS).bind(turn.0).fetch_one(pool).await?) }).await
}
