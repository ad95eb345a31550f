//! Which attempts count as deaths, and what becomes of a turn that has too many.
use std::time::Duration;

use contract::event::TurnStatus;
use serde_json::json;
use shared::store::lease;
use shared::store::messages::Finish;
use shared::store::turns::{AssistantRow, Begun, Commit, RunChange};

use crate::world::{World, answer_row, commit, conversation_id, started, turn_id};

#[tokio::test]
async fn a_turn_that_dies_too_often_is_poisoned() {
    let world = World::new().await;
    let (conversation, turn) = (conversation_id(), turn_id());
    let begin = world.message(conversation, turn, "crash");
    for attempt in 1..=3 {
        assert_eq!(started(world.begin_as(&begin).await).attempt, attempt);
        assert_eq!(world.begin_as(&begin).await, Begun::LeaseHeld, "a refusal is no attempt");
        world.expire(conversation).await;
    }
    let begun = world.begin_as(&begin).await;
    let Begun::Poisoned { attempt: 4, epoch, checkpoint: None } = begun else {
        panic!("{begun:?}")
    };
    let outbox = json!([{"type": "turn_end"}]);
    let failure = Commit {
        epoch,
        assistant: Some(AssistantRow { finish: Finish::Failed, ..answer_row("") }),
        finish: Some((TurnStatus::Failed, outbox.clone())),
        release_lease: true,
        ..commit(&crate::world::Live { conversation, turn, epoch })
    };
    world.commit(failure).await.unwrap();
    assert_eq!(world.begin_as(&begin).await, Begun::Finished { outbox });
}

/// Deploys and outages, however many, are no deaths; the numbers of the attempts go on.
#[tokio::test]
async fn a_turn_that_is_given_back_is_not_poisoned() {
    let world = World::new().await;
    let (conversation, turn) = (conversation_id(), turn_id());
    let begin = world.message(conversation, turn, "deploy");
    for attempt in 1..=7 {
        let begun = started(world.begin_as(&begin).await);
        assert_eq!(begun.attempt, attempt);
        let twice = async || lease::give_back(&world.hot, conversation, begun.epoch).await.unwrap();
        twice().await;
        twice().await;
    }
    for attempt in 8..=9 {
        assert_eq!(started(world.begin_as(&begin).await).attempt, attempt);
        world.expire(conversation).await;
    }
    assert_eq!(started(world.begin_as(&begin).await).attempt, 10);
    let owner = begin.owner;
    lease::give_back_unheard(&world.hot, conversation, turn, owner).await.unwrap();
    let last = started(world.begin_as(&begin).await);
    lease::release(&world.hot, conversation, last.epoch).await.unwrap();
    let begun = world.begin_as(&begin).await;
    assert!(matches!(begun, Begun::Poisoned { attempt: 12, .. }), "{begun:?}");
}

#[tokio::test]
async fn a_poisoned_turn_comes_with_its_checkpoint() {
    let world = World::new().await;
    let live = world.live("a").await;
    let run = json!({"text": "so far"});
    let save = Commit { run: RunChange::Save(run.clone()), cursor: 7, ..commit(&live) };
    world.commit(save).await.unwrap();
    let mut begun = None;
    for _ in 0..3 {
        world.expire(live.conversation).await;
        let begin = world.message(live.conversation, live.turn, "a");
        begun = Some(world.begin_as(&begin).await);
    }
    let Some(Begun::Poisoned { checkpoint: Some(saved), .. }) = begun else { panic!("{begun:?}") };
    assert_eq!((saved.turn_id, saved.run, saved.cursor), (live.turn, run, 7));
}

#[tokio::test]
async fn a_held_lease_says_how_long() {
    let world = World::new().await;
    let live = world.live("a").await;
    let left = lease::remaining(&world.hot, live.conversation).await.unwrap();
    assert!(left > Duration::from_secs(10) && left <= Duration::from_secs(15), "{left:?}");
    world.expire(live.conversation).await;
    let none = async || lease::remaining(&world.hot, live.conversation).await.unwrap();
    assert_eq!(none().await, Duration::ZERO);
    lease::release(&world.hot, live.conversation, live.epoch).await.unwrap();
    assert_eq!(none().await, Duration::ZERO);
    assert_eq!(lease::remaining(&world.hot, conversation_id()).await.unwrap(), Duration::ZERO);
}

/// Its worker died, and its user has started as many other turns as are allowed: it still goes on.
#[tokio::test]
async fn a_turn_that_has_begun_is_not_refused_for_others() {
    let world = World::new().await;
    let live = world.live("a").await;
    world.expire(live.conversation).await;
    for _ in 0..4 {
        world.live("b").await;
    }
    let again = world.begin_as(&world.message(live.conversation, live.turn, "a")).await;
    assert_eq!(started(again).attempt, 2);
    assert_eq!(world.begin(conversation_id(), "one more").await, Begun::UserBusy);
}
