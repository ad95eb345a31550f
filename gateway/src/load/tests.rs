use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn load() -> Arc<Load> {
    Load::new(Limits { streams: 3, streams_per_user: 2, jobs_per_user: 2 })
}

fn user(name: &str) -> UserId {
    UserId::try_from(name.to_owned()).unwrap()
}

fn kind(place: &Place) -> &'static str {
    match place {
        Place::Open(_) => "open",
        Place::Refuse(code, _) | Place::Away(code) => code.as_str(),
    }
}

#[test]
fn a_user_has_so_many_streams_and_all_have_so_many() {
    let load = load();
    let (alice, bob) = (user("alice"), user("bob"));
    let first = load.stream(&alice);
    let second = load.stream(&alice);
    assert_eq!([kind(&first), kind(&second)], ["open", "open"]);
    assert_eq!(kind(&load.stream(&alice)), "USER_BUSY");
    let third = load.stream(&bob);
    assert_eq!(kind(&third), "open");
    assert_eq!(kind(&load.stream(&bob)), "QUEUE_FULL");
    drop(first);
    assert_eq!(kind(&load.stream(&alice)), "open");
    drop((second, third));
    assert!(load.streaming.lock().unwrap().is_empty());
}

#[test]
fn refusals_are_streams_too_and_so_have_a_limit() {
    let load = load();
    let alice = user("alice");
    let held: Vec<Place> = (0..2).map(|_| load.stream(&alice)).collect();
    let refusing: Vec<Place> = (0..REFUSING_STREAMS).map(|_| load.stream(&alice)).collect();
    assert!(refusing.iter().all(|place| matches!(place, Place::Refuse(..))));
    assert!(matches!(load.stream(&alice), Place::Away(ErrorCode::UserBusy)));
    drop((held, refusing));
}

#[test]
fn memory_is_given_back() {
    let load = load();
    let all = load.memory(MEMORY_KIB * 1024).unwrap();
    assert!(load.memory(1).is_none());
    drop(all);
    assert!(load.memory(1).is_some());
}

/// A reservation that led to nothing is no job; what was published counts until it is looked up.
#[test]
fn a_job_that_was_not_published_frees_its_place() {
    let load = load();
    let alice = user("alice");
    let [first, second, third] = [1, 2, 3].map(|n| TurnId(uuid::Uuid::from_u128(n)));
    let conversation = ConversationId(uuid::Uuid::from_u128(7));
    let slot = |turn| JobPlace { app: Arc::clone(&load), user: alice.clone(), turn, kept: false };
    assert!(load.reserve(&alice, first).is_none());
    assert!(load.reserve(&alice, second).is_none());
    slot(first).published(conversation);
    assert!(load.reserve(&alice, third).is_some());
    assert_eq!(load.look(&alice), [(first, conversation)]);
    drop(slot(second));
    assert!(load.reserve(&alice, third).is_none());
    drop(slot(third));
    drop(slot(first));
    assert!(load.jobs.lock().unwrap().is_empty());
}

#[tokio::test]
async fn done_jobs_are_noticed_for_all_who_ask_at_once() {
    let load = load();
    let alice = user("alice");
    let looks = AtomicUsize::new(0);
    let id = |n| TurnId(uuid::Uuid::from_u128(n));
    let ask = |turn, is_there: bool| {
        let (load, alice, looks) = (&load, &alice, &looks);
        async move {
            let look = |_, _| async {
                looks.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                is_there
            };
            let place = load.job_unless(look, alice, turn).await?;
            place.published(ConversationId(turn.0));
            Ok::<_, ErrorCode>(())
        }
    };
    assert_eq!(tokio::join!(ask(id(1), true), ask(id(2), true)), (Ok(()), Ok(())));
    assert_eq!(looks.load(Ordering::Relaxed), 0);
    // Both are done: whoever comes finds room, also the one that comes while another looks, also right after that.
    for n in [10, 20, 30] {
        let both = tokio::join!(ask(id(n), false), ask(id(n + 1), false));
        assert_eq!(both, (Ok(()), Ok(())));
    }
    assert_eq!(looks.load(Ordering::Relaxed), 6);
    // Nothing is done: one look tells many.
    let asked = futures_util::future::join_all((40..80).map(|n| ask(id(n), true))).await;
    assert!(asked.iter().all(|place| *place == Err(ErrorCode::UserBusy)));
    assert_eq!(looks.load(Ordering::Relaxed), 8);
}
