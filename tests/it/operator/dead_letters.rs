//! A job that killed its workers: looked at, run again once, or discarded.
use std::time::Duration;

use contract::ids::{ConversationId, UserId};
use contract::subject;
use serde_json::{Value, json};
use tests::agentctl::Agentctl;
use tests::cluster::Cluster;
use tests::gradio::Submission;
use tests::llm::reply::Reply;
use tests::process::wait_until;

const QUESTION: &str = "show dashboards";

/// Kills three workers with a turn of `conversation`, so that a fourth gives it up.
async fn poison(cluster: &mut Cluster, conversation: &str, then: &[Reply]) -> String {
    let deadly = (0..3).map(|_| Reply::text("deadly").every_ms(50).then_hang());
    cluster.model.on(QUESTION, deadly.chain(then.iter().cloned()));
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new(QUESTION, Some(conversation), None)).await;
    for attempt in 0..3 {
        cluster.model.wait("the attempt", |seen| seen.len() == attempt + 1).await;
        cluster.kill_worker(attempt);
        cluster.add_worker().await;
    }
    let turn = alice.finish(&event).await;
    assert_eq!(turn.error_code(), Some("WORKER_CRASHED"), "{:#?}", turn.values);
    event
}

async fn letters(agentctl: &Agentctl) -> Vec<Value> {
    let listed = agentctl.json(&["dead-letters", "list"]).await;
    listed["dead_letters"].as_array().unwrap().clone()
}

async fn ended(cluster: &Cluster, turn: &str) -> String {
    let pool = cluster.database.pool().await;
    let status = || async {
        let found: Option<(String, bool)> = sqlx::query_as(
            "SELECT status, finished_at IS NOT NULL FROM turns WHERE turn_id = $1::uuid",
        )
        .bind(turn)
        .fetch_optional(&pool)
        .await
        .unwrap();
        found.filter(|(_, finished)| *finished).map(|(status, _)| status)
    };
    let is_over = || async { status().await.is_some() };
    wait_until("the end of the turn", Duration::from_secs(40), is_over).await;
    status().await.unwrap()
}

async fn audit(cluster: &Cluster) -> Vec<(String, String, String)> {
    sqlx::query_as(
        "SELECT operation, user_actor, outcome FROM assistant_audit \
        WHERE service_actor = 'agentctl' ORDER BY id",
    )
    .fetch_all(&cluster.database.pool().await)
    .await
    .unwrap()
}

