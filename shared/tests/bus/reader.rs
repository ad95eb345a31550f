//! The session reader: once, in order, whatever happens.
use std::collections::HashMap;
use std::time::Duration;

use contract::event::{Event, SessionRecord};
use contract::ids::{ConversationId, SessionToken, TurnId};
use contract::subject::EventAddress;
use shared::bus::Bus;
use shared::bus::events::{self, Publisher, SessionReader, Stored, publish_unfenced};
use shared::runtime::trace::Trace;

use crate::server::{Server, conversation, end, envelope, queued, session, token, turn, within};

pub async fn queue(
    bus: &Bus,
    conversation: ConversationId,
    name: &SessionToken,
    turn: TurnId,
) -> u64 {
    let event = queued(turn);
    publish_unfenced(bus, conversation, name, &event, &Trace::default()).await.unwrap()
}

/// Attempt 1 of a turn: `tokens` tokens and the end.
pub async fn write_turn(
    bus: Bus,
    address: EventAddress,
    (tokens, pause): (u64, Duration),
) -> Vec<u64> {
    let EventAddress { conversation, session, turn } = address;
    let mut publisher = Publisher::open(&bus, conversation, &session, turn).await.unwrap();
    let mut written = Vec::new();
    for n in 1..=tokens {
        let event = token(turn, 1, n);
        written.push(publisher.publish(&event, &Trace::default()).await.unwrap());
        tokio::time::sleep(pause).await;
    }
    let event = end(turn, 1, tokens + 1);
    written.push(publisher.publish(&event, &Trace::default()).await.unwrap());
    written
}

/// Reads until `turns` turns have ended; panics on anything out of order.
pub async fn read_ends(reader: &mut SessionReader, turns: usize) -> HashMap<TurnId, Vec<u64>> {
    let (mut read, mut ended) = (HashMap::<TurnId, Vec<u64>>::new(), 0);
    while ended < turns {
        // A caller that gives up and comes back must not lose anything.
        let Ok(stored) = tokio::time::timeout(Duration::from_millis(70), reader.next()).await
        else {
            continue;
        };
        let seqs = read.entry(stored.address.turn).or_default();
        assert!(seqs.last().is_none_or(|last| *last < stored.seq), "{seqs:?} {}", stored.seq);
        seqs.push(stored.seq);
        ended += usize::from(stored.envelope.event.is_terminal());
    }
    read
}

pub fn address(conversation: ConversationId, session: &SessionToken, turn: TurnId) -> EventAddress {
    EventAddress { conversation, session: session.clone(), turn }
}

fn seqs(stored: &[Stored]) -> Vec<u64> {
    stored.iter().map(|stored| stored.seq).collect()
}

