//! `agentctl leases`: who holds which conversation, and until when.
use anyhow::Context as _;
use contract::ids::{ConversationId, TurnId};
use serde::Serialize;
use shared::runtime::env::Env;
use shared::store::overview::{self, LeaseRow, Scope};

use crate::turns::lease_text;
use crate::view::{self, Format, View};
use crate::{Failure, Outcome, config, fleet};

pub async fn show(env: Env, format: Format) -> Result<Outcome, Failure> {
    let database = config::database(&env);
    env.finish()?;
    let rows = fleet::database(&database).await?;
    let leases = overview::leases(&rows, &Scope::default()).await.context("reading the leases")?;
    view::print(&Leases { leases: leases.into_iter().map(Lease::from).collect() }, format);
    Ok(Outcome::Fine)
}

#[derive(Debug, Serialize)]
struct Leases {
    leases: Vec<Lease>,
}

#[derive(Debug, Serialize)]
struct Lease {
    conversation_id: ConversationId,
    turn_id: TurnId,
    owner: String,
    epoch: i64,
    /// Negative when it has run out.
    left_ms: i64,
    /// Run out, and nobody has taken it over.
    stale: bool,
}

impl From<LeaseRow> for Lease {
    fn from(row: LeaseRow) -> Self {
        Self {
            conversation_id: row.conversation,
            turn_id: row.turn,
            stale: !row.is_live(),
            owner: row.owner,
            epoch: row.epoch,
            left_ms: row.left_ms,
        }
    }
}

impl View for Leases {
    fn text(&self) -> String {
        if self.leases.is_empty() {
            return "no leases\n".to_owned();
        }
        let rows: Vec<_> = self
            .leases
            .iter()
            .map(|lease| {
                [
                    lease.conversation_id.to_string(),
                    lease.turn_id.to_string(),
                    lease.owner.clone(),
                    lease.epoch.to_string(),
                    lease_text(lease.left_ms),
                    if lease.stale { "stale".to_owned() } else { String::new() },
                ]
            })
            .collect();
        view::table(["CONVERSATION", "TURN", "OWNER", "EPOCH", "UNTIL", ""], &rows)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn stale_leases_are_marked() {
        let lease = |left_ms: i64| Lease {
            conversation_id: "5f0c7d1e-6a55-4d0b-9f43-3d2a5b9c1e77".parse().unwrap(),
            turn_id: "0199c1a2-0001-7000-8000-000000000001".parse().unwrap(),
            owner: "worker-1".to_owned(),
            epoch: 1_796_068_987_250_000,
            left_ms,
            stale: left_ms <= 0,
        };
        let leases = Leases { leases: vec![lease(12_400), lease(-95_000)] };
        expect![[r#"
            CONVERSATION                          TURN                                  OWNER     EPOCH             UNTIL
            5f0c7d1e-6a55-4d0b-9f43-3d2a5b9c1e77  0199c1a2-0001-7000-8000-000000000001  worker-1  1796068987250000  12s
            5f0c7d1e-6a55-4d0b-9f43-3d2a5b9c1e77  0199c1a2-0001-7000-8000-000000000001  worker-1  1796068987250000  expired 1m35s ago  stale
        "#]].assert_eq(&leases.text());
    }
}
