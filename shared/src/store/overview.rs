//! What an operator sees of turns, leases, cards and of the server. Reads only.
use std::time::Duration;

use contract::ids::{ConversationId, TurnId, UserId};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use crate::store::Error;
use crate::store::pool::{RowPool, within};

/// More live turns than any fleet has.
const ROWS: i64 = 20_000;

const LEASES: &str = "SELECT l.conversation_id, l.turn_id, l.user_id, l.owner, l.epoch, \
    (extract(epoch FROM l.until - clock_timestamp()) * 1000)::bigint AS left_ms, \
    t.kind, t.status, t.attempts, t.started_at \
    FROM leases l LEFT JOIN turns t ON t.turn_id = l.turn_id \
    WHERE l.until > '-infinity' AND ($1::text IS NULL OR l.user_id = $1) \
    AND ($2::uuid IS NULL OR l.conversation_id = $2) ORDER BY t.started_at, l.conversation_id LIMIT $3";
const CARDS: &str = "SELECT count(*) AS open, min(c.created_at) AS oldest FROM confirmations c \
    JOIN agent_conversations a ON a.id = c.conversation_id \
    WHERE c.status = 'open' AND ($1::text IS NULL OR a.user_id = $1) \
    AND ($2::uuid IS NULL OR c.conversation_id = $2)";
const DATABASE: &str = "SELECT current_setting('server_version') AS version, \
    current_setting('server_version_num')::integer AS version_number, \
    current_setting('max_connections')::integer - \
    current_setting('superuser_reserved_connections')::integer AS max_connections, \
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections, \
    pg_is_in_recovery() AS is_standby, clock_timestamp() AS now";

/// Which turns are meant; all of them where nothing is said.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub user: Option<UserId>,
    pub conversation: Option<ConversationId>,
}

/// A lease that was not released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRow {
    pub conversation: ConversationId,
    pub turn: TurnId,
    pub user: String,
    /// Worker name.
    pub owner: String,
    pub epoch: i64,
    /// By the database's clock; negative when it has run out.
    pub left_ms: i64,
    pub kind: Option<String>,
    pub status: Option<String>,
    pub attempt: Option<i32>,
    pub started_at: Option<OffsetDateTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cards {
    pub open: i64,
    pub oldest_at: Option<OffsetDateTime>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    pub version: String,
    /// E.g. 150004.
    pub version_number: i32,
    /// For ordinary users.
    pub max_connections: i32,
    pub connections: i64,
    /// It takes no writes.
    pub is_standby: bool,
    pub now: OffsetDateTime,
}

impl LeaseRow {
    pub fn is_live(&self) -> bool {
        self.left_ms > 0
    }

    /// How long ago it ran out.
    pub fn expired_for(&self) -> Option<Duration> {
        u64::try_from(-self.left_ms).ok().map(Duration::from_millis)
    }
}

/// The oldest turn first.
pub async fn leases(pool: &RowPool, scope: &Scope) -> Result<Vec<LeaseRow>, Error> {
    let rows = within(async {
        Ok(sqlx::query(LEASES)
            .bind(scope.user.as_ref().map(UserId::as_str))
            .bind(scope.conversation.map(|id| id.0))
            .bind(ROWS)
            .fetch_all(pool)
            .await?)
    });
    rows.await?.iter().map(lease).collect()
}

pub async fn cards(pool: &RowPool, scope: &Scope) -> Result<Cards, Error> {
    let row = within(async {
        Ok(sqlx::query(CARDS)
            .bind(scope.user.as_ref().map(UserId::as_str))
            .bind(scope.conversation.map(|id| id.0))
            .fetch_one(pool)
            .await?)
    });
    let row = row.await?;
    Ok(Cards { open: row.try_get("open")?, oldest_at: row.try_get("oldest")? })
}

pub async fn database(pool: &RowPool) -> Result<Database, Error> {
    let row = within(async { Ok(sqlx::query(DATABASE).fetch_one(pool).await?) }).await?;
    Ok(Database {
        version: row.try_get("version")?,
        version_number: row.try_get("version_number")?,
        max_connections: row.try_get("max_connections")?,
        connections: row.try_get("connections")?,
        is_standby: row.try_get("is_standby")?,
        now: row.try_get("now")?,
    })
}

fn lease(row: &PgRow) -> Result<LeaseRow, Error> {
    Ok(LeaseRow {
        conversation: ConversationId(row.try_get("conversation_id")?),
        turn: TurnId(row.try_get("turn_id")?),
        user: row.try_get("user_id")?,
        owner: row.try_get("owner")?,
        epoch: row.try_get("epoch")?,
        left_ms: row.try_get("left_ms")?,
        kind: row.try_get("kind")?,
        status: row.try_get("status")?,
        attempt: row.try_get("attempts")?,
        started_at: row.try_get("started_at")?,
    })
}
