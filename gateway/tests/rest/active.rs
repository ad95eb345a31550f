//! The multi-tab gate, the open card, and archiving under a live turn.
use std::time::Duration;

use contract::event::{CardCall, Envelope, Event, Queued, TurnStatus};
use contract::ids::{ConfirmationId, ConversationId, SessionToken, TurnId, UserId};
use contract::job::{Job, JobKind, Locale};
use serde_json::{Value, json};
use shared::bus::control::CancelWatch;
use shared::bus::{events, jobs};
use shared::runtime::clock;
use shared::runtime::trace::Trace;
use shared::store::confirmations::NewCard;
use shared::store::pool::HotPool;
use shared::store::turns::{self, BeginTurn, Begun, Commit, RunChange};
use uuid::Uuid;

use crate::stand::Stand;

#[tokio::test]
async fn a_queued_turn_is_active_before_any_worker_saw_it() {
    let stand = Stand::start().await;
    let id = stand.conversation("anna").await;
    let path = format!("/api/agent/conversations/{id}/active");
    let idle = json!({
        "active": false, "turn_id": null, "started_at": null, "cursor": null, "confirmation": null
    });
    assert_eq!(stand.get("anna", &path).await, (200, idle));

    let job = job("anna", id.parse().unwrap());
    let seq = submit(&stand, &job).await;
    let live = json!({
        "active": true, "turn_id": job.turn_id, "started_at": job.created_at,
        "cursor": seq.to_string(), "confirmation": null
    });
    assert_eq!(stand.get("anna", &path).await, (200, live.clone()));
    assert_eq!(stand.get("boris", &path).await.0, 404);

    // A new conversation exists as a job first.
    let new = self::job("boris", ConversationId(Uuid::now_v7()));
    submit(&stand, &new).await;
    let path = format!("/api/agent/conversations/{}/active", new.conversation_id);
    assert_eq!(stand.get("boris", &path).await.1["turn_id"], json!(new.turn_id));
    assert_eq!(stand.get("anna", &path).await.0, 404);
}

#[tokio::test]
async fn an_open_card_survives_a_reload() {
    let stand = Stand::start().await;
    let id: ConversationId = stand.conversation("anna").await.parse().unwrap();
    let job = job("anna", id);
    let hot = stand.hot();
    let epoch = begin(&hot, &job).await;
    let call = CardCall {
        tool_call_id: "call-1".to_owned(),
        tool: "deploy_dashboard".to_owned(),
        input: json!({ "dashboard_id": 42 }),
        prompt: "Deploy 42?".to_owned(),
    };
    let card = NewCard {
        id: ConfirmationId(Uuid::now_v7()),
        prompt: "Deploy 42?".to_owned(),
        calls: vec![call.clone()],
        digest: "d".to_owned(),
        expires_at: clock::now() + Duration::from_secs(900),
    };
    let mut paused = commit(&job, epoch);
    paused.card = Some(card.clone());
    paused.finish = Some((TurnStatus::Interrupted, json!([])));
    turns::commit(&hot, &paused).await.unwrap();

    let (status, view) = stand.get("anna", &format!("/api/agent/conversations/{id}/active")).await;
    assert_eq!((status, &view["active"]), (200, &json!(false)), "{view}");
    let expected = json!({
        "confirmation_id": card.id, "prompt": "Deploy 42?", "thread_id": id, "calls": [call],
        "expires_at": clock::rfc3339(card.expires_at)
    });
    assert_eq!(view["confirmation"], expected);

    assert_eq!(archive(&stand, id).await.0, 200);
    let (_, view) = stand.get("anna", &format!("/api/agent/conversations/{id}/active")).await;
    assert_eq!(view["confirmation"], Value::Null);
}