async fn history(cluster: &Cluster, conversation: &str) -> Vec<(String, String)> {
    let history = cluster.rest("alice").history(conversation).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    history.iter().map(|m| (text(&m["role"]), text(&m["content"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_runs_again_once() {
    let mut cluster = Cluster::start().await;
    let agentctl = cluster.agentctl();
    let search = Reply::call("search_dashboards", json!({}));
    let dead = poison(&mut cluster, "c1", &[search, Reply::text("Here.")]).await;

    let listed = letters(&agentctl).await;
    assert_eq!(listed.len(), 1, "{listed:#?}");
    assert_eq!((&listed[0]["seq"], &listed[0]["turn_id"]), (&1.into(), &dead.as_str().into()));
    assert_eq!((&listed[0]["user_id"], &listed[0]["attempts"]), (&"alice".into(), &3.into()));
    assert_eq!(listed[0]["reason"], "attempts exhausted");
    let line = agentctl.run(&["dlq"]).await.ok();
    let shown = agentctl.run(&["dlq", "show", "1"]).await.ok();
    let content = agentctl.run(&["dlq", "show", "1", "--content"]).await.ok();
    for text in [&line, &shown, &content] {
        assert!(!text.contains("user_token") && !text.contains("v1."), "{text}");
    }
    assert!(!line.contains(QUESTION) && !shown.contains(QUESTION) && content.contains(QUESTION));

    let copy = raw_letter(&cluster).await;
    let said = agentctl.json(&["dead-letters", "requeue", "1", "--as", "boris"]).await;
    let turn = said["turn_id"].as_str().unwrap().to_owned();
    assert_eq!((&said["before"], turn == dead), (&false.into(), false), "{said:#}");
    let again = agentctl.run(&["dead-letters", "requeue", "1"]).await.refused();
    assert_eq!(again, "agentctl: there is no dead letter 1");
    // Without a token it gets as far as its first tool.
    assert_eq!(ended(&cluster, &turn).await, "interrupted");
    let mut alice = cluster.client("alice");
    let attached = alice.act("c1", "attach", "").await;
    assert_eq!(attached.error_code(), Some("UNAUTHORIZED"), "{:#?}", attached.values);
    let resumed = alice.act("c1", "resume", "").await;
    assert_eq!(resumed.text(), "Here.", "{:#?}", resumed.values);
    let requests = cluster.model.requests().len();

    // As if its letter had not been deleted.
    let context = async_nats::jetstream::new(cluster.nats.client().await);
    let to = subject::dead_letter(conversation("c1"));
    context.publish(to, copy).await.unwrap().await.unwrap();
    let said = agentctl.run(&["dlq", "requeue", "2"]).await.ok();
    let before = format!("dead letter 2 was requeued before as turn {turn}; it is removed");
    assert_eq!(said.trim(), before);
    assert_eq!(letters(&agentctl).await.len(), 0);
    assert_eq!(alice.say("c1", "thanks").await.text(), "Done.");
    assert_eq!(cluster.model.requests().len(), requests + 1);

    let texts = history(&cluster, "c1").await;
    let asked = texts.iter().filter(|(_, text)| text == QUESTION).count();
    assert_eq!((asked, &texts[0].1), (1, &QUESTION.to_owned()), "{texts:#?}");
    let note =
        |who: &str, outcome: &str| ("requeue".to_owned(), who.to_owned(), outcome.to_owned());
    assert_eq!(audit(&cluster).await, [note("boris", "ok"), note("olga", "before")]);
}

fn conversation(name: &str) -> ConversationId {
    let alice = UserId::try_from("alice".to_owned()).unwrap();
    ConversationId::from_reference(&alice, name).unwrap()
}

async fn raw_letter(cluster: &Cluster) -> bytes::Bytes {
    let context = async_nats::jetstream::new(cluster.nats.client().await);
    let stream = context.get_stream(subject::STREAM_DEAD_LETTERS).await.unwrap();
    stream.get_raw_message(1).await.unwrap().payload
}

/// A letter as a worker would write it.
async fn write(cluster: &Cluster, name: &str, kind: &str) {
    let turn = uuid::Uuid::now_v7();
    let job = json!({
        "v": 1, "kind": kind, "turn_id": turn, "conversation_id": conversation(name), "conversation_ref": name,
        "session": "s1", "user_id": "alice", "text": QUESTION, "created_at": "2026-01-01T00:00:00Z",
        "expires_at": "2026-01-01T01:00:00Z",
    });
    let letter = json!({"v": 1, "reason": "attempts exhausted", "job": job});
    let context = async_nats::jetstream::new(cluster.nats.client().await);
    let to = subject::dead_letter(conversation(name));
    context.publish(to, letter.to_string().into()).await.unwrap().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_again_is_refused_and_can_be_discarded() {
    let cluster = Cluster::start().await;
    let agentctl = cluster.agentctl();
    let mut alice = cluster.client("alice");
    alice.say("archived", "hello").await;
    cluster.rest("alice").delete("/api/assistant/conversations/archived").await;
    cluster.model.on("tell me", [Reply::text("a b c").then_hang()]);
    let busy = alice.submit(Submission::new("tell me", Some("busy"), None)).await;
    alice.until(&busy, "stream_token").await;
    let cases = [
        (
            "c1",
            "confirm",
            "dead letter 1 is a `confirm`, which its user must say again; discard it",
        ),
        ("c1", "resume", "dead letter 2 is a `resume`, which its user must say again; discard it"),
        ("c1", "nonsense", "dead letter 3 can't be read as a job; discard it"),
        ("archived", "message", "the conversation is archived; discard the letter"),
        ("busy", "message", "the conversation is busy with turn "),
    ];
    for (index, (name, kind, expected)) in cases.iter().enumerate() {
        write(&cluster, name, kind).await;
        let seq = (index + 1).to_string();
        let refused = agentctl.run(&["dlq", "requeue", &seq]).await.refused();
        assert!(refused.starts_with(&format!("agentctl: {expected}")), "{refused}");
    }
    assert_eq!(letters(&agentctl).await.len(), cases.len());
    assert_eq!(audit(&cluster).await, []);

    // Once the conversation is free, nothing is in the way.
    alice.cancel(&busy).await;
    alice.finish(&busy).await;
    cluster.model.on(QUESTION, [Reply::text("Here.")]);
    let is_free = || async { agentctl.run(&["dlq", "requeue", "5"]).await.code == 0 };
    wait_until("the requeue", Duration::from_secs(20), is_free).await;
    let attached = || async { cluster.client("alice").act("busy", "attach", "").await };
    let answered = || async { attached().await.text() == "Here." };
    wait_until("the answer", Duration::from_secs(20), answered).await;

    let unsure = agentctl.run(&["dlq", "discard", "1"]).await.refused();
    assert_eq!(unsure, "agentctl: discarding is final: say --yes");
    assert_eq!(letters(&agentctl).await.len(), 4);
    for seq in ["1", "2", "3", "4"] {
        let said = agentctl.run(&["dlq", "discard", seq, "--yes"]).await.ok();
        assert_eq!(said.trim(), format!("dead letter {seq} is discarded"));
    }
    assert_eq!(letters(&agentctl).await.len(), 0);
    let gone = agentctl.run(&["dlq", "discard", "1", "--yes"]).await.refused();
    assert_eq!(gone, "agentctl: there is no dead letter 1");
    let operations: Vec<_> = audit(&cluster).await.into_iter().map(|row| row.0).collect();
    assert_eq!(operations, ["requeue", "discard", "discard", "discard", "discard"]);
    let nobody = agentctl.without("USER").run(&["dlq", "discard", "1", "--yes"]).await;
    assert_eq!(
        (nobody.code, nobody.err.as_str()),
        (64, "agentctl: USER: says not who you are: give --as NAME\n")
    );
}
