//! `leases`: who runs a conversation. `turns::begin` takes one; its epoch is the fence of every write.
//!
//! A lease lives by the database's clock. `-infinity` marks a released one, which a late renewal can't bring back.
use std::time::Duration;

use contract::ids::ConversationId;

use crate::store::Error;
use crate::store::pool::{HotPool, hot_rows};

const RENEW: &str = "UPDATE leases SET until = clock_timestamp() + $3::bigint * interval '1 millisecond' \
    WHERE conversation_id = $1 AND epoch = $2 AND until > '-infinity' RETURNING epoch";
const RELEASE: &str = "UPDATE leases SET until = '-infinity' WHERE conversation_id = $1 AND epoch = $2 RETURNING epoch";

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

/// Gives the conversation free at once; nothing happens if the lease is no longer ours.
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
