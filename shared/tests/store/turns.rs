//! Beginning, going on with and ending a turn.
use std::time::{Duration, Instant};

use contract::event::{Event, TurnEnd, TurnStatus};
use contract::job::{FileRef, JobKind};
use futures_util::future::join_all;
use serde_json::{Value, json};
use shared::store::audit::AuditRow;
use shared::store::messages::{self, Role};
use shared::store::paging::Paging;
use shared::store::turns::{
    self, AssistantRow, BeginTurn, Begun, Commit, RunChange, SavedRun, StoredTurn, Summary,
};
use shared::store::{conversations, lease};

use crate::world::{Live, World, answer_row, commit, conversation_id, now, started, turn_id, user};

#[tokio::test]
async fn a_first_message_makes_the_conversation() {
    let world = World::new().await;
    let (conversation, turn) = (conversation_id(), turn_id());
    let files =
        [FileRef { blob: "b".to_owned(), name: "r.pdf".to_owned(), mime: String::new(), size: 3 }];
    let begin = BeginTurn {
        files: &files,
        reference: Some("conv-1"),
        ..world.message(conversation, turn, "Привет")
    };
    let begun = started(world.begin_as(&begin).await);
    assert!(begun.new_conversation);
    assert!(begun.epoch > 0);
    assert_eq!(begun.attempt, 1);
    assert_eq!((begun.checkpoint, begun.open_card, begun.summary), (None, None, None));
    assert!(begun.history.is_empty());
    let made = world.get(conversation).await;
    assert_eq!((made.title.as_str(), made.message_count), ("Привет", 1));
    assert_eq!(made.reference.as_deref(), Some("conv-1"));
    assert_eq!(made.last_message_at, Some(begin.now));
    let paging = Paging::Keyset { after: None, limit: 10 };
    let page =
        messages::page(&world.rows, &world.user, conversation, paging).await.unwrap().unwrap();
    assert_eq!((page.items[0].role, page.items[0].content.as_str()), (Role::User, "Привет"));
    assert_eq!(page.items[0].files, files);
}

#[tokio::test]
async fn a_turn_that_was_begun_is_found_by_its_user() {
    let world = World::new().await;
    let conversation = conversation_id();
    let told = world.talk(conversation, "hi", "hello").await;
    let open = world.live_in(conversation, "and?").await;
    let found = async |user| {
        let turns = [turn_id(), told.turn, open.turn];
        let mut found = turns::begun(&world.rows, user, &turns).await.unwrap();
        found.sort_by_key(|turn| !turn.finished);
        found
    };
    let stored = |turn_id, question: &str, answer: Option<&str>| StoredTurn {
        turn_id,
        finished: answer.is_some(),
        question: Some(question.to_owned()),
        answer: answer.map(str::to_owned),
        outbox: Vec::new(),
    };
    let both = [stored(told.turn, "hi", Some("hello")), stored(open.turn, "and?", None)];
    assert_eq!(found(&world.user).await, both);
    assert_eq!(found(&user("boris")).await, []);
}

#[tokio::test]
async fn warming_up_writes_nothing() {
    let world = World::new().await;
    turns::warm(&world.hot, 4).await.unwrap();
    let rows = world
        .count(
            "SELECT (SELECT count(*) FROM turns) + (SELECT count(*) FROM leases) \
            + (SELECT count(*) FROM agent_conversations) + (SELECT count(*) FROM agent_messages)",
        )
        .await;
    assert_eq!(rows, 0);
    world.live("a").await;
}

#[tokio::test]
async fn a_redelivered_turn_has_one_user_message() {
    let world = World::new().await;
    let (conversation, turn) = (conversation_id(), turn_id());
    let begin = world.message(conversation, turn, "once");
    let first = started(world.begin_as(&begin).await);
    assert_eq!(first.attempt, 1);
    world.expire(conversation).await;
    let again = started(world.begin_as(&BeginTurn { owner: "worker-2", ..begin.clone() }).await);
    assert_eq!((again.attempt, again.new_conversation), (2, false));
    assert!(again.epoch > first.epoch);
    assert!(again.history.is_empty(), "a turn's own message is not its history");
    assert_eq!(world.count("SELECT count(*) FROM agent_messages").await, 1);
    assert_eq!(world.get(conversation).await.message_count, 1);
}

