//! A worker whose lease was taken over, or given back, writes nothing.
use std::sync::LazyLock;
use std::time::Duration;

use contract::event::TurnStatus;
use contract::ids::UserId;
use contract::job::FileRef;
use futures_util::future::join_all;
use serde_json::{Value, json};
use shared::store::CommitError;
use shared::store::attachments::{self, NewAttachment};
use shared::store::audit::AuditRow;
use shared::store::confirmations::{self, Decide, Supersede, Verdict};
use shared::store::conversations;
use shared::store::journal::{self, Call};
use shared::store::lease;
use shared::store::messages::{self, NewMessage, Role};
use shared::store::turns::{Begun, Commit, RunChange};

use crate::world::{Live, World, answer_row, assert_fenced, card, commit, conversation_id, now};

/// Everything that could be written, as one number.
const STATE: &str = "SELECT hashtextextended( \
    (SELECT coalesce(string_agg(k::text, ';' ORDER BY k.conversation_id), '') FROM checkpoints k) \
    || (SELECT coalesce(string_agg(w::text, ';' ORDER BY w.call_id), '') FROM checkpoint_writes w) \
    || (SELECT coalesce(string_agg(c::text, ';' ORDER BY c.id), '') FROM confirmations c) \
    || (SELECT coalesce(string_agg(m::text, ';' ORDER BY m.id), '') FROM agent_messages m) \
    || (SELECT coalesce(string_agg(t::text, ';' ORDER BY t.turn_id), '') FROM turns t) \
    || (SELECT coalesce(string_agg(a::text, ';' ORDER BY a.id), '') FROM agent_conversations a) \
    || (SELECT coalesce(string_agg(u::text, ';' ORDER BY u.id), '') FROM assistant_audit u) \
    || (SELECT coalesce(string_agg(f::text, ';' ORDER BY f.id), '') FROM attachments f) \
    || (SELECT coalesce(string_agg(l::text, ';'), '') FROM leases l), 0)";

#[tokio::test]
async fn after_a_takeover_nothing_is_written() {
    let world = World::new().await;
    let (stale, conversation) = prepared(&world).await;
    world.expire(conversation).await;
    let begin = world.message(conversation, stale.turn, "a");
    let taken = crate::world::started(world.begin_as(&begin).await);
    assert!(taken.epoch > stale.epoch);
    refused_everywhere(&world, &stale).await;
    world.end(&Live { epoch: taken.epoch, ..stale }, "the new holder's answer").await;
    refused_everywhere(&world, &stale).await;
}

#[tokio::test]
async fn after_a_release_nothing_is_written() {
    let world = World::new().await;
    let (stale, _) = prepared(&world).await;
    world.commit(Commit { release_lease: true, ..commit(&stale) }).await.unwrap();
    refused_everywhere(&world, &stale).await;
}

#[tokio::test]
async fn after_archiving_nothing_is_written() {
    let world = World::new().await;
    let (stale, conversation) = prepared(&world).await;
    conversations::archive_by_force(&world.rows, &world.user, conversation, now()).await.unwrap();
    refused_everywhere(&world, &stale).await;
}

#[tokio::test]
async fn a_lease_that_ran_out_still_counts_until_somebody_takes_it() {
    let world = World::new().await;
    let live = world.live("a").await;
    world.expire(live.conversation).await;
    world.commit(Commit { run: RunChange::Save(json!({})), ..commit(&live) }).await.unwrap();
}

/// A takeover that comes while a commit is under way waits for it, and sees what it wrote.
#[tokio::test]
async fn a_commit_and_a_takeover_come_one_after_the_other() {
    let world = World::new().await;
    for n in 0..20 {
        let live = world.live("a").await;
        world.expire(live.conversation).await;
        let save = Commit { run: RunChange::Save(json!({"n": n})), ..commit(&live) };
        let begin = world.message(live.conversation, live.turn, "a");
        let (saved, begun) = tokio::join!(world.commit(save), world.begin_as(&begin));
        let begun = crate::world::started(begun);
        match saved {
            Ok(()) => assert_eq!(begun.checkpoint.unwrap().run, json!({"n": n})),
            Err(error) => {
                assert_fenced::<()>(Err(error));
                assert_eq!(begun.checkpoint, None);
            }
        }
        world.end(&Live { epoch: begun.epoch, ..live }, "").await;
    }
}

/// A live turn with an open card and a begun side effect.
async fn prepared(world: &World) -> (Live, contract::ids::ConversationId) {
    let conversation = crate::world::conversation_id();
    world.paused(conversation, &["c1"]).await;
    let live = world.deciding(conversation).await;
    journal::begin(&world.hot, &call(&live, "c0")).await.unwrap();
    (live, conversation)
}

fn call<'a>(live: &Live, call_id: &'a str) -> Call<'a> {
    let Live { conversation, turn, epoch } = *live;
    Call { conversation, turn, epoch, call_id, digest: "d" }
}

fn audit_row(live: &Live, user: &UserId) -> AuditRow {
    AuditRow {
        at: now(),
        service_actor: "agent".to_owned(),
        user_actor: user.clone(),
        operation: "stale".to_owned(),
        decision: String::new(),
        outcome: "ok".to_owned(),
        conversation: Some(live.conversation),
        turn: Some(live.turn),
        tool_call_id: None,
        detail: json!({}),
    }
}

