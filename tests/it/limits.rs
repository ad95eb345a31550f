//! Numbers of the specification, as a user meets them.
use std::time::Duration;

use contract::ids::{ConversationId, SessionToken, TurnId, UserId};
use contract::subject;
use serde_json::json;
use tests::cluster::Cluster;
use tests::gradio::Submission;
use tests::llm::reply::Reply;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_200_000_characters_is_cut_and_the_user_is_told() {
    let cluster = Cluster::start().await;
    let turn = cluster.client("alice").say("c1", &"Длинное слово. ".repeat(13_400)).await;
    let codes: Vec<&str> = turn.all("warning").iter().filter_map(|w| w["code"].as_str()).collect();
    assert!(codes.contains(&"MESSAGE_TRUNCATED"), "{codes:?}");
    assert_eq!(turn.text(), "Done.");
    let stored = cluster.rest("alice").history("c1").await;
    let content = stored[0]["content"].as_str().unwrap();
    assert!(content.chars().count() <= 100_000, "{}", content.chars().count());
    assert!(content.ends_with("[...truncated]"), "{}", &content[content.len() - 60..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_message_while_one_is_answered_is_refused_with_the_live_turn() {
    let cluster = Cluster::builder().gateways(2).workers(2).start().await;
    cluster.model.on("hello", [Reply::text("a b c d e f g h").every_ms(150)]);
    let mut alice = cluster.client("alice");
    let event = alice.submit(Submission::new("hello", Some("c1"), None)).await;
    alice.until(&event, "stream_token").await;
    let mut tab = alice.another_tab();
    let second = tab.say("c1", "and this?").await;
    assert_eq!(second.error_code(), Some("CONVERSATION_BUSY"));
    assert!(second.one("error").to_string().contains(&event), "{}", second.one("error"));
    assert_eq!(alice.finish(&event).await.text(), "a b c d e f g h");
    assert_eq!(cluster.model.requests().len(), 1);
    assert_eq!(tab.say("c1", "and now?").await.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_waits_for_the_job_of_a_turn_that_has_ended() {
    let mut cluster = Cluster::builder().workers(0).start().await;
    cluster.expect_jobs_left();
    let alice = UserId::try_from("alice".to_owned()).unwrap();
    let conversation = ConversationId::from_reference(&alice, "c1").unwrap();
    let session = SessionToken::try_from("s1".to_owned()).unwrap();
    let turn = TurnId(uuid::Uuid::now_v7());
    let context = async_nats::jetstream::new(cluster.nats.client().await);
    let publish = async |subject: String, id: String, body: serde_json::Value| {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert(subject::HEADER_MESSAGE_ID, id);
        let sent = context.publish_with_headers(subject, headers, body.to_string().into());
        sent.await.unwrap().await.unwrap();
    };
    publish(subject::job(conversation), turn.to_string(), json!({"user_id": "alice"})).await;
    let end = json!({"v": 1, "turn_id": turn, "attempt": 1, "n": 1, "type": "turn_end",
        "data": {"status": "completed"}, "ts": "2026-11-30T12:00:00Z"});
    publish(subject::event(conversation, &session, turn), "end".to_owned(), end).await;

    let mut client = cluster.client("alice");
    let event = client.submit(Submission::new("hello", Some("c1"), None)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let jobs = context.get_stream(subject::STREAM_JOBS).await.unwrap();
    jobs.purge().filter(subject::job(conversation)).await.unwrap();
    let accepted = || async {
        let job = jobs.get_last_raw_message_by_subject(&subject::job(conversation)).await;
        job.is_ok_and(|job| String::from_utf8_lossy(&job.payload).contains(&event))
    };
    tests::process::wait_until("the job", Duration::from_secs(2), accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_only_so_many_live_turns() {
    let cluster = Cluster::start().await;
    for _ in 0..4 {
        cluster.model.on("hello", [Reply::text("a b c d e f g h").every_ms(200)]);
    }
    let mut alice = cluster.client("alice");
    let mut events = Vec::new();
    for number in 0..4 {
        let event = alice.submit(Submission::new("hello", Some(&format!("c{number}")), None)).await;
        alice.until(&event, "stream_token").await;
        events.push(event);
    }
    let fifth = alice.say("c5", "one more").await;
    assert_eq!(fifth.error_code(), Some("USER_BUSY"), "{:#?}", fifth.values);
    assert_eq!(cluster.client("carol").say("c1", "and me?").await.text(), "Done.");
    for event in events {
        assert_eq!(alice.finish(&event).await.text(), "a b c d e f g h");
    }
    assert_eq!(alice.say("c5", "one more").await.text(), "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_call_three_times_in_a_row_ends_the_turn() {
    let cluster = Cluster::start().await;
    let same = || Reply::call("get_dashboard", json!({"dashboard_id": "42"}));
    cluster.model.on("dashboard", (0..10).map(|_| same()));
    let turn = cluster.client("alice").say("c1", "show dashboard 42").await;
    assert_eq!(turn.error_code(), Some("LOOP_DETECTED"), "{:#?}", turn.values);
    assert!(cluster.backend.calls().len() <= 3, "{}", cluster.backend.calls().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_has_at_most_sixteen_steps() {
    let cluster = Cluster::start().await;
    let step =
        |number: u32| Reply::call("get_dashboard", json!({"dashboard_id": number.to_string()}));
    cluster.model.on("dashboard", (0..40).map(step));
    let turn = cluster.client("alice").say("c1", "show every dashboard").await;
    assert_eq!(turn.error_code(), Some("LOOP_DETECTED"), "{:?}", turn.types());
    assert!(cluster.model.requests().len() <= 17, "{}", cluster.model.requests().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_arrives_whole() {
    let cluster = Cluster::start().await;
    let long = "строка текста ".repeat(20_000);
    let pieces = long.chars().collect::<Vec<_>>();
    let mut reply = Reply::text("");
    for piece in pieces.chunks(2_000) {
        reply = reply.and_delta(json!({"content": piece.iter().collect::<String>()}));
    }
    cluster.model.on("hello", [reply]);
    let turn = cluster.client("alice").say("c1", "hello").await;
    assert_eq!(turn.tokens().len(), long.len());
    assert_eq!(turn.text().len(), long.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_model_is_given_up() {
    let cluster = Cluster::builder()
        .worker_env("LLM_FIRST_TOKEN_TIMEOUT_S", "1")
        .worker_env("LLM_IDLE_TIMEOUT_S", "1")
        .start()
        .await;
    cluster.model.on("hello", (0..10).map(|_| Reply::text("I was about to").then_hang()));
    let started = std::time::Instant::now();
    let turn = cluster.client("alice").say("c1", "hello").await;
    assert_eq!(turn.error_code(), Some("LLM_UNAVAILABLE"), "{:#?}", turn.values);
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}
