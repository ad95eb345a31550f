//! Side effects: intent, result, and what a later attempt learns.
use serde_json::json;
use shared::store::journal::{self, Call, JournalState};
use shared::store::turns::{Commit, RunChange};
use shared::store::{CommitError, Error};

use crate::world::{Live, World, commit, started};

#[tokio::test]
async fn a_call_is_made_once_also_by_another_turn() {
    let world = World::new().await;
    let live = world.live("a").await;
    let call = call(&live, "c1", "d");
    assert_eq!(journal::begin(&world.hot, &call).await.unwrap(), JournalState::New);
    assert_eq!(journal::begin(&world.hot, &call).await.unwrap(), JournalState::Unfinished);
    journal::finish(&world.hot, &call, &json!({"b": 1, "a": "\0"})).await.unwrap();
    journal::finish(&world.hot, &call, &json!("a second result")).await.unwrap();
    world
        .commit(Commit { run: RunChange::Save(json!({})), release_lease: true, ..commit(&live) })
        .await
        .unwrap();
    let next = world.live_in(live.conversation, "b").await;
    let again = Call { turn: next.turn, epoch: next.epoch, ..call };
    let JournalState::Done(result) = journal::begin(&world.hot, &again).await.unwrap() else {
        panic!()
    };
    assert_eq!(result.to_string(), r#"{"b":1,"a":"�"}"#);
}

#[tokio::test]
async fn a_finished_call_of_the_same_id_may_be_another_call() {
    let world = World::new().await;
    let live = world.live("a").await;
    let first = call(&live, "call_0", "search");
    journal::begin(&world.hot, &first).await.unwrap();
    let other = call(&live, "call_0", "deploy");
    assert_eq!(
        journal::begin(&world.hot, &other).await.unwrap(),
        JournalState::Unfinished,
        "as long as the first is not finished nobody knows"
    );
    journal::finish(&world.hot, &other, &json!(1)).await.unwrap();
    assert_eq!(journal::begin(&world.hot, &first).await.unwrap(), JournalState::New);
}

#[tokio::test]
async fn an_intent_can_be_taken_back_and_a_result_can_not() {
    let world = World::new().await;
    let live = world.live("a").await;
    let call = call(&live, "c1", "d");
    journal::begin(&world.hot, &call).await.unwrap();
    journal::forget(&world.hot, &call).await.unwrap();
    assert_eq!(journal::begin(&world.hot, &call).await.unwrap(), JournalState::New);
    journal::finish(&world.hot, &call, &json!(1)).await.unwrap();
    journal::forget(&world.hot, &call).await.unwrap();
    assert_eq!(journal::begin(&world.hot, &call).await.unwrap(), JournalState::Done(json!(1)));
}

#[tokio::test]
async fn a_result_needs_an_intent() {
    let world = World::new().await;
    let live = world.live("a").await;
    let result = journal::finish(&world.hot, &call(&live, "c1", "d"), &json!(1)).await;
    assert!(matches!(result, Err(CommitError::Store(Error::Corrupt { .. }))), "{result:?}");
}

#[tokio::test]
async fn the_journal_ends_with_its_run() {
    let world = World::new().await;
    let live = world.live("a").await;
    let call = call(&live, "c1", "d");
    journal::begin(&world.hot, &call).await.unwrap();
    journal::finish(&world.hot, &call, &json!(1)).await.unwrap();
    world.expire(live.conversation).await;
    let epoch =
        started(world.begin_as(&world.message(live.conversation, live.turn, "a")).await).epoch;
    let live = Live { epoch, ..live };
    let call = Call { epoch, ..call };
    assert_eq!(journal::begin(&world.hot, &call).await.unwrap(), JournalState::Done(json!(1)));
    world.commit(Commit { run: RunChange::Clear, ..commit(&live) }).await.unwrap();
    assert_eq!(journal::begin(&world.hot, &call).await.unwrap(), JournalState::New);
}

fn call<'a>(live: &Live, call_id: &'a str, digest: &'a str) -> Call<'a> {
    let Live { conversation, turn, epoch } = *live;
    Call { conversation, turn, epoch, call_id, digest }
}
