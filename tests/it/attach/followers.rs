//! Many tabs on one turn: they read, and nothing they do is felt by the turn or by each other.
use std::time::Duration;

use contract::subject;
use serde_json::json;
use tests::cluster::Cluster;
use tests::gradio::Submission;
use tests::gradio::raw::Kept;
use tests::llm::reply::Reply;

use super::{attach, end, follow, one, open, shown, tokens};

const ANSWER: &str = "one two three four five six seven eight nine ten eleven twelve";

#[tokio::test(flavor = "multi_thread")]
async fn ten_followers_read_and_one_that_leaves_or_cancels_stops_nothing() {
    let cluster = Cluster::builder().gateways(2).start().await;
    cluster.model.on("hello", [Reply::text(ANSWER).every_ms(150)]);
    let alice = cluster.client_at(0, "alice");
    let (mut own, event) = open(&alice, Submission::new("hello", Some("c1"), None)).await;
    let tabs = (0..10).map(|number| {
        let tab = cluster.client_at(number % 2, "alice");
        tokio::spawn(async move { shown(&tab, "c1", "attach").await })
    });
    let tabs: Vec<_> = tabs.collect();
    let leaver = cluster.client_at(1, "alice");
    open(&leaver, attach("c1", "attach")).await.0.read_frames(4).await;
    let canceller = cluster.client_at(1, "alice");
    let (mut cancelled, showing) = open(&canceller, attach("c1", "attach")).await;
    cancelled.read_frames(4).await;
    // As stock JavaScript clients do, without a token.
    let anonymous = tests::gradio::Client::new(&cluster.gateway_url(0), "");
    let body = json!({"event_id": showing, "session_hash": canceller.session(), "fn_index": 0});
    assert_eq!(anonymous.post("/gradio_api/cancel", &body).await.0, 200);
    let cancelled = Kept::of(cancelled.read_all().await, &showing);
    let (text, status) = end(&cancelled);
    assert_eq!(status, "cancelled");
    assert!(!text.is_empty() && text.len() < ANSWER.len() && ANSWER.starts_with(&text), "{text}");

    let own = Kept::of(own.read_all().await, &event);
    assert_eq!((end(&own).0.as_str(), end(&own).1.as_str()), (ANSWER, "completed"));
    for tab in tabs {
        assert_eq!(tab.await.unwrap(), own);
    }
    assert_eq!(shown(&canceller, "c1", "attach").await, own, "the last turn is still that one");
    assert_eq!(cluster.rest("alice").history("c1").await.last().unwrap()["finish"], "completed");
}

/// Who repeats a message whose answer was lost asked for the turn, and may stop it.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_message_can_be_cancelled() {
    let cluster = Cluster::builder().gateways(2).start().await;
    cluster.model.on("hello", [Reply::text(ANSWER).every_ms(200)]);
    let ask = || Submission::new("hello", Some("c1"), None).named("m-1");
    let (mut first, event) = open(&cluster.client_at(0, "alice"), ask()).await;
    first.read_frames(3).await;
    let again = cluster.client_at(1, "alice");
    let (mut repeat, shows) = open(&again, ask()).await;
    assert_ne!(shows, event);
    repeat.read_frames(3).await;
    again.cancel(&shows).await;
    assert_eq!(end(&Kept::of(first.read_all().await, &event)).1, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_sees_a_takeover_as_the_owner_does() {
    let mut cluster = Cluster::builder().gateways(2).start().await;
    let replies = [Reply::text(ANSWER).every_ms(150), Reply::text(ANSWER).every_ms(20)];
    cluster.model.on("hello", replies);
    let alice = cluster.client_at(0, "alice");
    let (mut own, event) = open(&alice, Submission::new("hello", Some("c1"), None)).await;
    let tab = cluster.client_at(1, "alice");
    let (mut followed, showing) = open(&tab, attach("c1", "attach")).await;
    followed.read_frames(5).await;
    cluster.kill_worker(0);
    cluster.add_worker().await;
    let followed = Kept::of(followed.read_all().await, &showing);
    one(&followed, "rewind");
    assert_eq!(end(&followed), (ANSWER.to_owned(), "completed".to_owned()));
    assert_eq!(followed, Kept::of(own.read_all().await, &event));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_nats_is_waited_for() {
    let mut cluster = Cluster::builder().gateways(2).start().await;
    cluster.model.on("hello", [Reply::text(ANSWER).every_ms(200)]);
    let alice = cluster.client_at(0, "alice");
    let (mut own, event) = open(&alice, Submission::new("hello", Some("c1"), None)).await;
    own.read_frames(4).await;
    let mut kept = Kept::of(&own, &event);
    let tab = cluster.client_at(1, "alice");
    let (mut early, early_event) = open(&tab, attach("c1", "attach")).await;
    let late = tab.another_tab();
    let going_on = async {
        // Told that the service is away, a client comes again.
        while !kept.is_complete {
            let rest = attach("c1", &kept.action());
            follow(&mut kept, &late, rest).await;
            let told = kept.told.as_deref().unwrap_or("UNAVAILABLE");
            assert_eq!(told, "UNAVAILABLE");
        }
    };
    let ((), ()) = tokio::join!(going_on, cluster.nats.restart());
    let whole = Kept::of(own.read_all().await, &event);
    assert_eq!(tokens(&whole), ANSWER);
    assert_eq!(kept.values, whole.values);
    assert_eq!(Kept::of(early.read_all().await, &early_event), whole);
}

/// A join is answered a moment before its job is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_whose_job_is_under_way_is_followed() {
    let cluster = Cluster::builder().gateways(2).start().await;
    let id = uuid::Uuid::new_v4().to_string();
    let alice = cluster.client_at(0, "alice");
    let (mut raw, event) = open(&alice, Submission::new("hello", Some(&id), None)).await;
    let before = Kept::of(raw.read_all().await, &event);
    let turn = uuid::Uuid::now_v7().to_string();
    let nats = cluster.nats.client().await;
    let context = async_nats::jetstream::new(nats.clone());
    let queued = json!({
        "v": 1, "turn_id": turn, "attempt": 0, "n": 0, "type": "queued", "ts": "2026-11-30T12:00:00Z",
        "data": {"user_id": "alice", "session_hash": "elsewhere", "conversation_ref": id, "ahead": 0},
    });
    let place = format!("agent.v1.ev.{id}.elsewhere.{turn}");
    context.publish(place, queued.to_string().into()).await.unwrap().await.unwrap();
    let tab = cluster.client_at(1, "alice");
    let (mut followed, showing) = open(&tab, attach(&id, "attach")).await;
    followed.read_frames(1).await;
    let now = time::OffsetDateTime::now_utc();
    let at = |moment: time::OffsetDateTime| {
        moment.format(&time::format_description::well_known::Rfc3339).unwrap()
    };
    let job = json!({
        "v": 1, "kind": "message", "turn_id": turn, "conversation_id": id, "session": "elsewhere",
        "user_id": "alice", "text": "hello", "locale": "en", "created_at": at(now),
        "expires_at": at(now + Duration::from_secs(600)),
    });
    let job_subject = subject::job(id.parse().unwrap());
    context.publish(job_subject, job.to_string().into()).await.unwrap().await.unwrap();
    let followed = Kept::of(followed.read_all().await, &showing);
    assert_eq!(end(&followed), ("Done.".to_owned(), "completed".to_owned()));
    assert!(followed.cursor() > before.cursor());
}
