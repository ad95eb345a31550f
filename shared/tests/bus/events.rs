//! The fence, and questions to the stream of events.
use std::time::{Duration, Instant};

use contract::event::Event;
use contract::subject::{self, EventAddress};
use shared::bus::events::{
    self, Live, LiveItem, MultiLastError, Placed, PublishError, Publisher, publish_unfenced,
};
use shared::runtime::trace::Trace;

use crate::server::{Server, conversation, end, envelope, queued, session, token, turn, within};

#[tokio::test]
async fn a_takeover_fences_the_old_writer() {
    let (server, bus) = Server::ready().await;
    let (conversation, name, turn, trace) = (conversation(), session("s1"), turn(), Trace::root());
    publish_unfenced(&bus, conversation, &name, &queued(turn), &trace).await.unwrap();
    let mut old = Publisher::open(&bus, conversation, &name, turn).await.unwrap();
    assert!(matches!(old.tail().unwrap().envelope.event, Event::Queued(_)));
    old.publish(&token(turn, 1, 1), &trace).await.unwrap();
    let other = server.connect().await;
    let mut new = Publisher::open(&other, conversation, &name, turn).await.unwrap();
    assert_eq!(new.tail().unwrap().envelope, token(turn, 1, 1));
    // The old writer slips one in between open and first publish.
    old.publish(&token(turn, 1, 2), &trace).await.unwrap();
    let taken = new.publish(&token(turn, 2, 1), &trace).await.unwrap();
    assert_eq!(old.publish(&token(turn, 1, 3), &trace).await, Err(PublishError::Fenced));
    assert_eq!(new.publish(&token(turn, 2, 2), &trace).await, Ok(taken + 1));
    assert_eq!(new.last_seq(), taken + 1);
}

#[tokio::test]
async fn a_repeated_queued_leads_to_the_first() {
    let (_server, bus) = Server::ready().await;
    let (conversation, trace) = (conversation(), Trace::default());
    let [first, second] = [turn(), turn()];
    let at = |turn| EventAddress { conversation, session: session("s1"), turn };
    let queue = async |turn, repeats| {
        let event = queued(turn);
        events::publish_queued(&bus, &at(turn), &event, repeats, &trace).await.unwrap()
    };
    let placed = queue(first, Some("same")).await;
    assert!(!placed.duplicate);
    assert_eq!(queue(second, Some("same")).await, Placed { duplicate: true, ..placed });
    let found = events::at(&bus, placed.seq).await.unwrap().unwrap();
    assert_eq!((found.address, found.envelope), (at(first), queued(first)));
    assert_eq!(events::at(&bus, placed.seq + 1).await, Ok(None));

    let alone = queue(second, None).await;
    assert!(!alone.duplicate);
    assert_eq!(queue(second, None).await, Placed { duplicate: true, ..alone });
    let lasts = events::last_of_turns(&bus, &[second, turn(), first]).await.unwrap();
    let seqs: Vec<u64> = lasts.iter().map(|last| last.seq).collect();
    assert_eq!(seqs, [placed.seq, alone.seq]);
}

#[tokio::test]
async fn an_ended_turn_is_fenced() {
    let (_server, bus) = Server::ready().await;
    let (conversation, name, turn, trace) = (conversation(), session("s1"), turn(), Trace::root());
    let mut publisher = Publisher::open(&bus, conversation, &name, turn).await.unwrap();
    publish_unfenced(&bus, conversation, &name, &end(turn, 0, 2), &trace).await.unwrap();
    assert_eq!(publisher.publish(&token(turn, 1, 1), &trace).await, Err(PublishError::Fenced));
}

#[tokio::test]
async fn publishing_again_stores_once() {
    let (_server, bus) = Server::ready().await;
    let (conversation, name, turn, trace) = (conversation(), session("s1"), turn(), Trace::root());
    let first = publish_unfenced(&bus, conversation, &name, &queued(turn), &trace).await;
    let again = publish_unfenced(&bus, conversation, &name, &queued(turn), &trace).await;
    assert_eq!(first, again);
    let mut publisher = Publisher::open(&bus, conversation, &name, turn).await.unwrap();
    let seq = publisher.publish(&token(turn, 1, 1), &trace).await.unwrap();
    // As after an answer that was lost.
    let mut lost = Publisher::open(&bus, conversation, &name, turn).await.unwrap();
    assert_eq!(lost.publish(&token(turn, 1, 1), &trace).await, Ok(seq));
    let mut behind = Publisher::open(&bus, conversation, &name, turn).await.unwrap();
    assert_eq!(publisher.publish(&token(turn, 1, 2), &trace).await, Ok(seq + 1));
    assert_eq!(behind.publish(&token(turn, 1, 3), &trace).await, Ok(seq + 2));
}

#[tokio::test]
async fn an_event_that_is_too_large_is_refused() {
    let (_server, bus) = Server::ready().await;
    let turn = turn();
    let mut publisher = Publisher::open(&bus, conversation(), &session("s1"), turn).await.unwrap();
    let large = envelope(turn, 1, 1, Event::StreamToken { token: "x".repeat(260_000) });
    assert_eq!(publisher.publish(&large, &Trace::root()).await, Err(PublishError::TooLarge));
}