#[tokio::test]
async fn a_lease_is_held_until_it_expires_or_is_released() {
    let world = World::new().await;
    let live = world.live("a").await;
    let conversation = live.conversation;
    let redelivered = world.message(conversation, live.turn, "a");
    assert_eq!(world.begin_as(&redelivered).await, Begun::LeaseHeld, "even for the same worker");
    assert_eq!(world.begin(conversation, "b").await, Begun::LeaseHeld);
    assert!(
        lease::renew(&world.hot, conversation, live.epoch, Duration::from_secs(9)).await.unwrap()
    );
    lease::release(&world.hot, conversation, live.epoch).await.unwrap();
    assert!(
        !lease::renew(&world.hot, conversation, live.epoch, Duration::from_secs(9)).await.unwrap(),
        "a late renewal brings no released lease back"
    );
    let second = world.live_in(conversation, "b").await;
    assert!(second.epoch > live.epoch);
    world.expire(conversation).await;
    let third = world.live_in(conversation, "c").await;
    assert!(third.epoch > second.epoch);
    assert!(
        !lease::renew(&world.hot, conversation, second.epoch, Duration::from_secs(9))
            .await
            .unwrap()
    );
    lease::release(&world.hot, conversation, second.epoch).await.unwrap();
    assert_eq!(
        world.begin(conversation, "d").await,
        Begun::LeaseHeld,
        "an old epoch releases nothing"
    );
}

#[tokio::test]
async fn an_expired_lease_that_nobody_took_can_be_renewed() {
    let world = World::new().await;
    let live = world.live("a").await;
    world.expire(live.conversation).await;
    assert!(
        lease::renew(&world.hot, live.conversation, live.epoch, Duration::from_secs(9))
            .await
            .unwrap()
    );
    assert_eq!(world.begin(live.conversation, "b").await, Begun::LeaseHeld);
}

#[tokio::test]
async fn of_racing_workers_one_starts() {
    let world = World::new().await;
    for existing in [false, true] {
        let (conversation, turn) = (conversation_id(), turn_id());
        if existing {
            world.talk(conversation, "q", "a").await;
        }
        let begins = join_all((0..16).map(|_| world.begin_as_new(conversation, turn))).await;
        let won = begins.iter().filter(|begun| matches!(begun, Begun::Started(_))).count();
        let held = begins.iter().filter(|begun| **begun == Begun::LeaseHeld).count();
        assert_eq!((won, held), (1, 15));
        let winner = begins.into_iter().find(|begun| matches!(begun, Begun::Started(_)));
        lease::release(&world.hot, conversation, started(winner.unwrap()).epoch).await.unwrap();
    }
}

#[tokio::test]
async fn a_finished_turn_gives_its_outbox_even_while_another_runs() {
    let world = World::new().await;
    for status in [
        TurnStatus::Completed,
        TurnStatus::Interrupted,
        TurnStatus::Cancelled,
        TurnStatus::Rejected,
    ] {
        let live = world.live("a").await;
        let outbox = json!([{"z": 1, "a": 2, "type": "turn_end"}]);
        let finish = Some((status, outbox.clone()));
        world.commit(Commit { finish, release_lease: true, ..commit(&live) }).await.unwrap();
        let next = world.live_in(live.conversation, "b").await;
        let begun = world.begin_as(&world.message(live.conversation, live.turn, "a")).await;
        let Begun::Finished { outbox: stored } = begun else { panic!("{status:?}: {begun:?}") };
        assert_eq!(stored.to_string(), outbox.to_string(), "also in the order of keys");
        world.end(&next, "").await;
    }
}

