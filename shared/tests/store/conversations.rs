//! Lists, ownership, archive.
use std::time::Duration;

use contract::ids::ConversationId;
use serde_json::json;
use shared::store::conversations::{self, Archived, Filter, NewConversation, Scope};
use shared::store::journal::{self, Call};
use shared::store::messages;
use shared::store::paging::{Page, Paging};
use shared::store::turns::Begun;
use shared::store::{attachments, confirmations};

use crate::world::{World, conversation_id, now, turn_id, user};

#[tokio::test]
async fn creating_twice_gives_the_same_conversation() {
    let world = World::new().await;
    let new = NewConversation {
        id: conversation_id(),
        user: &world.user,
        reference: Some("n\0ame"),
        title: "Title",
        now: now(),
    };
    let made = conversations::create(&world.rows, &new).await.unwrap().unwrap();
    assert_eq!((made.title.as_str(), made.reference.as_deref()), ("Title", Some("n\u{fffd}ame")));
    let again = NewConversation { title: "Other", ..new.clone() };
    assert_eq!(conversations::create(&world.rows, &again).await.unwrap().unwrap(), made);
    let other = user("boris");
    let stolen = NewConversation { user: &other, ..new };
    assert_eq!(conversations::create(&world.rows, &stolen).await.unwrap(), None);
    world.talk(made.id, "first message", "a").await;
    let now = world.get(made.id).await;
    assert_eq!((now.title.as_str(), now.message_count), ("Title", 2));
}

#[tokio::test]
async fn archiving_clears_what_a_run_left() {
    let world = World::new().await;
    let conversation = conversation_id();
    let paused = world.paused(conversation, &["c1"]).await;
    let live = world.deciding(conversation).await;
    let call =
        Call { conversation, turn: live.turn, epoch: live.epoch, call_id: "c1", digest: "d" };
    journal::begin(&world.hot, &call).await.unwrap();
    let archive = async || {
        conversations::archive(&world.rows, &world.user, conversation, now()).await.unwrap()
    };
    assert_eq!(archive().await, Archived::Live(live.turn), "first the turn is cancelled");
    assert!(!world.get(conversation).await.is_archived);
    world
        .commit(shared::store::turns::Commit { release_lease: true, ..crate::world::commit(&live) })
        .await
        .unwrap();
    assert_eq!(left(&world).await, 3);
    assert_eq!(archive().await, Archived::Done);
    assert_eq!(archive().await, Archived::Done);
    assert_eq!(left(&world).await, 0);
    assert_eq!(confirmations::open_card(&world.rows, conversation).await.unwrap(), None);
    assert_eq!(world.begin(conversation, "x").await, Begun::Archived);
    let finished = world.begin_as(&world.message(conversation, paused.turn, "")).await;
    assert_eq!(finished, Begun::Finished { outbox: json!([]) });
    let back = conversations::unarchive(&world.rows, &world.user, conversation, now())
        .await
        .unwrap()
        .unwrap();
    assert!(!back.is_archived);
    world.talk(conversation, "on we go", "yes").await;
}

#[tokio::test]
async fn users_see_only_their_own() {
    let world = World::new().await;
    let live = world.live("mine").await;
    let (id, other) = (live.conversation, user("boris"));
    let rows = &world.rows;
    assert_eq!(conversations::get(rows, &other, id).await.unwrap(), None);
    assert_eq!(conversations::archive(rows, &other, id, now()).await.unwrap(), Archived::NotFound);
    assert_eq!(
        conversations::archive_by_force(rows, &other, id, now()).await.unwrap(),
        Archived::NotFound
    );
    assert_eq!(conversations::unarchive(rows, &other, id, now()).await.unwrap(), None);
    let filter = Filter { user: &other, scope: Scope::All, ..world.filter() };
    assert_eq!(conversations::list(rows, &filter).await.unwrap().total, 0);
    let found = Filter { search: Some("mine"), ..filter };
    assert_eq!(conversations::list(rows, &found).await.unwrap().total, 0);
    let paging = Paging::Keyset { after: None, limit: 5 };
    assert_eq!(messages::page(rows, &other, id, paging).await.unwrap(), None);
    assert_eq!(messages::last_answer(rows, &other, id).await.unwrap(), None);
    let new = messages::NewMessage {
        conversation: id,
        user: &other,
        client_id: None,
        turn: None,
        role: messages::Role::User,
        content: "x",
        now: now(),
    };
    assert_eq!(messages::upsert(rows, &new).await.unwrap(), None);
    assert_eq!(conversations::owner_of(rows, id).await.unwrap(), Some(world.user.clone()));
    assert_eq!(conversations::owner_of(rows, conversation_id()).await.unwrap(), None);
    assert_eq!(world.get(id).await.message_count, 1);
}

