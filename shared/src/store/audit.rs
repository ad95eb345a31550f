//! `assistant_audit`: who (service and user) did what, with what outcome (FR-024). Written once, never changed.
use contract::ids::{ConversationId, TurnId, UserId};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::store::pool::{RowPool, within};
use crate::store::{Error, sanitize};

const APPEND: &str = "SELECT agent_audit($1)";

#[derive(Clone, Debug)]
pub struct AuditRow {
    pub at: OffsetDateTime,
    /// E.g. `agent`, `gateway`.
    pub service_actor: String,
    pub user_actor: UserId,
    /// Tool name, or e.g. `conversation.archive`.
    pub operation: String,
    /// E.g. `allowed`, `confirmed`, `denied`.
    pub decision: String,
    /// E.g. `ok`, an error code.
    pub outcome: String,
    pub conversation: Option<ConversationId>,
    pub turn: Option<TurnId>,
    pub tool_call_id: Option<String>,
    /// No tokens, no user text.
    pub detail: Value,
}

/// For rows outside a turn; a turn's own rows go with `turns::commit`.
pub async fn append(pool: &RowPool, rows: &[AuditRow]) -> Result<(), Error> {
    let Some(rows) = document(rows)? else { return Ok(()) };
    within(async { Ok(sqlx::query(APPEND).bind(rows).execute(pool).await?) }).await?;
    Ok(())
}

/// The rows as `agent_audit` takes them; `None` if there are none.
pub(super) fn document(rows: &[AuditRow]) -> Result<Option<Value>, Error> {
    if rows.is_empty() {
        return Ok(None);
    }
    let items: Result<Vec<Value>, Error> = rows.iter().map(item).collect();
    Ok(Some(sanitize::json(&Value::Array(items?)).into_owned()))
}

fn item(row: &AuditRow) -> Result<Value, Error> {
    let at =
        row.at.format(&Rfc3339).map_err(|_| Error::Corrupt { what: "time of an audit row" })?;
    Ok(json!({
        "at": at,
        "service_actor": row.service_actor,
        "user_actor": row.user_actor,
        "operation": row.operation,
        "decision": row.decision,
        "outcome": row.outcome,
        "conversation_id": row.conversation,
        "turn_id": row.turn,
        "tool_call_id": row.tool_call_id,
        "detail": row.detail,
    }))
}