fn attachment<'a>(live: &Live, user: &'a UserId) -> NewAttachment<'a> {
    static FILE: LazyLock<FileRef> = LazyLock::new(|| FileRef {
        blob: "stale".to_owned(),
        name: "stale.csv".to_owned(),
        mime: "text/csv".to_owned(),
        size: 1,
    });
    let Live { conversation, turn, epoch } = *live;
    NewAttachment {
        id: turn.0,
        conversation,
        epoch,
        user,
        file: &FILE,
        extraction: &Value::Null,
        image: None,
        now: now(),
    }
}

/// All that a worker writes. A statement that is added to the store belongs here, too.
async fn refused_everywhere(world: &World, stale: &Live) {
    let before = world.count(STATE).await;
    let hot = &world.hot;
    let Live { conversation, turn, epoch } = *stale;
    let everything = Commit {
        run: RunChange::Save(json!({"stale": true})),
        assistant: Some(answer_row("stale")),
        append_parts: Some((turn, json!(["stale"]))),
        card: Some(card(&["stale"])),
        finish: Some((TurnStatus::Failed, json!(["stale"]))),
        audit: vec![audit_row(stale, &world.user)],
        release_lease: true,
        ..commit(stale)
    };
    assert_fenced(world.commit(everything).await);
    assert_fenced(world.commit(Commit { run: RunChange::Clear, ..commit(stale) }).await);
    assert_fenced(world.commit(commit(stale)).await);
    assert_fenced(journal::begin(hot, &call(stale, "stale")).await);
    assert_fenced(journal::finish(hot, &call(stale, "c0"), &json!("stale")).await);
    assert_fenced(journal::forget(hot, &call(stale, "c0")).await);
    let decide = Decide { reason: Some("stale"), ..world.decide(stale, Verdict::Confirm) };
    assert_fenced(confirmations::decide(hot, &decide).await);
    let supersede = Supersede { conversation, turn, epoch, user: &world.user, now: now() };
    assert_fenced(confirmations::supersede(hot, &supersede).await);
    assert_fenced(conversations::save_summary(hot, conversation, epoch, "stale", 1).await);
    assert_fenced(attachments::save(hot, &attachment(stale, &world.user)).await);
    assert!(!lease::renew(hot, conversation, epoch, Duration::from_secs(9)).await.unwrap());
    lease::release(hot, conversation, epoch).await.unwrap();
    lease::give_back(hot, conversation, epoch).await.unwrap();
    lease::give_back_unheard(hot, conversation, turn, "a worker of another name").await.unwrap();
    assert_eq!(world.count(STATE).await, before);
}

/// Locks are taken in one order, so nobody waits in a circle.
#[tokio::test]
async fn stories_that_meet_do_not_deadlock() {
    let world = World::new().await;
    let conversations = [conversation_id(), conversation_id()];
    for conversation in conversations {
        world.talk(conversation, "q", "a").await;
    }
    let workers = (0..6).map(async |n: usize| {
        for round in 0..15 {
            story(&world, conversations[(n + round) % 2]).await;
        }
    });
    let clients = (0..3).map(async |n: usize| {
        for round in 0..15 {
            client(&world, conversations[(n + round) % 2], round).await;
        }
    });
    tokio::join!(join_all(workers), join_all(clients));
}

/// What a worker does, as far as it gets; anything but a fence is a defect.
async fn story(world: &World, conversation: contract::ids::ConversationId) {
    world.expire(conversation).await;
    let turn = crate::world::turn_id();
    let Begun::Started(begun) = world.begin_as(&world.message(conversation, turn, "q")).await
    else {
        return;
    };
    let epoch = begun.epoch;
    let live = Live { conversation, turn, epoch };
    let supersede = Supersede { conversation, turn, epoch, user: &world.user, now: now() };
    let end = Commit {
        run: RunChange::Save(json!({})),
        assistant: Some(answer_row("a")),
        card: Some(card(&["c"])),
        release_lease: true,
        ..commit(&live)
    };
    let hot = &world.hot;
    let steps = tokio::join!(
        async { confirmations::supersede(hot, &supersede).await.map(drop) },
        async { journal::begin(hot, &call(&live, "c")).await.map(drop) },
        conversations::save_summary(hot, conversation, epoch, "s", 1),
        world.commit(Commit { assistant: Some(answer_row("par")), ..commit(&live) }),
    );
    for step in [steps.0, steps.1, steps.2, steps.3, world.commit(end).await] {
        assert!(matches!(step, Ok(()) | Err(CommitError::Fenced)), "{step:?}");
    }
}

async fn client(world: &World, conversation: contract::ids::ConversationId, round: usize) {
    let (rows, user) = (&world.rows, &world.user);
    let client_id = format!("{round}");
    let new = NewMessage {
        conversation,
        user,
        client_id: Some(&client_id),
        turn: None,
        role: Role::User,
        content: &client_id,
        now: now(),
    };
    messages::upsert(rows, &new).await.unwrap();
    conversations::archive_by_force(rows, user, conversation, now()).await.unwrap();
    conversations::unarchive(rows, user, conversation, now()).await.unwrap();
}
