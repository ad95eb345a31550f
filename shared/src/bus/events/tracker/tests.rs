//! The tracker, fed by hand.
use contract::event::{Envelope, Event, TurnEnd, TurnStatus};
use contract::ids::{ConversationId, SessionToken};
use uuid::Uuid;

use crate::runtime::trace::Trace;

use super::*;

/// `1<0` is the event at sequence 1 whose predecessor on its subject is 0; `!` marks the terminal one.
fn event(turn: u128, text: &str) -> Incoming {
    let (text, terminal) = (text.trim_end_matches('!'), text.ends_with('!'));
    let (seq, previous) = text.split_once('<').unwrap();
    let turn_id = TurnId(Uuid::from_u128(turn));
    let end = TurnEnd { status: TurnStatus::Completed, text: None, usage: None, timings: None };
    let token = Event::StreamToken { token: seq.to_owned() };
    let event = if terminal { Event::TurnEnd(end) } else { token };
    let envelope = Envelope { v: 1, turn_id, attempt: 1, n: 1, event, ts: String::new() };
    Incoming {
        seq: seq.parse().unwrap(),
        previous: previous.parse().unwrap(),
        address: EventAddress {
            conversation: ConversationId(Uuid::from_u128(9)),
            session: SessionToken::try_from("s".to_owned()).unwrap(),
            turn: turn_id,
        },
        envelope: Some(envelope),
        trace: Trace::default(),
    }
}

fn delivered(tracker: &mut Tracker) -> Vec<u64> {
    std::iter::from_fn(|| tracker.pop_ready()).map(|stored| stored.seq).collect()
}

#[test]
fn events_in_order_go_straight_through() {
    let mut tracker = Tracker::default();
    for text in ["1<0", "4<1", "6<4"] {
        tracker.take_live(event(1, text));
    }
    assert_eq!(delivered(&mut tracker), [1, 4, 6]);
    assert!(tracker.repair().is_none());
}

#[test]
fn an_event_is_never_delivered_twice() {
    let mut tracker = Tracker::default();
    for text in ["1<0", "4<1", "1<0", "4<1"] {
        tracker.take_live(event(1, text));
        tracker.take_stored(event(1, text));
    }
    assert_eq!(delivered(&mut tracker), [1, 4]);
}

#[test]
fn a_gap_holds_back_the_event_that_shows_it() {
    let mut tracker = Tracker::default();
    tracker.take_live(event(1, "1<0"));
    tracker.take_live(event(1, "6<4"));
    assert_eq!(delivered(&mut tracker), [1]);
    assert_eq!(tracker.repair().unwrap().held.as_ref().unwrap().seq, 6);
    tracker.take_stored(event(1, "4<0"));
    tracker.take_stored(event(1, "6<4"));
    tracker.end_repair();
    assert_eq!(delivered(&mut tracker), [4, 6]);
}

#[test]
fn turns_are_tracked_apart() {
    let mut tracker = Tracker::default();
    tracker.take_live(event(1, "1<0"));
    tracker.take_live(event(2, "2<0"));
    tracker.take_live(event(1, "3<1"));
    assert_eq!(delivered(&mut tracker), [1, 2, 3]);
    assert!(tracker.repair().is_none());
}

#[test]
fn nothing_comes_after_the_end_of_a_turn() {
    let mut tracker = Tracker::default();
    for text in ["1<0", "2<1!", "3<2", "9<7"] {
        tracker.take_live(event(1, text));
    }
    assert_eq!(delivered(&mut tracker), [1, 2]);
    assert!(tracker.repair().is_none());
    assert!(tracker.open_turns().is_empty());
}

#[test]
fn a_message_that_cannot_be_read_leaves_no_gap() {
    let mut tracker = Tracker::default();
    tracker.take_live(event(1, "1<0"));
    tracker.take_live(Incoming { envelope: None, ..event(1, "2<1") });
    tracker.take_live(event(1, "3<2"));
    assert_eq!(delivered(&mut tracker), [1, 3]);
    assert!(tracker.repair().is_none());
}

#[test]
fn a_turn_found_in_the_stream_is_read_once() {
    let mut tracker = Tracker::default();
    let found = event(1, "5<0").address;
    tracker.seen_in_stream(found.clone(), 5);
    tracker.seen_in_stream(found.clone(), 5);
    tracker.end_repair();
    assert!(tracker.repair().is_none());
    tracker.set(found.clone(), 5, false);
    tracker.seen_in_stream(found, 5);
    assert!(tracker.repair().is_none());
}
