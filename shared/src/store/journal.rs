//! `checkpoint_writes`: the journal of side effects. Intent before the request, result before it is shown.
use contract::ids::{ConversationId, TurnId};
use serde_json::Value;

use crate::store::pool::{HotPool, hot_row};
use crate::store::{CommitError, Error, sanitize};

const BEGIN: &str = "SELECT outcome, saved_result FROM agent_journal_begin($1, $2, $3, $4, $5)";
const FINISH: &str = "SELECT agent_journal_finish($1, $2, $3, $4, $5)";
const FORGET: &str = "WITH fence AS MATERIALIZED (SELECT agent_fence($1, $2) AS held), \
    gone AS (DELETE FROM checkpoint_writes w USING fence \
    WHERE fence.held AND w.conversation_id = $1 AND w.call_id = $3 AND w.state = 'intent') \
    SELECT held FROM fence";

/// A call is known by conversation and call id, since another turn may execute what one proposed.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub conversation: ConversationId,
    /// The turn that executes.
    pub turn: TurnId,
    pub epoch: i64,
    pub call_id: &'a str,
    /// Of tool and arguments.
    pub digest: &'a str,
}

#[derive(Clone, Debug, PartialEq)]
pub enum JournalState {
    /// First time: the intent is written, make the request.
    New,
    /// An earlier attempt wrote its intent and no result: nobody knows whether the request took effect.
    Unfinished,
    /// The recorded result.
    Done(Value),
}

/// Writes the intent, or says what is known. A *finished* call of the same id with another digest is
/// another call (some models number their calls anew in every step): it is replaced.
pub async fn begin(pool: &HotPool, call: &Call<'_>) -> Result<JournalState, CommitError> {
    let (call_id, digest) = (sanitize::text(call.call_id), sanitize::text(call.digest));
    let row =
        hot_row(pool, BEGIN, &[&call.conversation.0, &call.turn.0, &call.epoch, &call_id, &digest])
            .await?;
    match row.try_get("outcome")? {
        "new" => Ok(JournalState::New),
        "unfinished" => Ok(JournalState::Unfinished),
        "done" => {
            let result: Option<Value> = row.try_get("saved_result")?;
            Ok(JournalState::Done(result.unwrap_or_default()))
        }
        "fenced" => Err(CommitError::Fenced),
        _ => Err(Error::Corrupt { what: "journal entry" }.into()),
    }
}

/// Writes the result. The first one stays.
pub async fn finish(pool: &HotPool, call: &Call<'_>, result: &Value) -> Result<(), CommitError> {
    let (call_id, digest) = (sanitize::text(call.call_id), sanitize::text(call.digest));
    let result = sanitize::json(result);
    let row =
        hot_row(pool, FINISH, &[&call.conversation.0, &call.epoch, &call_id, &digest, &*result])
            .await?;
    match row.try_get(0)? {
        "ok" => Ok(()),
        "fenced" => Err(CommitError::Fenced),
        _ => Err(Error::Corrupt { what: "journal entry" }.into()),
    }
}

/// Takes an intent back: the request was never made, or was refused before it could take effect.
pub async fn forget(pool: &HotPool, call: &Call<'_>) -> Result<(), CommitError> {
    let call_id = sanitize::text(call.call_id);
    let row = hot_row(pool, FORGET, &[&call.conversation.0, &call.epoch, &call_id]).await?;
    if row.try_get(0)? { Ok(()) } else { Err(CommitError::Fenced) }
}
