//! Cards: one decision counts.
use std::time::Duration;

use contract::event::Resolution;
use futures_util::future::join_all;
use serde_json::json;
use shared::store::confirmations::{
    self, CallVerdict, Decide, Decision, NewCard, OpenCard, Resolved, Supersede, Verdict,
};
use shared::store::conversations;
use shared::store::turns::Commit;

use crate::world::{Live, World, call, card, commit, conversation_id, now, started, turn_id};

#[tokio::test]
async fn of_fifty_racing_decisions_one_is_recorded() {
    let world = World::new().await;
    let conversation = conversation_id();
    world.paused(conversation, &["c1", "c2"]).await;
    let live = world.deciding(conversation).await;
    let verdict = |n: usize| if n.is_multiple_of(2) { Verdict::Confirm } else { Verdict::Deny };
    let decisions = join_all((0..50).map(|n| {
        let racer = Live { turn: turn_id(), ..live };
        let (world, verdict) = (&world, verdict(n));
        async move { (verdict, decide(world, &racer, verdict).await) }
    }))
    .await;
    let recorded: Vec<_> = decisions
        .iter()
        .filter(|(_, decision)| matches!(decision, Decision::Recorded { .. }))
        .collect();
    assert_eq!(recorded.len(), 1);
    let result = match recorded[0].0 {
        Verdict::Confirm => Resolution::Confirmed,
        Verdict::Deny => Resolution::Denied,
    };
    let told =
        decisions.iter().filter(|(_, decision)| resolution(decision) == Some(result)).count();
    assert_eq!(told, 49, "everybody else is told the recorded outcome");
}

#[tokio::test]
async fn a_decision_gives_the_card_and_the_redelivered_turn_gets_it_again() {
    let world = World::new().await;
    let conversation = conversation_id();
    let asked = world.paused(conversation, &["c1", "c2"]).await;
    let live = world.deciding(conversation).await;
    let deny = Decide { reason: Some("not \0 today"), ..world.decide(&live, Verdict::Deny) };
    let first = confirmations::decide(&world.hot, &deny).await.unwrap();
    let Decision::Recorded { card, complete } = &first else { panic!("{first:?}") };
    assert_eq!(card.turn_id, asked.turn);
    assert_eq!(ids(card), ["c1", "c2"]);
    let reason = Some("not \u{fffd} today".to_owned());
    let verdict = |id: &str| CallVerdict {
        tool_call_id: id.to_owned(),
        verdict: Verdict::Deny,
        reason: reason.clone(),
    };
    assert_eq!(complete.as_deref(), Some(&[verdict("c1"), verdict("c2")][..]));
    world.expire(conversation).await;
    let epoch = started(world.begin_as(&world.message(conversation, live.turn, "")).await).epoch;
    let late = now() + Duration::from_secs(3_600);
    let again = confirmations::decide(&world.hot, &Decide { epoch, now: late, ..deny.clone() })
        .await
        .unwrap();
    assert_eq!(again, first, "even after the card's time");
    world.end(&Live { epoch, ..live }, "done").await;
    let other = world.deciding(conversation).await;
    let told = decide(&world, &other, Verdict::Confirm).await;
    let tool_call_ids = vec!["c1".to_owned(), "c2".to_owned()];
    let resolved =
        Resolved { confirmation_id: card.id, result: Resolution::Denied, reason, tool_call_ids };
    assert_eq!(told, Decision::AlreadyResolved(resolved));
}

#[tokio::test]
async fn calls_can_be_decided_one_by_one() {
    let world = World::new().await;
    let conversation = conversation_id();
    world.paused(conversation, &["c1", "c2", "c3"]).await;
    let first = decide_call(&world, conversation, "c2", Verdict::Deny).await;
    let Decision::Recorded { card, complete: None } = first else { panic!("{first:?}") };
    assert_eq!(card.decided.len(), 1);
    let again = decide_call(&world, conversation, "c2", Verdict::Confirm).await;
    assert_eq!(resolution(&again), Some(Resolution::Denied), "a call has one decision");
    assert_eq!(
        decide_call(&world, conversation, "c9", Verdict::Confirm).await,
        Decision::NonePending
    );
    let open = confirmations::open_card(&world.rows, conversation).await.unwrap().unwrap();
    assert_eq!(open.decided, card.decided);
    let live = world.deciding(conversation).await;
    let rest = decide(&world, &live, Verdict::Confirm).await;
    let Decision::Recorded { complete: Some(verdicts), .. } = rest else { panic!("{rest:?}") };
    let verdicts: Vec<_> =
        verdicts.iter().map(|call| (call.tool_call_id.as_str(), call.verdict)).collect();
    assert_eq!(
        verdicts,
        [("c1", Verdict::Confirm), ("c2", Verdict::Deny), ("c3", Verdict::Confirm)]
    );
    world.end(&live, "done").await;
    assert_eq!(confirmations::open_card(&world.rows, conversation).await.unwrap(), None);
    let late = world.deciding(conversation).await;
    assert_eq!(resolution(&decide(&world, &late, Verdict::Deny).await), Some(Resolution::Mixed));
}

#[tokio::test]
async fn a_card_expires() {
    let world = World::new().await;
    let conversation = conversation_id();
    world.paused(conversation, &["c1"]).await;
    let live = world.deciding(conversation).await;
    let late =
        Decide { now: now() + Duration::from_secs(901), ..world.decide(&live, Verdict::Confirm) };
    assert_eq!(confirmations::decide(&world.hot, &late).await.unwrap(), Decision::Expired);
    assert_eq!(decide(&world, &live, Verdict::Confirm).await, Decision::Expired, "it stays so");
    assert_eq!(confirmations::open_card(&world.rows, conversation).await.unwrap(), None);
}

