//! `confirmations`: cards and their decisions. At most one is open per conversation.
use std::collections::HashMap;

use contract::event::{CardCall, Resolution};
use contract::ids::{ConfirmationId, ConversationId, TurnId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::store::pool::{HotPool, RowPool, hot_row, within};
use crate::store::{CommitError, Error, sanitize};

const DECIDE: &str = "SELECT outcome, card FROM agent_decide($1, $2, $3, $4, $5, $6, $7, $8)";
const SUPERSEDE: &str = "SELECT outcome, card FROM agent_supersede($1, $2, $3, $4, $5)";
const OPEN: &str =
    "SELECT agent_card(c) FROM confirmations c WHERE c.conversation_id = $1 AND c.status = 'open'";

/// Opened by `turns::commit`.
#[derive(Clone, Debug)]
pub struct NewCard {
    pub id: ConfirmationId,
    pub prompt: String,
    pub calls: Vec<CardCall>,
    /// Of all calls and arguments.
    pub digest: String,
    pub expires_at: OffsetDateTime,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OpenCard {
    pub id: ConfirmationId,
    /// The turn that asked.
    pub turn_id: TurnId,
    pub prompt: String,
    pub calls: Vec<CardCall>,
    pub digest: String,
    /// Decided so far, in the order of `calls`.
    pub decided: Vec<CallVerdict>,
    pub created_at: OffsetDateTime,
    pub expires_at: OffsetDateTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Confirm,
    Deny,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallVerdict {
    pub tool_call_id: String,
    pub verdict: Verdict,
    pub reason: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Decide<'a> {
    pub conversation: ConversationId,
    /// The turn that decides.
    pub turn: TurnId,
    pub epoch: i64,
    pub user: &'a UserId,
    /// One call of the card; all undecided ones without it.
    pub call: Option<&'a str>,
    pub verdict: Verdict,
    pub reason: Option<&'a str>,
    pub now: OffsetDateTime,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The decision counts; also what a redelivery of the deciding turn gets again.
    Recorded {
        card: OpenCard,
        /// All verdicts in the order of the card's calls, once none is missing.
        complete: Option<Vec<CallVerdict>>,
    },
    /// Another turn was first.
    AlreadyResolved(Resolved),
    /// Too late, or cleared by archiving.
    Expired,
    /// There never was a card (or never one with that call).
    NonePending,
}

/// A closed card, or a decided call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub confirmation_id: ConfirmationId,
    pub result: Resolution,
    pub reason: Option<String>,
    pub tool_call_ids: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Supersede<'a> {
    pub conversation: ConversationId,
    pub turn: TurnId,
    pub epoch: i64,
    pub user: &'a UserId,
    pub now: OffsetDateTime,
}

/// One compare-and-set on the open card. Fenced.
pub async fn decide(pool: &HotPool, decide: &Decide<'_>) -> Result<Decision, CommitError> {
    let verdict = match decide.verdict {
        Verdict::Confirm => "confirm",
        Verdict::Deny => "deny",
    };
    let (call, reason) = (decide.call.map(sanitize::text), decide.reason.map(sanitize::text));
    let (conversation, turn, user) = (decide.conversation.0, decide.turn.0, decide.user.as_str());
    let row = hot_row(
        pool,
        DECIDE,
        &[&conversation, &turn, &decide.epoch, &user, &call, &verdict, &reason, &decide.now],
    )
    .await?;
    let card: Option<Value> = row.try_get("card")?;
    let card = card.map(StoredCard::read).transpose()?;
    match (row.try_get("outcome")?, card) {
        ("recorded", Some(card)) => {
            let complete = card.complete();
            Ok(Decision::Recorded { card: card.into_card(), complete })
        }
        ("resolved", Some(card)) => Ok(Decision::AlreadyResolved(card.resolved(call.as_deref())?)),
        ("expired", _) => Ok(Decision::Expired),
        ("none", _) => Ok(Decision::NonePending),
        ("fenced", _) => Err(CommitError::Fenced),
        _ => Err(Error::Corrupt { what: "confirmation" }.into()),
    }
}

/// Closes the open card since a plain message came; the card, if there was one. A redelivery of the
/// same turn gets it again. Fenced.
pub async fn supersede(
    pool: &HotPool,
    supersede: &Supersede<'_>,
) -> Result<Option<OpenCard>, CommitError> {
    let (conversation, turn, user) =
        (supersede.conversation.0, supersede.turn.0, supersede.user.as_str());
    let row =
        hot_row(pool, SUPERSEDE, &[&conversation, &turn, &supersede.epoch, &user, &supersede.now])
            .await?;
    match row.try_get("outcome")? {
        "superseded" => Ok(read_open(row.try_get("card")?)?),
        "none" => Ok(None),
        "fenced" => Err(CommitError::Fenced),
        _ => Err(Error::Corrupt { what: "confirmation" }.into()),
    }
}

/// As it is stored: it may be past its `expires_at`.
pub async fn open_card(
    pool: &RowPool,
    conversation: ConversationId,
) -> Result<Option<OpenCard>, Error> {
    let card = within(async {
        Ok(sqlx::query_scalar::<_, Value>(OPEN).bind(conversation.0).fetch_optional(pool).await?)
    });
    read_open(card.await?)
}

pub(super) fn read_open(card: Option<Value>) -> Result<Option<OpenCard>, Error> {
    Ok(card.map(StoredCard::read).transpose()?.map(StoredCard::into_card))
}

/// As `agent_commit_turn` takes it.
pub(super) fn document(card: &NewCard) -> Result<Value, Error> {
    let unwritable = Error::Corrupt { what: "expiry of a confirmation" };
    let expires_at = card.expires_at.format(&Rfc3339).map_err(|_| unwritable)?;
    let document = json!({
        "id": card.id, "prompt": card.prompt, "calls": card.calls, "digest": card.digest, "expires_at": expires_at,
    });
    Ok(sanitize::json(&document).into_owned())
}

/// What `agent_card` gives.
#[derive(Deserialize)]
struct StoredCard {
    id: ConfirmationId,
    turn_id: TurnId,
    prompt: String,
    calls: Vec<CardCall>,
    digest: String,
    status: Status,
    decisions: HashMap<String, StoredVerdict>,
    reason: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    expires_at: OffsetDateTime,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Open,
    Confirmed,
    Denied,
    Mixed,
    Expired,
    Cancelled,
    Superseded,
}

#[derive(Deserialize)]
struct StoredVerdict {
    verdict: Verdict,
    reason: Option<String>,
}

impl StoredCard {
    fn read(card: Value) -> Result<Self, Error> {
        serde_json::from_value(card).map_err(|_| Error::Corrupt { what: "confirmation" })
    }

    fn decided(&self) -> Vec<CallVerdict> {
        let verdict = |call: &CardCall| {
            let stored = self.decisions.get(&call.tool_call_id)?;
            let tool_call_id = call.tool_call_id.clone();
            Some(CallVerdict {
                tool_call_id,
                verdict: stored.verdict,
                reason: stored.reason.clone(),
            })
        };
        self.calls.iter().filter_map(verdict).collect()
    }

    fn complete(&self) -> Option<Vec<CallVerdict>> {
        let decided = self.decided();
        (decided.len() == self.calls.len()).then_some(decided)
    }

    fn into_card(self) -> OpenCard {
        let decided = self.decided();
        let Self { id, turn_id, prompt, calls, digest, created_at, expires_at, .. } = self;
        OpenCard { id, turn_id, prompt, calls, digest, decided, created_at, expires_at }
    }

    /// The recorded outcome of the card, or of one call of a card that is still open.
    fn resolved(&self, call: Option<&str>) -> Result<Resolved, Error> {
        let confirmation_id = self.id;
        let one = call.and_then(|id| Some((id, self.decisions.get(id)?)));
        if let Some((id, stored)) = one {
            let result = match stored.verdict {
                Verdict::Confirm => Resolution::Confirmed,
                Verdict::Deny => Resolution::Denied,
            };
            let (reason, tool_call_ids) = (stored.reason.clone(), vec![id.to_owned()]);
            return Ok(Resolved { confirmation_id, result, reason, tool_call_ids });
        }
        let result = match self.status {
            Status::Confirmed => Resolution::Confirmed,
            Status::Denied | Status::Superseded => Resolution::Denied,
            Status::Mixed => Resolution::Mixed,
            Status::Expired => Resolution::Expired,
            Status::Cancelled => Resolution::Cancelled,
            Status::Open => return Err(Error::Corrupt { what: "confirmation" }),
        };
        let tool_call_ids = self.calls.iter().map(|call| call.tool_call_id.clone()).collect();
        Ok(Resolved { confirmation_id, result, reason: self.reason.clone(), tool_call_ids })
    }
}