#[tokio::test]
async fn pages_have_no_gaps_and_no_repeats_while_conversations_come_in() {
    let world = World::new().await;
    let same_moment = now();
    let mut expected = Vec::new();
    for n in 0..23 {
        // Several share their time: the id decides.
        let at = same_moment + Duration::from_secs(n / 5);
        expected.push(create(&world, "old", at).await);
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let paging = Paging::Keyset { after: cursor, limit: 4 };
        let page =
            conversations::list(&world.rows, &Filter { paging, ..world.filter() }).await.unwrap();
        seen.extend(page.items.iter().map(|item| item.id));
        let Some(next) = page.next_cursor else { break };
        cursor = Some(next.parse().unwrap());
        create(&world, "new", now() + Duration::from_secs(60)).await;
    }
    assert_eq!(seen.len(), 23);
    expected.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn pages_can_be_numbered() {
    let world = World::new().await;
    for n in 0..5 {
        create(&world, &n.to_string(), now() + Duration::from_secs(n)).await;
    }
    let read = async |page| {
        let paging = Paging::Numbered { page, page_size: 2 };
        conversations::list(&world.rows, &Filter { paging, ..world.filter() }).await.unwrap()
    };
    assert_eq!(titles(&read(1).await), ["4", "3"]);
    assert_eq!(titles(&read(3).await), ["0"]);
    assert_eq!((read(3).await.total, read(3).await.next_cursor), (5, None));
    assert!(titles(&read(4).await).is_empty());
    let cursor = read(1).await.next_cursor.unwrap();
    let paging = Paging::Keyset { after: Some(cursor.parse().unwrap()), limit: 9 };
    let rest =
        conversations::list(&world.rows, &Filter { paging, ..world.filter() }).await.unwrap();
    assert_eq!(titles(&rest), ["2", "1", "0"]);
}

#[tokio::test]
async fn archived_conversations_are_a_list_of_their_own() {
    let world = World::new().await;
    let kept = create(&world, "kept", now()).await;
    let gone = create(&world, "gone", now()).await;
    conversations::archive(&world.rows, &world.user, gone, now()).await.unwrap();
    let read = async |scope| {
        let page =
            conversations::list(&world.rows, &Filter { scope, ..world.filter() }).await.unwrap();
        let mut ids: Vec<ConversationId> = page.items.iter().map(|item| item.id).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(read(Scope::Active).await, [kept]);
    assert_eq!(read(Scope::Archived).await, [gone]);
    let mut both = [kept, gone];
    both.sort_unstable();
    assert_eq!(read(Scope::All).await, both);
}

#[tokio::test]
async fn cursors_of_strangers_are_refused() {
    for text in
        ["", "x", "1_", "_", "1_00", "99999999999999999999_0190e0e0-0000-7000-8000-000000000000"]
    {
        assert!(text.parse::<conversations::ListCursor>().is_err(), "{text}");
    }
    assert!(
        "9223372036854775807_0190e0e0-0000-7000-8000-000000000000"
            .parse::<conversations::ListCursor>()
            .is_err()
    );
    assert!("x".parse::<messages::HistoryCursor>().is_err());
}

#[tokio::test]
async fn attachments_are_kept_as_first_read() {
    let world = World::new().await;
    let live = world.live("a").await;
    let file = contract::job::FileRef {
        blob: "blob\0".to_owned(),
        name: "отчёт.pdf".to_owned(),
        mime: "application/pdf".to_owned(),
        size: 10,
    };
    let id = turn_id().0;
    let new = attachments::NewAttachment {
        id,
        epoch: live.epoch,
        conversation: live.conversation,
        user: &world.user,
        file: &file,
        extraction: &json!({ "text": "page\0one" }),
        image: Some("data:image/png;base64,AAAA"),
        now: now(),
    };
    attachments::save(&world.hot, &new).await.unwrap();
    let other = json!({ "text": "another result" });
    let again = attachments::NewAttachment {
        id: turn_id().0,
        extraction: &other,
        image: None,
        ..new.clone()
    };
    attachments::save(&world.hot, &again).await.unwrap();
    let list = attachments::list(&world.hot, live.conversation, 10).await.unwrap();
    let kept: Vec<_> = list.iter().map(|attachment| &attachment.extraction).collect();
    assert_eq!(kept, [&json!({ "text": "page\u{fffd}one" })]);
    let image = attachments::image(&world.hot, live.conversation, "blob\0").await.unwrap();
    assert_eq!(image.as_deref(), new.image);
    let found = attachments::find(&world.hot, live.conversation, "blob\0").await.unwrap().unwrap();
    assert_eq!((&found.file.name, found.file.size), (&file.name, 10));
    assert_eq!(attachments::find(&world.hot, conversation_id(), "blob\0").await.unwrap(), None);
}

#[tokio::test]
async fn what_could_not_be_read_gives_way_to_what_could() {
    let world = World::new().await;
    let live = world.live("a").await;
    let file = contract::job::FileRef {
        blob: "blob".to_owned(),
        name: "a.pdf".to_owned(),
        mime: "application/pdf".to_owned(),
        size: 10,
    };
    let [failed, read] = ["failed", "read"].map(|outcome| json!({ "outcome": outcome }));
    for (extraction, kept) in [(&failed, &failed), (&read, &read), (&failed, &read)] {
        let new = attachments::NewAttachment {
            id: turn_id().0,
            epoch: live.epoch,
            conversation: live.conversation,
            user: &world.user,
            file: &file,
            extraction,
            image: None,
            now: now(),
        };
        attachments::save(&world.hot, &new).await.unwrap();
        let list = attachments::list(&world.hot, live.conversation, 10).await.unwrap();
        assert_eq!(list.iter().map(|found| &found.extraction).collect::<Vec<_>>(), [kept]);
    }
}

async fn create(world: &World, title: &str, now: time::OffsetDateTime) -> ConversationId {
    let new =
        NewConversation { id: conversation_id(), user: &world.user, reference: None, title, now };
    conversations::create(&world.rows, &new).await.unwrap().unwrap().id
}

/// Rows that archiving clears.
async fn left(world: &World) -> i64 {
    world
        .count(
            "SELECT (SELECT count(*) FROM checkpoints) + (SELECT count(*) FROM checkpoint_writes) \
             + (SELECT count(*) FROM confirmations WHERE status = 'open')",
        )
        .await
}

fn titles(page: &Page<conversations::Conversation>) -> Vec<&str> {
    page.items.iter().map(|item| item.title.as_str()).collect()
}
