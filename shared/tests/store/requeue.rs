//! A given-up turn's message goes over to the turn that takes its place.
use contract::event::TurnStatus;
use contract::ids::{ConversationId, TurnId};
use serde_json::json;
use shared::store::conversations::{self, Filter};
use shared::store::messages::{self, Role};
use shared::store::paging::Paging;
use shared::store::requeue::{self, TakeOver, TakenOver, has_begun};
use shared::store::turns::{Commit, RunChange};

use crate::world::{Live, World, commit, conversation_id, now, started, turn_id, user};

async fn given_up(world: &World, conversation: ConversationId) -> Live {
    let live = world.live_in(conversation, "dangerous question").await;
    let end = Commit {
        run: RunChange::Clear,
        finish: Some((TurnStatus::Failed, json!([]))),
        release_lease: true,
        ..commit(&live)
    };
    world.commit(end).await.unwrap();
    live
}

async fn take_over(world: &World, dead: &Live, to: TurnId) -> TakenOver {
    let (conversation, from) = (dead.conversation, [dead.turn]);
    let take = TakeOver { conversation, user: &world.user, from: &from, to };
    requeue::take_over(&world.rows, &take).await.unwrap()
}

/// Turn, role and text of each message, oldest first.
async fn history(
    world: &World,
    conversation: ConversationId,
) -> Vec<(Option<TurnId>, Role, String)> {
    let paging = Paging::Keyset { after: None, limit: 50 };
    let page = messages::page(&world.rows, &world.user, conversation, paging).await.unwrap();
    page.unwrap().items.into_iter().map(|m| (m.turn_id, m.role, m.content)).collect()
}

#[tokio::test]
async fn the_message_stands_once_before_its_new_answer() {
    let world = World::new().await;
    let dead = given_up(&world, conversation_id()).await;
    let later = world.talk(dead.conversation, "never mind", "fine").await;
    let to = turn_id();
    assert!(!has_begun(&world.rows, to).await.unwrap());
    for _ in 0..2 {
        assert_eq!(take_over(&world, &dead, to).await, TakenOver::Done);
    }
    let begin = world.message(dead.conversation, to, "dangerous question");
    let begun = started(world.begin_as(&begin).await);
    // A turn's own message is not its history.
    assert_eq!(begun.history.len(), 2);
    assert!(has_begun(&world.rows, to).await.unwrap());
    let live = Live { turn: to, epoch: begun.epoch, conversation: dead.conversation };
    world.end(&live, "answer").await;
    let expected = [
        (later.turn, Role::User, "never mind"),
        (later.turn, Role::Assistant, "fine"),
        (to, Role::User, "dangerous question"),
        (to, Role::Assistant, "answer"),
    ];
    let expected = expected.map(|(turn, role, text)| (Some(turn), role, text.to_owned()));
    assert_eq!(history(&world, dead.conversation).await, expected);
    assert_eq!(world.get(dead.conversation).await.message_count, 4);
    let search = Filter { search: Some("dangerous"), ..world.filter() };
    assert_eq!(conversations::list(&world.rows, &search).await.unwrap().items.len(), 1);
    assert_eq!(world.count("SELECT count(*) FROM message_search").await, 4);
}

#[tokio::test]
async fn nothing_moves_under_a_live_turn() {
    let world = World::new().await;
    let dead = given_up(&world, conversation_id()).await;
    let live = world.live_in(dead.conversation, "another").await;
    let before = history(&world, dead.conversation).await;
    assert_eq!(take_over(&world, &dead, turn_id()).await, TakenOver::Live(live.turn));
    assert_eq!(history(&world, dead.conversation).await, before);
    world.expire(dead.conversation).await;
    assert_eq!(take_over(&world, &dead, turn_id()).await, TakenOver::Done);
}

#[tokio::test]
async fn nothing_moves_where_it_may_not() {
    let world = World::new().await;
    let dead = given_up(&world, conversation_id()).await;
    let before = history(&world, dead.conversation).await;
    let (conversation, from) = (dead.conversation, [dead.turn]);
    let take = TakeOver { conversation, user: &user("mallory"), from: &from, to: turn_id() };
    assert_eq!(requeue::take_over(&world.rows, &take).await.unwrap(), TakenOver::NotOwner);
    conversations::archive(&world.rows, &world.user, conversation, now()).await.unwrap();
    assert_eq!(take_over(&world, &dead, turn_id()).await, TakenOver::Archived);
    assert_eq!(history(&world, conversation).await, before);
}

#[tokio::test]
async fn a_conversation_that_is_not_there_is_no_obstacle() {
    let world = World::new().await;
    let nowhere = Live { conversation: conversation_id(), turn: turn_id(), epoch: 0 };
    assert_eq!(take_over(&world, &nowhere, turn_id()).await, TakenOver::Done);
}

/// Whoever is first, the message stays one and a turn that begins finds it or writes it.
#[tokio::test]
async fn a_takeover_that_meets_a_beginning_waits_for_it() {
    let world = World::new().await;
    for _ in 0..20 {
        let dead = given_up(&world, conversation_id()).await;
        let to = turn_id();
        let begin = world.message(dead.conversation, turn_id(), "another");
        let (taken, begun) = tokio::join!(take_over(&world, &dead, to), world.begin_as(&begin));
        let begun = started(begun);
        let texts: Vec<_> = history(&world, dead.conversation).await;
        let owner = texts.iter().find(|(_, _, text)| text == "dangerous question").unwrap().0;
        match taken {
            TakenOver::Done => assert_eq!(owner, Some(to)),
            TakenOver::Live(turn) => assert_eq!((turn, owner), (begin.turn, Some(dead.turn))),
            TakenOver::Archived | TakenOver::NotOwner => panic!("{taken:?}"),
        }
        assert_eq!(texts.len(), 2);
        let turn = begin.turn;
        world.end(&Live { turn, epoch: begun.epoch, conversation: dead.conversation }, "").await;
    }
}