#[tokio::test]
async fn an_archive_cancels_the_live_turn_and_waits_for_its_end() {
    let stand = Stand::start().await;
    let id: ConversationId = stand.conversation("anna").await.parse().unwrap();
    let job = job("anna", id);
    submit(&stand, &job).await;
    let hot = stand.hot();
    let epoch = begin(&hot, &job).await;
    let mut watch = CancelWatch::open(&stand.app.bus, job.turn_id).await.unwrap();
    let worker = async {
        let cancel = tokio::time::timeout(Duration::from_secs(5), watch.cancelled()).await.unwrap();
        assert_eq!(cancel.by, "anna");
        let mut cancelled = commit(&job, epoch);
        cancelled.finish = Some((TurnStatus::Cancelled, json!([])));
        turns::commit(&hot, &cancelled).await
    };
    let (archived, worker) = tokio::join!(archive(&stand, id), worker);
    worker.unwrap();
    assert_eq!(archived, (200, json!({ "id": id, "is_archived": true })));
}

#[tokio::test]
async fn a_turn_that_does_not_end_is_archived_over_and_can_write_nothing() {
    let stand = Stand::start().await;
    let id: ConversationId = stand.conversation("anna").await.parse().unwrap();
    let job = job("anna", id);
    let hot = stand.hot();
    let epoch = begin(&hot, &job).await;
    assert_eq!(archive(&stand, id).await.0, 200);
    let mut late = commit(&job, epoch);
    late.run = RunChange::Save(json!({ "zombie": true }));
    assert!(turns::commit(&hot, &late).await.is_err());
}

async fn archive(stand: &Stand, id: ConversationId) -> (u16, Value) {
    stand.delete("anna", &format!("/api/assistant/conversations/{id}")).await
}

/// As a join does: the `queued` event, then the job. The event's place in the stream.
async fn submit(stand: &Stand, job: &Job) -> u64 {
    let queued = Queued {
        user_id: job.user_id.clone(),
        session_hash: "abc12345".to_owned(),
        conversation_ref: None,
        ahead: 0,
        attach: None,
        digest: None,
    };
    let envelope = Envelope {
        v: 1,
        turn_id: job.turn_id,
        attempt: 0,
        n: 0,
        event: Event::Queued(queued),
        ts: job.created_at.clone(),
    };
    let trace = Trace::root();
    let (bus, session) = (&stand.app.bus, &job.session);
    let seq = events::publish_unfenced(bus, job.conversation_id, session, &envelope, &trace).await;
    jobs::publish(bus, job, &trace).await.unwrap();
    seq.unwrap()
}

async fn begin(hot: &HotPool, job: &Job) -> i64 {
    let begin = BeginTurn {
        turn: job.turn_id,
        conversation: job.conversation_id,
        reference: None,
        user: &job.user_id,
        kind: &job.kind,
        text: &job.text,
        files: &[],
        title: "A title",
        owner: "worker-1",
        lease_ttl: Duration::from_secs(60),
        max_attempts: 3,
        turns_per_user: 4,
        now: clock::now(),
    };
    let begun = turns::begin(hot, &begin).await.unwrap();
    let Begun::Started(started) = begun else { unreachable!("{begun:?}") };
    started.epoch
}

fn commit(job: &Job, epoch: i64) -> Commit {
    Commit {
        conversation: job.conversation_id,
        turn: job.turn_id,
        epoch,
        cursor: 1,
        run: RunChange::Keep,
        assistant: None,
        append_parts: None,
        card: None,
        finish: None,
        audit: Vec::new(),
        release_lease: true,
        now: clock::now(),
    }
}

fn job(user: &str, conversation_id: ConversationId) -> Job {
    Job {
        v: 1,
        kind: JobKind::Message,
        turn_id: TurnId(Uuid::now_v7()),
        conversation_id,
        conversation_ref: None,
        session: SessionToken::try_from("session-1".to_owned()).unwrap(),
        user_id: UserId::try_from(user.to_owned()).unwrap(),
        user_token: None,
        text: "hello".to_owned(),
        files: Vec::new(),
        locale: Locale::En,
        created_at: clock::rfc3339(clock::now()),
        expires_at: clock::rfc3339(clock::now() + Duration::from_secs(3600)),
    }
}
