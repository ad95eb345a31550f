//! Decisions that come late, twice, from somebody else, or after something changed.
use std::time::Duration;

use tests::cluster::Cluster;
use tests::gradio::Client;
use tests::token;

use crate::approval::card;

#[tokio::test(flavor = "multi_thread")]
async fn a_late_confirm_finds_the_card_expired() {
    let cluster = Cluster::builder().worker_env("CONFIRMATION_TTL_S", "1").start().await;
    let mut alice = cluster.client("alice");
    card(&cluster, &mut alice, "c1").await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let late = alice.act("c1", "confirm", "").await;
    assert_eq!(late.error_code(), Some("CHECKPOINT_EXPIRED"), "{:#?}", late.values);
    assert_eq!(cluster.backend.effects().len(), 0);
    let next = alice.say("c1", "something else").await;
    assert_eq!(next.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_decision_gets_the_recorded_outcome() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    card(&cluster, &mut alice, "c1").await;
    alice.act("c1", "deny", "").await;
    for action in ["confirm", "deny"] {
        let again = alice.act("c1", action, "").await;
        assert_eq!(again.error_code(), Some("ALREADY_RESOLVED"), "{:#?}", again.values);
        assert!(again.one("error").to_string().contains("denied"), "{}", again.one("error"));
    }
    assert_eq!(cluster.backend.effects().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirm_without_any_card_is_a_clear_error() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    assert_eq!(alice.act("c1", "confirm", "").await.error_code(), Some("NO_PENDING_CONFIRMATION"));
    alice.say("c1", "hello").await;
    assert_eq!(alice.act("c1", "deny", "").await.error_code(), Some("NO_PENDING_CONFIRMATION"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirm_of_a_call_that_is_not_on_the_card_does_nothing() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    card(&cluster, &mut alice, "c1").await;
    let turn = alice.act("c1", "confirm:call_of_nobody", "").await;
    assert!(turn.error_code().is_some(), "{:#?}", turn.values);
    assert_eq!(cluster.backend.effects().len(), 0);
    assert_eq!(alice.act("c1", "confirm", "").await.text(), "Deployed.");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_cannot_decide() {
    let cluster = Cluster::start().await;
    let id = uuid::Uuid::new_v4().to_string();
    let mut alice = cluster.client("alice");
    card(&cluster, &mut alice, &id).await;
    let mut mallory = cluster.client("mallory");
    for action in ["confirm", "deny", "attach", "resume"] {
        let turn = mallory.act(&id, action, "").await;
        assert_eq!(turn.error_code(), Some("NOT_FOUND"), "{action}: {:#?}", turn.values);
    }
    assert_eq!(mallory.say(&id, "hello").await.error_code(), Some("NOT_FOUND"));
    assert_eq!(cluster.backend.effects().len(), 0);
    assert_eq!(alice.act(&id, "confirm", "").await.text(), "Deployed.");
    assert_eq!(cluster.backend.effects().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_name_is_another_conversation_for_another_user() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    card(&cluster, &mut alice, "c1").await;
    let turn = cluster.client("mallory").act("c1", "confirm", "").await;
    assert_eq!(turn.error_code(), Some("NO_PENDING_CONFIRMATION"));
    assert_eq!(cluster.backend.effects().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_withdrawn_before_the_yes_counts() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    card(&cluster, &mut alice, "c1").await;
    cluster.backend.revoke("alice", "deploy");
    let turn = alice.act("c1", "confirm", "").await;
    assert_eq!(turn.one("tool_error")["code"], "FORBIDDEN", "{:#?}", turn.values);
    assert_eq!(cluster.backend.effects().len(), 0);
    assert_eq!(cluster.backend.refused().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirm_works_from_another_gateway_after_the_first_worker_is_gone() {
    let mut cluster = Cluster::builder().gateways(2).start().await;
    let mut alice = cluster.client_at(0, "alice");
    let asked = card(&cluster, &mut alice, "c1").await;
    cluster.kill_worker(0);
    cluster.add_worker().await;
    let gate =
        tests::rest::Rest::new(&cluster.gateway_url(1), &token::user("alice")).active("c1").await;
    assert_eq!(
        gate["confirmation"]["confirmation_id"],
        asked.card().unwrap()["confirmation_id"],
        "{gate}"
    );
    let done = cluster.client_at(1, "alice").act("c1", "confirm", "").await;
    assert_eq!(done.text(), "Deployed.", "{:#?}", done.values);
    assert_eq!(cluster.backend.effects().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_decision_brings_its_own_token() {
    let cluster = Cluster::start().await;
    let mut early = Client::new(&cluster.url(), &token::user_for("alice", Duration::from_secs(2)));
    card(&cluster, &mut early, "c1").await;
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let done = cluster.client("alice").act("c1", "confirm", "").await;
    assert_eq!(done.text(), "Deployed.", "{:#?}", done.values);
}

#[tokio::test(flavor = "multi_thread")]
async fn archiving_closes_the_card() {
    let cluster = Cluster::start().await;
    let mut alice = cluster.client("alice");
    card(&cluster, &mut alice, "c1").await;
    let rest = cluster.rest("alice");
    let (status, answer) = rest.delete("/api/assistant/conversations/c1").await;
    assert!(status < 300, "{status} {answer}");
    let turn = alice.act("c1", "confirm", "").await;
    let code = turn.error_code();
    assert!(matches!(code, Some("CHECKPOINT_EXPIRED" | "NOT_FOUND")), "{:#?}", turn.values);
    assert_eq!(cluster.backend.effects().len(), 0);
    let database = cluster.database.pool().await;
    for table in ["checkpoints", "checkpoint_writes"] {
        let statement = format!("SELECT count(*) FROM {table}");
        let left: i64 =
            sqlx::query_scalar(sqlx::AssertSqlSafe(statement)).fetch_one(&database).await.unwrap();
        assert_eq!(left, 0, "{table}");
    }
}
