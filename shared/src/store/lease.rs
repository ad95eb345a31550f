//! `leases`: who runs a conversation. `turns::begin` takes one; its epoch is the fence of every write.
//!
//! A lease lives by the database's clock. `-infinity` marks a released one, which a late renewal can't bring back.
use std::time::Duration;

use contract::ids::{ConversationId, TurnId};

use crate::store::pool::{HotPool, hot_rows};
use crate::store::{Error, sanitize};

const RENEW: &str = "UPDATE leases SET until = clock_timestamp() + $3::bigint * interval '1 millisecond' \
    WHERE conversation_id = $1 AND epoch = $2 AND until > '-infinity' RETURNING epoch";
const RELEASE: &str = "UPDATE leases SET until = '-infinity' WHERE conversation_id = $1 AND epoch = $2 RETURNING epoch";
const GIVE_BACK: &str = "SELECT agent_give_back($1, $2)";
const GIVE_BACK_UNHEARD: &str = "SELECT agent_give_back_unheard($1, $2, $3)";
const REMAINING: &str = "SELECT ceil(extract(epoch FROM until - clock_timestamp()) * 1000)::bigint FROM leases \
    WHERE conversation_id = $1 AND until > clock_timestamp()";

/// False: the lease is lost (taken by another, or released) and its holder must stop.
pub async fn renew(
    pool: &HotPool,
    conversation: ConversationId,
    epoch: i64,
    ttl: Duration,
) -> Result<bool, Error> {
    let rows = hot_rows(pool, RENEW, &[&conversation.0, &epoch, &millis(ttl)]).await?;
    Ok(!rows.is_empty())
}

/// How long the conversation's lease lasts if nobody renews it; zero when nobody holds it.
pub async fn remaining(pool: &HotPool, conversation: ConversationId) -> Result<Duration, Error> {
    let rows = hot_rows(pool, REMAINING, &[&conversation.0]).await?;
    let Some(row) = rows.first() else { return Ok(Duration::ZERO) };
    let millis: i64 = row.try_get(0)?;
    Ok(Duration::from_millis(u64::try_from(millis).unwrap_or_default()))
}

/// Gives the conversation free at once, and the attempt does not count as one that died. Nothing happens if the
/// lease is no longer ours.
pub async fn give_back(
    pool: &HotPool,
    conversation: ConversationId,
    epoch: i64,
) -> Result<(), Error> {
    hot_rows(pool, GIVE_BACK, &[&conversation.0, &epoch]).await?;
    Ok(())
}

/// As [`give_back`], for a `turns::begin` whose answer got lost. No other attempt at the turn may be under way in
/// the process of this `owner`.
pub async fn give_back_unheard(
    pool: &HotPool,
    conversation: ConversationId,
    turn: TurnId,
    owner: &str,
) -> Result<(), Error> {
    let owner = sanitize::text(owner);
    hot_rows(pool, GIVE_BACK_UNHEARD, &[&conversation.0, &turn.0, &owner]).await?;
    Ok(())
}

/// Gives the conversation free at once; the attempt counts as one that died. Nothing happens if the lease is no
/// longer ours.
pub async fn release(
    pool: &HotPool,
    conversation: ConversationId,
    epoch: i64,
) -> Result<(), Error> {
    hot_rows(pool, RELEASE, &[&conversation.0, &epoch]).await?;
    Ok(())
}

pub(super) fn millis(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX)
}
