//! A migrated database with both pools, and short words for what most tests do.
use std::time::Duration;

use contract::event::{CardCall, TurnStatus};
use contract::ids::{ConfirmationId, ConversationId, TurnId, UserId};
use contract::job::JobKind;
use secrecy::SecretString;
use serde_json::{Value, json};
use shared::store::CommitError;
use shared::store::confirmations::{Decide, NewCard, Verdict};
use shared::store::conversations::{Conversation, Filter, Scope};
use shared::store::messages::Finish;
use shared::store::paging::Paging;
use shared::store::pool::{self, Config, HotPool, RowPool};
use shared::store::turns::{self, AssistantRow, BeginTurn, Begun, Commit, RunChange, Started};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::server::SERVER;

pub struct World {
    pub rows: RowPool,
    pub hot: HotPool,
    pub user: UserId,
}

/// A turn that has begun.
#[derive(Clone, Copy)]
pub struct Live {
    pub conversation: ConversationId,
    pub turn: TurnId,
    pub epoch: i64,
}

impl World {
    pub async fn new() -> Self {
        shared::runtime::tls::install_provider();
        let config = config(SERVER.database().await);
        let (rows, hot) = (pool::rows(&config).unwrap(), pool::hot(&config).unwrap());
        Self { rows, hot, user: user("anna") }
    }

    /// Begins a new turn with a message of the world's user.
    pub async fn begin(&self, conversation: ConversationId, text: &str) -> Begun {
        self.begin_as(&self.message(conversation, turn_id(), text)).await
    }

    pub async fn begin_as(&self, begin: &BeginTurn<'_>) -> Begun {
        turns::begin(&self.hot, begin).await.unwrap()
    }

    pub fn message<'a>(
        &'a self,
        conversation: ConversationId,
        turn: TurnId,
        text: &'a str,
    ) -> BeginTurn<'a> {
        BeginTurn {
            turn,
            conversation,
            reference: None,
            user: &self.user,
            kind: &JobKind::Message,
            text,
            files: &[],
            title: text,
            owner: "worker-1",
            lease_ttl: Duration::from_secs(15),
            max_attempts: 3,
            turns_per_user: 4,
            now: now(),
        }
    }

    /// A turn in a new conversation.
    pub async fn live(&self, text: &str) -> Live {
        self.live_in(conversation_id(), text).await
    }

    pub async fn live_in(&self, conversation: ConversationId, text: &str) -> Live {
        let turn = turn_id();
        let epoch = started(self.begin_as(&self.message(conversation, turn, text)).await).epoch;
        Live { conversation, turn, epoch }
    }

    /// A turn from its message to its answer.
    pub async fn talk(&self, conversation: ConversationId, question: &str, answer: &str) -> Live {
        let live = self.live_in(conversation, question).await;
        self.end(&live, answer).await;
        live
    }

    pub async fn end(&self, live: &Live, answer: &str) {
        let commit = Commit {
            run: RunChange::Clear,
            assistant: Some(answer_row(answer)),
            finish: Some((TurnStatus::Completed, json!([]))),
            release_lease: true,
            ..commit(live)
        };
        self.commit(commit).await.unwrap();
    }

    /// A turn that ended with an open card for these calls.
    pub async fn paused(&self, conversation: ConversationId, calls: &[&str]) -> Live {
        let live = self.live_in(conversation, "deploy it").await;
        let commit = Commit {
            run: RunChange::Save(json!({"waits": true})),
            assistant: Some(AssistantRow { finish: Finish::Interrupted, ..answer_row("May I?") }),
            card: Some(card(calls)),
            finish: Some((TurnStatus::Interrupted, json!([]))),
            release_lease: true,
            ..commit(&live)
        };
        self.commit(commit).await.unwrap();
        live
    }

    /// A turn that came to decide.
    pub async fn deciding(&self, conversation: ConversationId) -> Live {
        let (turn, kind) = (turn_id(), JobKind::Confirm { tool_call_id: None });
        let begin = BeginTurn { kind: &kind, ..self.message(conversation, turn, "confirm") };
        let epoch = started(self.begin_as(&begin).await).epoch;
        Live { conversation, turn, epoch }
    }

    pub fn decide(&self, live: &Live, verdict: Verdict) -> Decide<'_> {
        let Live { conversation, turn, epoch } = *live;
        Decide {
            conversation,
            turn,
            epoch,
            user: &self.user,
            call: None,
            verdict,
            reason: None,
            now: now(),
        }
    }

    pub async fn commit(&self, commit: Commit) -> Result<(), CommitError> {
        turns::commit(&self.hot, &commit).await
    }

    /// Lets the lease run out.
    pub async fn expire(&self, conversation: ConversationId) {
        sqlx::query(
            "UPDATE leases SET until = now() - interval '1 second' WHERE conversation_id = $1",
        )
        .bind(conversation.0)
        .execute(&self.rows)
        .await
        .unwrap();
    }

    pub async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.rows).await.unwrap()
    }

    pub async fn get(&self, conversation: ConversationId) -> Conversation {
        let found =
            shared::store::conversations::get(&self.rows, &self.user, conversation).await.unwrap();
        found.unwrap()
    }

    pub fn filter(&self) -> Filter<'_> {
        let paging = Paging::Keyset { after: None, limit: 50 };
        Filter { user: &self.user, scope: Scope::Active, search: None, paging }
    }
}

pub fn config(url: SecretString) -> Config {
    Config {
        url,
        max_connections: 16,
        application_name: "test".to_owned(),
        acquire_timeout: Duration::from_secs(20),
    }
}

#[track_caller]
pub fn started(begun: Begun) -> Started {
    let shown = format!("{begun:?}");
    let Begun::Started(started) = begun else { panic!("not started: {shown}") };
    *started
}

#[track_caller]
pub fn assert_fenced<T: std::fmt::Debug>(result: Result<T, CommitError>) {
    assert!(matches!(result, Err(CommitError::Fenced)), "not fenced: {result:?}");
}

/// Changes nothing; tests add what they are about.
pub fn commit(live: &Live) -> Commit {
    Commit {
        conversation: live.conversation,
        turn: live.turn,
        epoch: live.epoch,
        cursor: 0,
        run: RunChange::Keep,
        assistant: None,
        append_parts: None,
        card: None,
        finish: None,
        audit: Vec::new(),
        release_lease: false,
        now: now(),
    }
}

pub fn answer_row(text: &str) -> AssistantRow {
    AssistantRow { text: text.to_owned(), parts: json!([]), finish: Finish::Completed }
}

pub fn card(calls: &[&str]) -> NewCard {
    NewCard {
        id: ConfirmationId(Uuid::now_v7()),
        prompt: "Deploy?".to_owned(),
        calls: calls.iter().map(|id| call(id, json!({"env": "prod"}))).collect(),
        digest: "d".to_owned(),
        expires_at: now() + Duration::from_secs(900),
    }
}

pub fn call(id: &str, input: Value) -> CardCall {
    CardCall {
        tool_call_id: id.to_owned(),
        tool: "deploy_dashboard".to_owned(),
        input,
        prompt: "Deploy?".to_owned(),
    }
}

pub fn user(name: &str) -> UserId {
    UserId::try_from(name.to_owned()).unwrap()
}

pub fn conversation_id() -> ConversationId {
    ConversationId(Uuid::now_v7())
}

pub fn turn_id() -> TurnId {
    TurnId(Uuid::now_v7())
}

/// Postgres keeps microseconds.
pub fn now() -> OffsetDateTime {
    let now = OffsetDateTime::now_utc();
    now.replace_nanosecond(now.microsecond() * 1_000).unwrap()
}
