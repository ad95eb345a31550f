//! What an attach shows of a turn in every state, from every cursor.
use serde_json::json;
use tests::cluster::Cluster;
use tests::gradio::Submission;
use tests::gradio::raw::Kept;
use tests::llm::reply::Reply;

use super::{attach, end, metadata, one, open, shown, tokens};
use crate::approval::{ASK, card};

#[tokio::test(flavor = "multi_thread")]
async fn every_cursor_has_an_answer() {
    let cluster = Cluster::builder().gateways(2).start().await;
    let (mut alice, other) = (cluster.client_at(0, "alice"), cluster.client_at(1, "alice"));
    cluster.model.on("first", [Reply::text("one")]);
    cluster.model.on("second", [Reply::text("two three four five").every_ms(40)]);
    let earlier = alice.say("c1", "first").await.cursor();
    let (mut raw, event) = open(&alice, Submission::new("second", Some("c1"), None)).await;
    let live = cluster.rest("alice").active("c1").await;
    assert_eq!((&live["active"], &live["turn_id"]), (&json!(true), &json!(event)));
    let whole = Kept::of(raw.read_all().await, &event);
    assert!(whole.is_complete);
    for action in ["attach".to_owned(), "attach:0".to_owned(), format!("attach:{earlier}")] {
        assert_eq!(shown(&other, "c1", &action).await, whole, "{action}");
    }
    for (index, value) in whole.values.iter().enumerate() {
        let cursor = metadata(value)["cursor"].as_str().unwrap().to_owned();
        let rest = shown(&other, "c1", &format!("attach:{cursor}")).await;
        let last = whole.cursor();
        let missing = whole.values[index + 1..].iter().filter(|later| {
            metadata(later)["cursor"] != json!(cursor) || cursor == last.to_string()
        });
        let missing: Vec<&String> = missing.collect();
        let behind_all = missing.is_empty();
        assert!(rest.is_complete);
        if behind_all {
            assert_eq!(rest.values.as_slice(), &whole.values[whole.values.len() - 1..]);
        } else {
            assert_eq!(rest.values.iter().collect::<Vec<_>>(), missing, "after {cursor}");
        }
    }
    let gate = cluster.rest("alice").active("c1").await;
    assert_eq!(gate["active"], json!(false));
    for cursor in
        [(whole.cursor() + 1_000_000).to_string(), gate["cursor"].as_str().unwrap().to_owned()]
    {
        let rest = shown(&other, "c1", &format!("attach:{cursor}")).await;
        assert_eq!(rest.values.as_slice(), &whole.values[whole.values.len() - 1..], "{cursor}");
    }
    for garbage in ["x", "-1", "1.5", "1;2", "99999999999999999999"] {
        let (status, answer) = other.join(attach("c1", &format!("attach:{garbage}"))).await;
        assert_eq!(status, 400, "{garbage}: {answer}");
        assert!(answer["detail"].as_str().unwrap().contains("cursor"), "{garbage}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_comes_again_as_it_was_and_is_not_answered_by_it() {
    let cluster = Cluster::builder().gateways(2).start().await;
    let mut alice = cluster.client_at(0, "alice");
    let asked = card(&cluster, &mut alice, "c1").await;
    let tab = cluster.client_at(1, "alice");
    for action in ["attach", &format!("attach:{}", asked.cursor())] {
        let again = shown(&tab, "c1", action).await;
        let again = one(&again, "confirm_required");
        assert_eq!(&again, asked.card().unwrap(), "{action}");
    }
    let waiting = cluster.rest("alice").active("c1").await["confirmation"].clone();
    for key in ["confirmation_id", "calls", "expires_at", "prompt"] {
        assert_eq!(waiting[key], asked.card().unwrap()[key], "{key}");
    }
    assert_eq!(cluster.backend.effects().len(), 0);
    let done = alice.act("c1", "confirm", "").await;
    assert_eq!(done.text(), "Deployed.");
    let outcome = shown(&tab, "c1", "attach").await;
    assert_eq!(one(&outcome, "confirm_resolved")["result"], "confirmed");
    assert_eq!(end(&outcome), ("Deployed.".to_owned(), "completed".to_owned()));
    assert_eq!(cluster.backend.effects().len(), 1);
    assert!(cluster.rest("alice").active("c1").await["confirmation"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_and_a_failed_turn_are_shown_as_they_ended() {
    let cluster = Cluster::builder().gateways(2).start().await;
    let (mut alice, tab) = (cluster.client_at(0, "alice"), cluster.client_at(1, "alice"));
    cluster.model.on("long", [Reply::text("a b c d e f g h i j k l m n o p").every_ms(100)]);
    let event = alice.submit(Submission::new("long", Some("c1"), None)).await;
    alice.until(&event, "stream_token").await;
    alice.cancel(&event).await;
    let cancelled = alice.finish(&event).await;
    let again = shown(&tab, "c1", "attach").await;
    assert_eq!(end(&again), (cancelled.text().to_owned(), "cancelled".to_owned()));
    assert_eq!(
        (tokens(&again), one(&again, "turn_end")["status"].clone()),
        (cancelled.tokens(), json!("cancelled"))
    );

    cluster.model.on("broken", (0..20).map(|_| Reply::refusal(500)));
    let failed = alice.say("c1", "broken").await;
    let again = shown(&tab, "c1", "attach").await;
    assert_eq!(&one(&again, "error"), failed.one("error"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_finds_a_conversation() {
    let cluster = Cluster::builder().gateways(2).start().await;
    let id = uuid::Uuid::new_v4().to_string();
    let (alice, bob) = (cluster.client_at(0, "alice"), cluster.client_at(1, "bob"));
    cluster.model.on("hello", [Reply::text("a b c d e f g h").every_ms(80)]);
    let (mut raw, event) = open(&alice, Submission::new("hello", Some(&id), None)).await;
    let (status, empty) =
        cluster.rest("alice").post("/api/assistant/conversations", json!({})).await;
    assert!(status < 300, "{empty}");
    let empty = empty["id"].as_str().unwrap().to_owned();
    let unknown = uuid::Uuid::new_v4().to_string();
    let refused = async |client, conversation: &str| {
        let shown = shown(client, conversation, "attach:5").await;
        assert!(shown.values.is_empty(), "{conversation}: {shown:?}");
        shown.told
    };
    let missing = refused(&bob, &unknown).await;
    assert_eq!(missing.as_deref(), Some("NOT_FOUND"));
    for conversation in [&id, &empty] {
        assert_eq!(refused(&bob, conversation).await, missing);
    }
    assert_eq!(refused(&alice, &empty).await, missing);
    let whole = Kept::of(raw.read_all().await, &event);
    assert_eq!(refused(&bob, &id).await, missing, "after its end");
    let (status, _) =
        cluster.rest("alice").delete(&format!("/api/assistant/conversations/{id}")).await;
    assert!(status < 300, "archiving: {status}");
    assert_eq!(shown(&alice, &id, "attach").await, whole, "archived");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_stops_its_users_turn_by_its_id() {
    let cluster = Cluster::builder().gateways(2).start().await;
    cluster.model.on(ASK, [Reply::text("a b c d e f g h i j k l m n o p").every_ms(100)]);
    let alice = cluster.client_at(0, "alice");
    let (mut raw, event) = open(&alice, Submission::new(ASK, Some("c1"), None)).await;
    let bob = cluster.client_at(1, "bob");
    let by_id = json!({"event_id": event});
    let (status, _) = bob.post("/gradio_api/cancel", &by_id).await;
    assert_eq!(status, 200);
    let first = Kept::of(raw.read_frames(5).await, &event);
    assert!(!first.is_complete, "another user stopped it: {first:?}");
    cluster.client_at(1, "alice").post("/gradio_api/cancel", &by_id).await;
    let whole = Kept::of(raw.read_all().await, &event);
    assert_eq!(end(&whole).1, "cancelled", "{whole:?}");
}