#[tokio::test]
async fn a_user_has_so_many_live_turns() {
    let world = World::new().await;
    let begins = join_all((0..10).map(|_| world.begin(conversation_id(), "a"))).await;
    let live = begins.iter().filter(|begun| matches!(begun, Begun::Started(_))).count();
    let busy = begins.iter().filter(|begun| **begun == Begun::UserBusy).count();
    assert_eq!((live, busy), (4, 6));
    assert_eq!(
        world.count("SELECT count(*) FROM agent_conversations").await,
        4,
        "a refusal makes none"
    );
    assert_eq!(world.count("SELECT count(*) FROM turns").await, 4);
    let other = user("boris");
    let begin = BeginTurn { user: &other, ..world.message(conversation_id(), turn_id(), "a") };
    started(world.begin_as(&begin).await);
    sqlx::query("UPDATE leases SET until = now()").execute(&world.rows).await.unwrap();
    world.live("expired leases don't count").await;
}

#[tokio::test]
async fn a_saved_run_comes_back_as_it_was() {
    let world = World::new().await;
    let live = world.live("a").await;
    let run: Value =
        serde_json::from_str(r#"{"zeta":{"b":1.50,"a":[1,"\\u0000"]},"alpha":null}"#).unwrap();
    let save = Commit { run: RunChange::Save(run.clone()), cursor: 77, ..commit(&live) };
    world.commit(save).await.unwrap();
    world.expire(live.conversation).await;
    let again = started(world.begin_as(&world.message(live.conversation, live.turn, "a")).await);
    let saved = again.checkpoint.unwrap();
    assert_eq!(saved.run.to_string(), run.to_string());
    assert_eq!(saved, SavedRun { turn_id: live.turn, run, cursor: 77 });
    let clear =
        Commit { run: RunChange::Clear, epoch: again.epoch, release_lease: true, ..commit(&live) };
    world.commit(clear).await.unwrap();
    assert_eq!(started(world.begin(live.conversation, "b").await).checkpoint, None);
}

#[tokio::test]
async fn an_answer_is_counted_once_and_can_grow() {
    let world = World::new().await;
    let live = world.live("q").await;
    for text in ["par", "partial"] {
        world.commit(Commit { assistant: Some(answer_row(text)), ..commit(&live) }).await.unwrap();
    }
    assert_eq!(world.get(live.conversation).await.message_count, 2);
    let append =
        Some((live.turn, json!([{"role": "tool", "tool_call_id": "c1", "content": "ok"}])));
    world
        .commit(Commit { append_parts: append, release_lease: true, ..commit(&live) })
        .await
        .unwrap();
    let history = started(world.begin(live.conversation, "next").await).history;
    assert_eq!(history.len(), 2);
    assert_eq!((history[1].role, history[1].content.as_str()), (Role::Assistant, "partial"));
    assert_eq!(history[1].parts.as_ref().unwrap()[0]["tool_call_id"], "c1");
}

#[tokio::test]
async fn history_is_what_the_summary_does_not_cover() {
    let world = World::new().await;
    let conversation = conversation_id();
    for n in 0..5 {
        world.talk(conversation, &format!("q{n}"), &format!("a{n}")).await;
    }
    let turn = turn_id();
    let begun = started(world.begin_as(&world.message(conversation, turn, "q5")).await);
    let (rows, live) =
        (begun.history, crate::world::Live { conversation, turn, epoch: begun.epoch });
    assert_eq!(contents(&rows), ["q0", "a0", "q1", "a1", "q2", "a2", "q3", "a3", "q4", "a4"]);
    let upto = rows[5].id;
    conversations::save_summary(&world.hot, conversation, live.epoch, "so far", upto)
        .await
        .unwrap();
    world.end(&live, "a5").await;
    let next = started(world.begin(conversation, "q6").await);
    assert_eq!(next.summary, Some(Summary { text: "so far".to_owned(), upto }));
    assert_eq!(contents(&next.history), ["q3", "a3", "q4", "a4", "q5", "a5"]);
}

#[tokio::test]
async fn history_is_bounded() {
    let world = World::new().await;
    let live = world.live("first").await;
    sqlx::query(
        "INSERT INTO agent_messages (conversation_id, turn_id, role, content, created_at) \
         SELECT $1, gen_random_uuid(), 'assistant', n::text, now() FROM generate_series(1, 600) n",
    )
    .bind(live.conversation.0)
    .execute(&world.rows)
    .await
    .unwrap();
    lease::release(&world.hot, live.conversation, live.epoch).await.unwrap();
    let history = started(world.begin(live.conversation, "x").await).history;
    let ends = (history.len(), history[0].content.as_str(), history[399].content.as_str());
    assert_eq!(ends, (400, "201", "600"));
}

#[tokio::test]
async fn another_users_conversation_is_not_entered() {
    let world = World::new().await;
    let live = world.live("mine").await;
    let other = user("boris");
    let begin = BeginTurn { user: &other, ..world.message(live.conversation, turn_id(), "yours") };
    assert_eq!(world.begin_as(&begin).await, Begun::NotOwner);
    let replayed =
        BeginTurn { user: &other, ..world.message(live.conversation, live.turn, "yours") };
    assert_eq!(world.begin_as(&replayed).await, Begun::NotOwner);
    let moved = BeginTurn { user: &other, ..world.message(conversation_id(), live.turn, "yours") };
    assert_eq!(world.begin_as(&moved).await, Begun::NotOwner);
    assert_eq!(world.count("SELECT count(*) FROM agent_messages").await, 1);
}

#[tokio::test]
async fn a_decision_about_nothing_leaves_no_conversation_in_the_list() {
    let world = World::new().await;
    let (conversation, kind) = (conversation_id(), JobKind::Confirm { tool_call_id: None });
    let begin = BeginTurn { kind: &kind, ..world.message(conversation, turn_id(), "confirm") };
    let begun = started(world.begin_as(&begin).await);
    assert!(begun.new_conversation);
    assert_eq!(conversations::list(&world.rows, &world.filter()).await.unwrap().total, 0);
    lease::release(&world.hot, conversation, begun.epoch).await.unwrap();
    world.live_in(conversation, "a real message").await;
    let listed = conversations::list(&world.rows, &world.filter()).await.unwrap();
    assert_eq!((listed.total, listed.items[0].title.as_str()), (1, "a real message"));
}

#[tokio::test]
async fn the_live_turn_is_the_one_with_the_lease() {
    let world = World::new().await;
    let live = world.live("a").await;
    let found = turns::live(&world.rows, live.conversation).await.unwrap().unwrap();
    assert_eq!((found.turn_id, &found.user_id, found.attempt), (live.turn, &world.user, 1));
    world.end(&live, "b").await;
    assert_eq!(turns::live(&world.rows, live.conversation).await.unwrap(), None);
}

#[tokio::test]
async fn the_last_turn_that_was_run_says_how_it_ended() {
    let world = World::new().await;
    let live = world.live("a").await;
    let boris = user("boris");
    let last = async |user| turns::last(&world.rows, user, live.conversation).await.unwrap();
    let stored = |finished, outbox| {
        let question = Some("a".to_owned());
        StoredTurn { turn_id: live.turn, finished, question, answer: None, outbox }
    };
    assert_eq!(last(&world.user).await, Some(stored(false, Vec::new())));
    let end = |status| {
        let end = TurnEnd { status, text: None, usage: None, timings: None };
        vec![Event::TurnEnd(end)]
    };
    let ended = |live: &Live, status| {
        let finish = Some((status, serde_json::to_value(end(status)).unwrap()));
        Commit { finish, release_lease: true, ..commit(live) }
    };
    world.commit(ended(&live, TurnStatus::Failed)).await.unwrap();
    assert_eq!(last(&world.user).await, Some(stored(true, end(TurnStatus::Failed))));
    assert_eq!(last(&boris).await, None);
    let refused = world.live_in(live.conversation, "b").await;
    world.commit(ended(&refused, TurnStatus::Rejected)).await.unwrap();
    assert_eq!(last(&world.user).await, None);
}

#[tokio::test]
async fn audit_goes_with_the_commit() {
    let world = World::new().await;
    let live = world.live("a").await;
    let row = AuditRow {
        at: now(),
        service_actor: "agent".to_owned(),
        user_actor: world.user.clone(),
        operation: "deploy_dashboard".to_owned(),
        decision: "confirmed".to_owned(),
        outcome: "ok".to_owned(),
        conversation: Some(live.conversation),
        turn: Some(live.turn),
        tool_call_id: Some("c1".to_owned()),
        detail: json!({"ms": 5}),
    };
    world.commit(Commit { audit: vec![row.clone(), row.clone()], ..commit(&live) }).await.unwrap();
    shared::store::audit::append(&world.rows, &[row]).await.unwrap();
    shared::store::audit::append(&world.rows, &[]).await.unwrap();
    let same = "SELECT count(*) FROM assistant_audit a JOIN turns USING (turn_id) WHERE tool_call_id = 'c1' \
        AND service_actor = 'agent' AND user_actor = 'anna' AND detail = '{\"ms\": 5}'";
    assert_eq!(world.count(same).await, 3);
}

#[tokio::test]
async fn nul_goes_in_as_the_replacement_character() {
    let world = World::new().await;
    let (conversation, turn) = (conversation_id(), turn_id());
    let files = [FileRef {
        blob: "b\0".to_owned(),
        name: "n\0".to_owned(),
        mime: "m\0".to_owned(),
        size: 1,
    }];
    let begin = BeginTurn {
        files: &files,
        title: "t\0",
        owner: "o\0",
        ..world.message(conversation, turn, "x\0y")
    };
    let epoch = started(world.begin_as(&begin).await).epoch;
    let live = crate::world::Live { conversation, turn, epoch };
    let dirty = json!({"k\0": "v\0", "literal": "\\u0000"});
    let mut card = crate::world::card(&["c\0"]);
    card.prompt = "p\0".to_owned();
    let everything = Commit {
        run: RunChange::Save(dirty.clone()),
        assistant: Some(AssistantRow { parts: json!([dirty]), ..answer_row("a\0") }),
        append_parts: Some((turn, json!([dirty]))),
        card: Some(card),
        finish: Some((TurnStatus::Interrupted, json!([dirty]))),
        release_lease: true,
        ..commit(&live)
    };
    world.commit(everything).await.unwrap();
    let next = started(world.begin(conversation, "z").await);
    assert_eq!(
        next.checkpoint.unwrap().run,
        json!({"k\u{fffd}": "v\u{fffd}", "literal": "\\u0000"})
    );
    assert_eq!(next.open_card.unwrap().calls[0].tool_call_id, "c\u{fffd}");
    assert_eq!(contents(&next.history), ["x\u{fffd}y", "a\u{fffd}"]);
    assert_eq!(next.history[1].parts.as_ref().unwrap()[1]["literal"], "\\u0000");
    assert_eq!(world.get(conversation).await.title, "t\u{fffd}");
}

/// On the way to the first token: one round trip of about a millisecond.
#[tokio::test]
async fn beginning_a_turn_is_quick() {
    let world = World::new().await;
    let conversation = conversation_id();
    for n in 0..30 {
        world
            .talk(
                conversation,
                &format!("question {n}"),
                "An answer of some length, as answers are.",
            )
            .await;
    }
    let mut took = Vec::new();
    for n in 0..200 {
        let target = if n % 2 == 0 { conversation } else { conversation_id() };
        let at = Instant::now();
        let begun = started(world.begin(target, "Покажи дашборды с проблемами валидации").await);
        took.push(at.elapsed());
        lease::release(&world.hot, target, begun.epoch).await.unwrap();
    }
    took.sort();
    println!("begin: p50 {:?} p95 {:?} max {:?}", took[100], took[190], took[199]);
    assert!(took[100] < Duration::from_millis(20), "{:?}", took[100]);
}

impl World {
    async fn begin_as_new(
        &self,
        conversation: contract::ids::ConversationId,
        turn: contract::ids::TurnId,
    ) -> Begun {
        self.begin_as(&self.message(conversation, turn, "race")).await
    }
}

fn contents(rows: &[turns::HistoryRow]) -> Vec<&str> {
    rows.iter().map(|row| row.content.as_str()).collect()
}
