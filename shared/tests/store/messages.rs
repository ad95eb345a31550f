//! History pages, and what older clients post.
use contract::ids::ConversationId;
use shared::store::messages::{self, HistoryCursor, Message, NewMessage, Role};
use shared::store::paging::{Page, Paging};

use crate::world::{World, conversation_id, now};

#[tokio::test]
async fn history_is_read_from_its_end() {
    let world = World::new().await;
    let conversation = conversation_id();
    for n in 0..4 {
        world.talk(conversation, &format!("q{n}"), &format!("a{n}")).await;
    }
    let first = page(&world, conversation, Paging::Keyset { after: None, limit: 3 }).await;
    assert_eq!((contents(&first), first.total), (vec!["a2", "q3", "a3"], 8));
    let mut cursor: Option<HistoryCursor> = first.next_cursor.map(|cursor| cursor.parse().unwrap());
    world.talk(conversation, "q4", "a4").await;
    let mut seen = Vec::new();
    while let Some(after) = cursor {
        let next =
            page(&world, conversation, Paging::Keyset { after: Some(after), limit: 3 }).await;
        seen.push(contents(&next).join(" "));
        cursor = next.next_cursor.map(|cursor| cursor.parse().unwrap());
    }
    assert_eq!(seen, ["q1 a1 q2", "q0 a0"]);
    let numbered = page(&world, conversation, Paging::Numbered { page: 2, page_size: 4 }).await;
    assert_eq!(contents(&numbered), ["q1", "a1", "q2", "a2"]);
}

#[tokio::test]
async fn a_posted_copy_of_what_the_server_wrote_is_the_same_message() {
    let world = World::new().await;
    let conversation = conversation_id();
    let live = world.talk(conversation, "вопрос", "ответ").await;
    let new = new(&world, conversation, Role::Assistant, "  ответ\n");
    let posts = [
        new.clone(),
        NewMessage { client_id: Some("m1"), ..new.clone() },
        NewMessage { turn: Some(live.turn), content: "cut short", ..new.clone() },
    ];
    for post in posts {
        let stored = messages::upsert(&world.rows, &post).await.unwrap().unwrap();
        assert!(!stored.created);
        assert_eq!(
            (stored.message.content.as_str(), stored.message.turn_id),
            ("ответ", Some(live.turn))
        );
    }
    assert_eq!(world.get(conversation).await.message_count, 2);
}

#[tokio::test]
async fn posting_twice_stores_once() {
    let world = World::new().await;
    let conversation = conversation_id();
    world.talk(conversation, "q", "a").await;
    let one =
        NewMessage { client_id: Some("m1"), ..new(&world, conversation, Role::User, "yes\0") };
    let first = messages::upsert(&world.rows, &one).await.unwrap().unwrap();
    assert!(first.created);
    assert_eq!(first.message.content, "yes\u{fffd}");
    let again = NewMessage { content: "edited", ..one.clone() };
    assert_eq!(
        messages::upsert(&world.rows, &again).await.unwrap().unwrap().message,
        first.message
    );
    let reply = NewMessage { role: Role::Assistant, ..one.clone() };
    assert!(
        messages::upsert(&world.rows, &reply).await.unwrap().unwrap().created,
        "ids are per role"
    );
    let other = NewMessage { client_id: Some("m2"), ..one.clone() };
    assert!(
        messages::upsert(&world.rows, &other).await.unwrap().unwrap().created,
        "people repeat themselves"
    );
    let turn = NewMessage {
        client_id: None,
        turn: Some(crate::world::turn_id()),
        content: "by turn",
        ..one
    };
    assert!(messages::upsert(&world.rows, &turn).await.unwrap().unwrap().created);
    assert!(!messages::upsert(&world.rows, &turn).await.unwrap().unwrap().created);
    assert_eq!(world.get(conversation).await.message_count, 6);
}

#[tokio::test]
async fn a_turn_that_a_client_names_is_still_the_servers_to_write() {
    let world = World::new().await;
    let live = world.live("q").await;
    let early = NewMessage {
        turn: Some(live.turn),
        ..new(&world, live.conversation, Role::Assistant, "forged")
    };
    assert!(messages::upsert(&world.rows, &early).await.unwrap().unwrap().created);
    world.end(&live, "true").await;
    let last =
        messages::last_answer(&world.rows, &world.user, live.conversation).await.unwrap().unwrap();
    assert_eq!((last.content.as_str(), last.turn_id), ("true", Some(live.turn)));
}

fn new<'a>(
    world: &'a World,
    conversation: ConversationId,
    role: Role,
    content: &'a str,
) -> NewMessage<'a> {
    NewMessage {
        conversation,
        user: &world.user,
        client_id: None,
        turn: None,
        role,
        content,
        now: now(),
    }
}

async fn page(
    world: &World,
    conversation: ConversationId,
    paging: Paging<HistoryCursor>,
) -> Page<Message> {
    messages::page(&world.rows, &world.user, conversation, paging).await.unwrap().unwrap()
}

fn contents(page: &Page<Message>) -> Vec<&str> {
    page.items.iter().map(|message| message.content.as_str()).collect()
}