#[tokio::test]
async fn publishing_goes_on_after_a_restart() {
    let (mut server, bus) = Server::ready().await;
    let (conversation, name, turn, trace) = (conversation(), session("s1"), turn(), Trace::root());
    let mut publisher = Publisher::open(&bus, conversation, &name, turn).await.unwrap();
    publisher.publish(&token(turn, 1, 1), &trace).await.unwrap();
    server.kill();
    let (sent, ()) = tokio::join!(
        within(15, async { publisher.publish(&token(turn, 1, 2), &trace).await }),
        async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            server.start_again();
        }
    );
    sent.unwrap();
    let filter = subject::event(conversation, &name, turn);
    let stored = events::replay(&bus, &filter, 1).await.unwrap();
    let events: Vec<_> = stored.into_iter().map(|stored| stored.envelope).collect();
    assert_eq!(events, [token(turn, 1, 1), token(turn, 1, 2)]);
}

#[tokio::test]
async fn a_live_event_says_what_came_before_it() {
    let (_server, bus) = Server::ready().await;
    let (conversation, name, turn, trace) = (conversation(), session("s1"), turn(), Trace::root());
    let mut live = Live::subscribe(&bus, &subject::live_of_session(&name)).await.unwrap();
    let first = publish_unfenced(&bus, conversation, &name, &queued(turn), &trace).await.unwrap();
    let second =
        publish_unfenced(&bus, conversation, &name, &token(turn, 1, 1), &trace).await.unwrap();
    for (seq, previous) in [(first, 0), (second, first)] {
        let LiveItem::Event(stored, before) = within(2, live.next()).await else { panic!() };
        assert_eq!((stored.seq, before), (seq, previous));
        assert_eq!(stored.address.turn, turn);
    }
}

#[tokio::test]
async fn the_stream_answers_questions() {
    let (_server, bus) = Server::ready().await;
    let (conversation, name, trace) = (conversation(), session("s1"), Trace::root());
    let filter = subject::events_of_session(&name);
    assert_eq!(events::last(&bus, &filter).await, Ok(None));
    assert_eq!(events::first(&bus, &filter).await, Ok(None));
    assert_eq!(events::multi_last(&bus, &filter).await, Ok(Vec::new()));
    assert_eq!(events::replay(&bus, &filter, 1).await, Ok(Vec::new()));
    let turns = [turn(), turn(), turn()];
    for turn in turns {
        publish_unfenced(&bus, conversation, &name, &queued(turn), &trace).await.unwrap();
    }
    for n in 1..=1_200 {
        let (turn, event) = (turns[n % 2], n as u64);
        let token = token(turn, 1, event);
        publish_unfenced(&bus, conversation, &name, &token, &trace).await.unwrap();
    }
    let seqs = |stored: Vec<events::Stored>| stored.iter().map(|s| s.seq).collect::<Vec<_>>();
    let all = events::replay(&bus, &filter, 1).await.unwrap();
    assert_eq!(seqs(all), (1..=1_203).collect::<Vec<_>>());
    let newest = events::multi_last(&bus, &filter).await.unwrap();
    assert_eq!(seqs(newest), [3, 1_202, 1_203]);
    assert_eq!(events::first(&bus, &filter).await.unwrap().unwrap().seq, 1);
    assert_eq!(events::last(&bus, &filter).await.unwrap().unwrap().seq, 1_203);
    let one = subject::events_of_turn(turns[2]);
    assert_eq!(events::last(&bus, &one).await.unwrap().unwrap().seq, 3);
}

#[tokio::test]
async fn too_many_turns_are_said_to_be_too_many() {
    let (_server, bus) = Server::ready().await;
    let (conversation, name) = (conversation(), session("s1"));
    for _ in 0..1_100 {
        let turn = turn();
        let to = subject::event(conversation, &name, turn);
        let body = serde_json::to_vec(&queued(turn)).unwrap();
        bus.client.publish(to, body.into()).await.unwrap();
    }
    bus.client.flush().await.unwrap();
    let filter = subject::events_of_session(&name);
    let stored = async {
        while events::replay(&bus, &filter, 1).await.unwrap().len() < 1_100 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(10, stored).await;
    assert_eq!(events::multi_last(&bus, &filter).await, Err(MultiLastError::TooMany));
    let opened = events::SessionReader::open(&bus, &name, None).await.unwrap();
    assert_eq!(opened.1.len(), 1_100);
}

#[tokio::test]
async fn publishing_a_token_is_quick() {
    let (_server, bus) = Server::ready().await;
    let (conversation, name, turn, trace) = (conversation(), session("s1"), turn(), Trace::root());
    let mut publisher = Publisher::open(&bus, conversation, &name, turn).await.unwrap();
    let mut times = Vec::new();
    for n in 1..=500 {
        let started = Instant::now();
        publisher.publish(&token(turn, 1, n), &trace).await.unwrap();
        times.push(started.elapsed());
    }
    times.sort_unstable();
    println!("p50 {:?}, p99 {:?}", times[250], times[495]);
    assert!(times[250] < Duration::from_millis(20), "{:?}", times[250]);
}