#[tokio::test]
async fn a_card_that_archiving_cleared_has_expired() {
    let world = World::new().await;
    let conversation = conversation_id();
    world.paused(conversation, &["c1"]).await;
    conversations::archive(&world.rows, &world.user, conversation, now()).await.unwrap();
    conversations::unarchive(&world.rows, &world.user, conversation, now()).await.unwrap().unwrap();
    let live = world.deciding(conversation).await;
    assert_eq!(decide(&world, &live, Verdict::Confirm).await, Decision::Expired);
}

#[tokio::test]
async fn where_no_card_was_nothing_is_pending() {
    let world = World::new().await;
    let live = world.live("a").await;
    assert_eq!(decide(&world, &live, Verdict::Confirm).await, Decision::NonePending);
}

#[tokio::test]
async fn a_plain_message_closes_the_card() {
    let world = World::new().await;
    let conversation = conversation_id();
    world.paused(conversation, &["c1"]).await;
    let begun = started(world.begin(conversation, "something else").await);
    assert_eq!(ids(&begun.open_card.unwrap()), ["c1"]);
    let (turn, epoch) = (turn_id(), begun.epoch);
    let supersede = Supersede { conversation, turn, epoch, user: &world.user, now: now() };
    let closed = confirmations::supersede(&world.hot, &supersede).await.unwrap().unwrap();
    assert_eq!(
        confirmations::supersede(&world.hot, &supersede).await.unwrap(),
        Some(closed),
        "a redelivery"
    );
    let other = Supersede { turn: turn_id(), ..supersede };
    assert_eq!(confirmations::supersede(&world.hot, &other).await.unwrap(), None);
    let live = Live { conversation, turn: turn_id(), epoch };
    let Decision::AlreadyResolved(told) = decide(&world, &live, Verdict::Confirm).await else {
        panic!()
    };
    assert_eq!((told.result, told.reason.as_deref()), (Resolution::Denied, Some("superseded")));
}

#[tokio::test]
async fn a_plain_message_after_the_cards_time_leaves_it_expired() {
    let world = World::new().await;
    let conversation = conversation_id();
    world.paused(conversation, &["c1"]).await;
    let live = world.live_in(conversation, "something else").await;
    let Live { turn, epoch, .. } = live;
    let late = now() + Duration::from_secs(901);
    let supersede = Supersede { conversation, turn, epoch, user: &world.user, now: late };
    let closed = confirmations::supersede(&world.hot, &supersede).await.unwrap();
    assert_eq!(confirmations::supersede(&world.hot, &supersede).await.unwrap(), closed);
    assert!(closed.is_some());
    assert_eq!(decide(&world, &live, Verdict::Confirm).await, Decision::Expired);
}

#[tokio::test]
async fn one_card_is_open_at_a_time() {
    let world = World::new().await;
    let live = world.live("a").await;
    let first = card(&["c1"]);
    let with = |card: &NewCard| Commit { card: Some(card.clone()), ..commit(&live) };
    world.commit(with(&first)).await.unwrap();
    world.commit(with(&first)).await.unwrap();
    assert!(world.commit(with(&card(&["c2"]))).await.is_err());
    decide(&world, &live, Verdict::Deny).await;
    world.commit(with(&card(&["c3"]))).await.unwrap();
    let open = confirmations::open_card(&world.rows, live.conversation).await.unwrap().unwrap();
    assert_eq!(ids(&open), ["c3"]);
}

#[tokio::test]
async fn arguments_come_back_as_they_went_in() {
    let world = World::new().await;
    let live = world.live("a").await;
    let input = json!({"zone": "b", "amount": 1.5, "a": {"y": [], "x": null}});
    let stored = NewCard { calls: vec![call("c1", input.clone())], ..card(&[]) };
    world.commit(Commit { card: Some(stored.clone()), ..commit(&live) }).await.unwrap();
    let open = confirmations::open_card(&world.rows, live.conversation).await.unwrap().unwrap();
    assert_eq!(open.calls[0].input.to_string(), input.to_string());
    assert_eq!(
        (open.expires_at, open.prompt, open.digest),
        (stored.expires_at, stored.prompt, stored.digest)
    );
}

async fn decide(world: &World, live: &Live, verdict: Verdict) -> Decision {
    confirmations::decide(&world.hot, &world.decide(live, verdict)).await.unwrap()
}

/// A turn of its own for one call.
async fn decide_call(
    world: &World,
    conversation: contract::ids::ConversationId,
    call: &str,
    verdict: Verdict,
) -> Decision {
    let live = world.deciding(conversation).await;
    let decide = Decide { call: Some(call), ..world.decide(&live, verdict) };
    let decision = confirmations::decide(&world.hot, &decide).await.unwrap();
    world.commit(Commit { release_lease: true, ..commit(&live) }).await.unwrap();
    decision
}

fn resolution(decision: &Decision) -> Option<Resolution> {
    match decision {
        Decision::AlreadyResolved(resolved) => Some(resolved.result),
        Decision::Recorded { .. } | Decision::Expired | Decision::NonePending => None,
    }
}

fn ids(card: &OpenCard) -> Vec<&str> {
    card.calls.iter().map(|call| call.tool_call_id.as_str()).collect()
}