/// Several turns at once; the reader gets every event once and in order.
async fn check_exactly_once(capacity: Option<usize>, turns: usize, kills: u32) {
    let (mut server, writer) = Server::ready().await;
    let gateway = server.connect_with(capacity).await;
    let name = session("s1");
    let (mut reader, backlog) = SessionReader::open(&gateway, &name, None).await.unwrap();
    assert_eq!(backlog, []);
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..turns {
        let (conversation, turn) = (conversation(), turn());
        let first = queue(&writer, conversation, &name, turn).await;
        let (bus, to) = (writer.clone(), address(conversation, &name, turn));
        writers.spawn(async move {
            let pause = Duration::from_millis(u64::from(kills) * 2);
            let mut written = write_turn(bus, to, (400, pause)).await;
            written.insert(0, first);
            (turn, written)
        });
    }
    let trouble = async {
        for _ in 0..kills {
            tokio::time::sleep(Duration::from_millis(400)).await;
            server.kill();
            tokio::time::sleep(Duration::from_millis(200)).await;
            server.start_again();
        }
    };
    let work = async { tokio::join!(trouble, read_ends(&mut reader, turns)).1 };
    let read = within(60, work).await;
    let written: HashMap<_, _> = within(10, writers.join_all()).await.into_iter().collect();
    assert_eq!(read, written);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_turns_of_a_session_arrive_once_and_in_order() {
    check_exactly_once(None, 5, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_the_server_is_killed() {
    check_exactly_once(None, 4, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_buffers_overflow() {
    check_exactly_once(Some(16), 4, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_everything_goes_wrong() {
    check_exactly_once(Some(16), 4, 2).await;
}

#[tokio::test]
async fn a_later_reader_gets_the_past_as_backlog() {
    let (_server, bus) = Server::ready().await;
    let (name, conversation) = (session("s1"), conversation());
    let (ended, waiting) = (turn(), turn());
    let first = queue(&bus, conversation, &name, ended).await;
    let to = address(conversation, &name, ended);
    let mut written = write_turn(bus.clone(), to.clone(), (3, Duration::ZERO)).await;
    written.insert(0, first);
    let second = queue(&bus, conversation, &name, waiting).await;
    queue(&bus, conversation, &session("other"), turn()).await;
    let (mut reader, backlog) = SessionReader::open(&bus, &name, None).await.unwrap();
    let open = address(conversation, &name, waiting);
    assert_eq!(backlog, [to, open.clone()]);
    let mut rest = write_turn(bus.clone(), open.clone(), (2, Duration::ZERO)).await;
    rest.insert(0, second);
    let read = within(5, read_ends(&mut reader, 2)).await;
    assert_eq!(read, HashMap::from([(ended, written), (waiting, rest.clone())]));

    let (mut reader, backlog) = SessionReader::open(&bus, &name, Some(waiting)).await.unwrap();
    assert_eq!(backlog, [open]);
    let read = within(5, read_ends(&mut reader, 1)).await;
    assert_eq!(read, HashMap::from([(waiting, rest)]));
}

#[tokio::test]
async fn what_the_record_says_was_delivered_is_not_read_again() {
    let (_server, bus) = Server::ready().await;
    let (name, conversation) = (session("s1"), conversation());
    let (below, done, open) = (turn(), turn(), turn());
    let watermark = queue(&bus, conversation, &name, below).await;
    for turn in [done, open] {
        queue(&bus, conversation, &name, turn).await;
    }
    for turn in [below, done, open] {
        write_turn(bus.clone(), address(conversation, &name, turn), (1, Duration::ZERO)).await;
    }
    let nil = uuid::Uuid::nil();
    let record = SessionRecord { watermark, done: vec![done], done_at: vec![0] };
    for (n, record) in [(1, SessionRecord::default()), (1, record.clone())] {
        let event = envelope(TurnId(nil), 0, n, Event::Session(record));
        let trace = Trace::default();
        publish_unfenced(&bus, ConversationId(nil), &name, &event, &trace).await.unwrap();
    }
    let (mut reader, backlog) = SessionReader::open(&bus, &name, None).await.unwrap();
    assert_eq!(reader.record(), &record);
    let turns: Vec<_> = backlog.iter().map(|backlog| backlog.turn).collect();
    assert_eq!(turns, [open]);
    let read = within(5, read_ends(&mut reader, 1)).await;
    assert_eq!(read.keys().collect::<Vec<_>>(), [&open]);
    reader.recheck();
    assert!(tokio::time::timeout(Duration::from_millis(200), reader.next()).await.is_err());
}

#[tokio::test]
async fn a_turn_of_another_session_can_be_followed() {
    let (_server, bus) = Server::ready().await;
    let (conversation, followed) = (conversation(), turn());
    let there = address(conversation, &session("there"), followed);
    let start = queue(&bus, conversation, &there.session, followed).await;
    let mut publisher =
        Publisher::open(&bus, conversation, &there.session, followed).await.unwrap();
    for n in 1..=3 {
        publisher.publish(&token(followed, 1, n), &Trace::default()).await.unwrap();
    }
    let (mut reader, _) = SessionReader::open(&bus, &session("here"), None).await.unwrap();
    assert_eq!(reader.reached(followed), None);
    assert!(reader.follow(&there).await.unwrap());
    for seq in start..=start + 3 {
        assert_eq!(within(5, reader.next()).await.seq, seq);
    }
    publisher.publish(&end(followed, 1, 4), &Trace::default()).await.unwrap();
    assert_eq!(within(5, reader.next()).await.seq, start + 4);
    assert_eq!(reader.reached(followed), Some(start + 4));
    let nothing = address(conversation, &session("there"), turn());
    assert!(!reader.follow(&nothing).await.unwrap());
    let subject = contract::subject::event(conversation, &there.session, followed);
    let (page, complete) = events::page(&bus, &subject, start + 2).await.unwrap();
    assert_eq!((seqs(&page), complete), (vec![start + 2, start + 3, start + 4], true));
}

/// Nobody takes events for a while: they wait in the stream, not in the reader.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_skimmed_is_read_later() {
    let (_server, bus) = Server::ready().await;
    let (name, conversation) = (session("s1"), conversation());
    let (mut reader, _) = SessionReader::open(&bus, &name, None).await.unwrap();
    let turns = [turn(), turn()];
    let writing = async {
        let mut written = HashMap::new();
        for turn in turns {
            let first = queue(&bus, conversation, &name, turn).await;
            let to = address(conversation, &name, turn);
            let mut seqs = write_turn(bus.clone(), to, (300, Duration::ZERO)).await;
            seqs.insert(0, first);
            written.insert(turn, seqs);
        }
        written
    };
    let written = tokio::select! {
        written = writing => written,
        never = reader.skim() => match never {},
    };
    let read = within(20, read_ends(&mut reader, 2)).await;
    assert_eq!(read, written);
}

/// One answer of the server holds so many bytes; the rest comes with the next.
#[tokio::test]
async fn large_events_come_in_pages() {
    let (_server, bus) = Server::ready().await;
    let (name, conversation, turn) = (session("s1"), conversation(), turn());
    let first = queue(&bus, conversation, &name, turn).await;
    let mut publisher = Publisher::open(&bus, conversation, &name, turn).await.unwrap();
    for n in 1..=20 {
        let content = "x".repeat(100_000);
        let event = envelope(turn, 1, n, Event::Message { content });
        publisher.publish(&event, &Trace::default()).await.unwrap();
    }
    publisher.publish(&end(turn, 1, 21), &Trace::default()).await.unwrap();
    let subject = contract::subject::event(conversation, &name, turn);
    let (page, complete) = events::page(&bus, &subject, 1).await.unwrap();
    assert!(!complete && (2..10).contains(&page.len()), "{} events", page.len());
    let (mut reader, _) = SessionReader::open(&bus, &name, None).await.unwrap();
    let read = within(10, read_ends(&mut reader, 1)).await;
    assert_eq!(read[&turn], (first..=first + 21).collect::<Vec<_>>());
}

/// The last event has no successor that would show its loss.
#[tokio::test]
async fn a_lost_last_event_is_found_in_silence() {
    let (server, writer) = Server::ready().await;
    let gateway = server.connect().await;
    let (name, conversation, turn) = (session("s1"), conversation(), turn());
    let first = queue(&writer, conversation, &name, turn).await;
    let (mut reader, _) = SessionReader::open(&gateway, &name, None).await.unwrap();
    let stream = writer.js.get_stream("AGENT_EVENTS").await.unwrap();
    let config = stream.cached_info().config.clone();
    let mute = async_nats::jetstream::stream::Config { republish: None, ..config };
    writer.js.update_stream(mute).await.unwrap();
    let to = address(conversation, &name, turn);
    let mut written = write_turn(writer, to, (1, Duration::ZERO)).await;
    written.insert(0, first);
    let read = within(6, read_ends(&mut reader, 1)).await;
    assert_eq!(read[&turn], written);
}
