//! The log has forgotten a turn, or its beginning: a gap is said, and the whole text comes all the same.
use std::time::Duration;

use async_nats::jetstream::stream::Stream;
use contract::subject;
use serde_json::json;
use tests::cluster::Cluster;
use tests::gradio::Submission;
use tests::gradio::raw::Kept;
use tests::llm::reply::Reply;

use super::{attach, end, follow, one, open, shown};
use crate::approval::card;

const ANSWER: &str = "one two three four five six seven eight nine ten eleven twelve";

async fn log(cluster: &Cluster) -> Stream {
    let context = async_nats::jetstream::new(cluster.nats.client().await);
    context.get_stream(subject::STREAM_EVENTS).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_log_has_forgotten_the_database_tells() {
    let cluster = Cluster::builder().gateways(2).start().await;
    let (mut alice, tab) = (cluster.client_at(0, "alice"), cluster.client_at(1, "alice"));
    cluster.model.on("hello", [Reply::text(ANSWER)]);
    cluster.model.on("long", [Reply::text(ANSWER).every_ms(150)]);
    cluster.model.on("broken", (0..20).map(|_| Reply::refusal(500)));
    alice.say("completed", "hello").await;
    let failed = alice.say("failed", "hello").await;
    assert_eq!(failed.text(), "Done.");
    let failed = alice.say("failed", "broken").await;
    let event = alice.submit(Submission::new("long", Some("cancelled"), None)).await;
    alice.until(&event, "stream_token").await;
    alice.cancel(&event).await;
    let cancelled = alice.finish(&event).await;
    let asked = card(&cluster, &mut alice, "card").await;
    alice.closed().await;
    log(&cluster).await.purge().await.unwrap();

    let told = shown(&tab, "completed", "attach:7").await;
    assert_eq!(told.types(), ["stream_gap", "turn_end", "plain"]);
    assert_eq!(one(&told, "stream_gap")["from"], "7");
    assert_eq!(end(&told), (ANSWER.to_owned(), "completed".to_owned()));
    let told = shown(&tab, "failed", "attach").await;
    assert_eq!(told.types(), ["stream_gap", "turn_end", "error"]);
    assert_eq!(one(&told, "error")["code"], failed.one("error")["code"]);
    let told = shown(&tab, "cancelled", "attach").await;
    assert_eq!(told.types()[0], "stream_gap");
    assert_eq!(end(&told), (cancelled.text().to_owned(), "cancelled".to_owned()));
    for _ in 0..2 {
        let told = shown(&tab, "card", "attach").await;
        assert_eq!(told.types()[0], "stream_gap");
        let again = one(&told, "confirm_required");
        for key in ["confirmation_id", "calls", "expires_at", "prompt", "thread_id"] {
            assert_eq!(again[key], asked.card().unwrap()[key], "{key}");
        }
    }
    assert_eq!(alice.act("card", "confirm", "").await.text(), "Deployed.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_without_its_beginning_is_not_told_by_half() {
    let cluster = Cluster::builder().gateways(2).start().await;
    cluster.model.on("hello", [Reply::text(ANSWER).every_ms(150)]);
    let alice = cluster.client_at(0, "alice");
    let (mut raw, event) = open(&alice, Submission::new("hello", Some("c1"), None)).await;
    let known = Kept::of(raw.read_frames(5).await, &event);
    // Everything before the last event that the client has.
    log(&cluster).await.purge().sequence(known.cursor()).await.unwrap();
    let (late, behind) = (cluster.client_at(1, "alice"), cluster.client_at(1, "alice"));
    let from_start = shown(&late, "c1", "attach");
    let mut joined = known.clone();
    let from_cursor = follow(&mut joined, &behind, attach("c1", &known.action()));
    let (from_start, ()) = tokio::join!(from_start, from_cursor);
    let whole = Kept::of(raw.read_all().await, &event);
    assert_eq!(joined, whole, "nothing is gone behind the cursor");
    assert_eq!(from_start.types(), ["stream_gap", "stream_token", "turn_end", "plain"]);
    assert_eq!(from_start.values.last(), whole.values.last());
    let ended = shown(&late, "c1", "attach").await;
    assert_eq!(ended.types(), ["stream_gap", "turn_end", "plain"]);
    assert_eq!(end(&ended), (ANSWER.to_owned(), "completed".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_turn_of_which_nothing_is_left_goes_on() {
    let cluster = Cluster::builder().gateways(2).start().await;
    cluster.model.on("hello", [Reply::text(ANSWER).every_ms(250)]);
    let alice = cluster.client_at(0, "alice");
    let (mut raw, event) = open(&alice, Submission::new("hello", Some("c1"), None)).await;
    raw.read_frames(4).await;
    log(&cluster).await.purge().await.unwrap();
    let told = shown(&cluster.client_at(1, "alice"), "c1", "attach").await;
    assert_eq!(told.types()[0], "stream_gap", "{told:?}");
    assert_eq!(end(&told), (ANSWER.to_owned(), "completed".to_owned()));
    assert_eq!(end(&Kept::of(raw.read_all().await, &event)).0, ANSWER);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_grow_old_are_gone_in_the_same_way() {
    let cluster = Cluster::builder().gateways(2).start().await;
    cluster.model.on("hello", [Reply::text(ANSWER)]);
    let mut alice = cluster.client_at(0, "alice");
    alice.say("c1", "hello").await;
    alice.closed().await;
    let context = async_nats::jetstream::new(cluster.nats.client().await);
    let mut log = log(&cluster).await;
    let mut config = log.info().await.unwrap().config.clone();
    (config.max_age, config.duplicate_window) = (Duration::from_secs(1), Duration::from_secs(1));
    context.update_stream(config).await.unwrap();
    let filter = subject::EVENTS_ALL;
    let gone = || async {
        let context = context.clone();
        let mut log = context.get_stream(subject::STREAM_EVENTS).await.unwrap();
        log.info().await.unwrap().state.messages == 0
    };
    tests::process::wait_until(filter, Duration::from_secs(20), gone).await;
    let told = shown(&cluster.client_at(1, "alice"), "c1", "attach").await;
    assert_eq!(told.types()[0], "stream_gap");
    assert_eq!(end(&told).0, ANSWER);
}

/// No event has room for it, and the tokens before the cursor are gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_comes_whole_after_all() {
    let cluster = Cluster::builder().gateways(2).start().await;
    let piece = |number: usize| json!({"content": format!("{number}-{}", "ж".repeat(12_000))});
    let long = (0..10).fold(Reply::text("start "), |reply, number| reply.and_delta(piece(number)));
    cluster.model.on("hello", [long]);
    let alice = cluster.client_at(0, "alice");
    let (mut raw, event) = open(&alice, Submission::new("hello", Some("c1"), None)).await;
    let whole = Kept::of(raw.read_all().await, &event);
    assert!(end(&whole).0.len() > 200_000, "{} bytes", end(&whole).0.len());
    log(&cluster).await.purge().await.unwrap();
    let told = shown(&cluster.client_at(1, "alice"), "c1", "attach").await;
    assert_eq!(told.types()[0], "stream_gap");
    assert_eq!(end(&told), end(&whole));
}
