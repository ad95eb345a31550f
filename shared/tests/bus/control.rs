//! Cancels and session owners.
use std::time::Duration;

use contract::control::{SessionAnswer, SessionAsk};
use shared::bus::control::{Asked, CancelWatch, SessionOwner, ask_session, publish_cancel};

use crate::server::{Server, session, turn, within};

#[tokio::test]
async fn a_cancel_reaches_the_running_turn_only() {
    let (_server, bus) = Server::ready().await;
    let (running, other) = (turn(), turn());
    let mut watch = CancelWatch::open(&bus, running).await.unwrap();
    publish_cancel(&bus, other, "user").await.unwrap();
    publish_cancel(&bus, running, "user").await.unwrap();
    let cancel = within(2, watch.cancelled()).await;
    assert_eq!((cancel.turn_id, cancel.by.as_str()), (running, "user"));
    assert_eq!(within(2, watch.cancelled()).await, cancel);
}

#[tokio::test]
async fn a_cancel_waits_for_a_turn_that_starts_later() {
    let (_server, bus) = Server::ready().await;
    let turn = turn();
    publish_cancel(&bus, turn, "user").await.unwrap();
    publish_cancel(&bus, turn, "user").await.unwrap();
    let mut watch = CancelWatch::open(&bus, turn).await.unwrap();
    assert!(watch.is_cancelled());
    assert_eq!(within(2, watch.cancelled()).await.turn_id, turn);
}

#[tokio::test]
async fn a_cancel_during_an_outage_is_seen_after_it() {
    let (mut server, worker) = Server::ready().await;
    let turn = turn();
    let mut watch = CancelWatch::open(&worker, turn).await.unwrap();
    server.kill();
    server.start_again();
    let gateway = server.connect().await;
    publish_cancel(&gateway, turn, "user").await.unwrap();
    assert_eq!(within(10, watch.cancelled()).await.turn_id, turn);
}

#[tokio::test]
async fn nobody_owns_a_session_without_a_stream() {
    let (_server, bus) = Server::ready().await;
    let ask = SessionAsk::Join { turn_id: turn() };
    assert_eq!(ask_session(&bus, &session("s1"), &ask).await, Asked::NoOwner);
}

#[tokio::test]
async fn the_owner_answers() {
    let (server, bus) = Server::ready().await;
    let asker = server.connect().await;
    let (name, join) = (session("s1"), SessionAsk::Join { turn_id: turn() });
    let mut owner = SessionOwner::subscribe(&bus, &name).await.unwrap();
    let (asked, ()) = tokio::join!(ask_session(&asker, &name, &join), async {
        let (ask, reply) = within(2, owner.next()).await;
        assert_eq!(ask, join);
        reply.send(&SessionAnswer::Closed { wait_ms: 250 }).await.unwrap();
    });
    assert_eq!(asked, Asked::Answer(SessionAnswer::Closed { wait_ms: 250 }));
    owner.unsubscribe().await.unwrap();
    assert_eq!(ask_session(&asker, &name, &join).await, Asked::NoOwner);
}

#[tokio::test]
async fn a_mute_owner_is_not_waited_for() {
    let (_server, bus) = Server::ready().await;
    let _owner = SessionOwner::subscribe(&bus, &session("s1")).await.unwrap();
    let claim = SessionAsk::Claim { reader: "r".to_owned() };
    let name = session("s1");
    let asked = tokio::time::timeout(Duration::from_secs(1), ask_session(&bus, &name, &claim));
    assert_eq!(asked.await.unwrap(), Asked::Timeout);
}
