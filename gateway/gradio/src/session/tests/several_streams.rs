//! More than one stream in the play: attached submissions, a newer reader, the end of a gateway, joins at the close.
use super::*;

#[test]
fn an_attached_submission_shows_another_turn_from_its_cursor_on() {
    let mut play = Play::new();
    play.resume(9).event(9, 50, attach(1, 12)).shown(9, 1, 10, queued(None));
    play.shown(9, 1, 11, token("a")).shown(9, 1, 12, token("b")).shown(9, 1, 13, token("c"));
    play.wait(150).shown(9, 1, 60, ended(TurnStatus::Completed, None)).close();
    play.check(expect![[r#"
        resume 9
        9@50 queued
            9 estimation
        1@10 queued for 9
        1@11 stream_token for 9
            9 starts
        1@12 stream_token for 9
        1@13 stream_token for 9
            9 first token "c"  [13]
        +150 ms
        1@60 turn_end for 9
            9 plain "abc" "completed"  [60]
            9 completed plain "abc" "completed"  record 0 [9]
        close -> Some(Close)
    "#]]);
}

#[test]
fn an_attached_submission_says_when_the_beginning_is_gone() {
    let mut play = Play::new();
    play.resume(9).event(9, 50, attach(1, 0)).shown(9, 1, 40, token("c")).wait(150);
    play.shown(9, 1, 60, ended(TurnStatus::Completed, Some("abc")));
    play.check(expect![[r#"
        resume 9
        9@50 queued
            9 estimation
        1@40 stream_token for 9
            9 starts
            9 first stream_gap
            9 token "c"  [40]
        +150 ms
        1@60 turn_end for 9
            9 plain "abc" "completed"  [60]
            9 completed plain "abc" "completed"  record 0 [9]
    "#]]);
}

#[test]
fn a_long_text_whose_beginning_is_gone_is_not_told_by_half() {
    let mut play = Play::new();
    play.resume(9).event(9, 50, attach(1, 40)).shown(9, 1, 40, token("c")).wait(150);
    play.shown(9, 1, 60, ended(TurnStatus::Completed, None));
    play.check(expect![[r#"
        resume 9
        9@50 queued
            9 estimation
        1@40 stream_token for 9
            9 starts
        +150 ms
        1@60 turn_end for 9
            9 first error "UNAVAILABLE"
            9 completed error "UNAVAILABLE"  record 0 [9]
    "#]]);
}

#[test]
fn cancelling_an_attached_submission_ends_the_showing_only() {
    let mut play = Play::new();
    play.resume(9).event(9, 50, attach(1, 11)).shown(9, 1, 10, queued(None));
    play.shown(9, 1, 11, token("a")).shown(9, 1, 61, token("b")).wait(150);
    play.event(9, 60, ended(TurnStatus::Cancelled, None)).shown(9, 1, 62, token("c")).close();
    play.check(expect![[r#"
        resume 9
        9@50 queued
            9 estimation
        1@10 queued for 9
        1@11 stream_token for 9
            9 starts
        1@61 stream_token for 9
            9 first token "b"  [61]
        +150 ms
        9@60 turn_end
            9 plain "ab" "cancelled"
            9 completed plain "ab" "cancelled"  record 0 [9]
        1@62 stream_token for 9
        close -> Some(Close)
    "#]]);
}

#[test]
fn a_gateways_refusal_is_no_place_to_go_on_from() {
    let mut session = Play::new().session;
    session.resume(id(1), Duration::ZERO);
    let mut told = Vec::new();
    let refusal = [queued(None), error(), ended(TurnStatus::Rejected, None)];
    for (seq, event) in (10..).zip(refusal) {
        let Input::Event { event_id, place, mut envelope } = input(1, 1, seq, event) else {
            return;
        };
        envelope.attempt = 0;
        told.extend(session.handle(Input::Event { event_id, place, envelope }, Duration::ZERO));
    }
    let [.., Output::Frame { frame: Frame::Generating { value, .. }, .. }] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert_eq!(value["metadata"]["code"], "LLM_UNAVAILABLE");
    assert_eq!(value["metadata"].get("cursor"), None);
}

#[test]
fn an_attached_submission_waits_for_a_turn_that_nobody_has_started() {
    let mut play = Play::new();
    play.resume(9).event(9, 50, attach(1, 0)).shown(9, 1, 10, queued(None)).wait(20_000);
    let waiting = |play: &Play| play.session.waiting(play.at, Duration::from_secs(20));
    assert_eq!(waiting(&play), [id(9)]);
    play.shown(9, 1, 60, started());
    assert_eq!(waiting(&play), []);
}

#[test]
fn a_newer_reader_gets_what_the_older_one_did_not_tell() {
    let delivered = Delivered { turn_id: id(1), seq: 11 };
    let mut play = Play::reopened(SessionRecord::default(), vec![delivered]);
    play.resume(1).event(1, 10, queued(None)).event(1, 11, token("a")).event(1, 12, token("b"));
    play.wait(150).event(1, 13, ended(TurnStatus::Completed, None)).close();
    play.check(expect![[r#"
        resume 1
        1@10 queued
        1@11 stream_token
        1@12 stream_token
            1 first token "b"  [12]
        +150 ms
        1@13 turn_end
            1 plain "ab" "completed"  [13]
            1 completed plain "ab" "completed"  record 0 [1]
        close -> Some(Close)
    "#]]);
}

#[test]
fn a_delivered_turn_is_not_told_again() {
    let record = SessionRecord { watermark: 5, done: vec![id(2)], done_at: vec![7] };
    let mut play = Play::reopened(record, Vec::new());
    play.event(1, 5, queued(None)).event(2, 7, queued(None)).event(2, 8, token("x")).wait(1);
    assert!(play.session.is_fresh());
    play.event(3, 9, queued(None));
    play.check(expect![[r#"
        1@5 queued
        2@7 queued
        2@8 stream_token
        +1 ms
        3@9 queued
    "#]]);
}

#[test]
fn the_gateway_goes_down() {
    let mut play = Play::new();
    play.resume(1)
        .event(1, 10, queued(None))
        .event(1, 11, card())
        .join(2)
        .end(ErrorCode::Unavailable);
    play.event(1, 12, token("unseen")).join(3).wait(150).close().close().join(4);
    play.check(expect![[r#"
        resume 1
        1@10 queued
            1 estimation  [10]
        1@11 confirm_required
            1 starts
        join 2 -> Open
        end UNAVAILABLE
            1 first error "UNAVAILABLE"
        1@12 stream_token
        join 3 -> Open
        +150 ms
            2 first error "UNAVAILABLE"
            3 first error "UNAVAILABLE"
            1 completed error "UNAVAILABLE"  record 0 [1]
            2 completed error "UNAVAILABLE"  record 0 [1, 2]
            3 completed error "UNAVAILABLE"  record 0 [1, 2, 3]
        close -> Some(Close)
        close -> None
        join 4 -> Closed { wait_ms: 250 }
    "#]]);
}

#[test]
fn a_silent_stream_beats_and_gives_up_a_join_without_events() {
    let mut play = Play::new();
    play.resume(1).wait(9_999).wait(1).close().join(2);
    play.check(expect![[r#"
        resume 1
        +9999 ms
        +1 ms
            1 first error "UNAVAILABLE"
            1 completed error "UNAVAILABLE"  record 0 [1]
        close -> Some(Close)
        join 2 -> Closed { wait_ms: 250 }
    "#]]);
    let mut play = Play::new();
    play.resume(1).event(1, 10, queued(None)).wait(14_999).wait(1).wait(14_999).wait(1);
    play.check(expect![[r#"
        resume 1
        1@10 queued
            1 estimation  [10]
        +14999 ms
        +1 ms
            heartbeat
        +14999 ms
        +1 ms
            heartbeat
    "#]]);
}

#[test]
fn joins_wait_until_the_client_must_have_seen_the_close() {
    let mut play = Play::new();
    play.resume(1).event(1, 10, queued(None)).wait(150);
    play.event(1, 11, ended(TurnStatus::Completed, Some(""))).close().join(2);
    play.wait(500).join(2);
    play.session.body_ended(play.at);
    play.wait(100).join(2).wait(200).join(2).wait(50).join(2);
    // A client that slept through the close may join before it reads on.
    play.wait(60_000).join(3).wait(249).join(3).wait(1).join(3);
    play.check(expect![[r#"
        resume 1
        1@10 queued
            1 estimation  [10]
        +150 ms
        1@11 turn_end
            1 starts
            1 first plain "" "completed"  [11]
            1 completed plain "" "completed"  record 0 [1]
        close -> Some(Close)
        join 2 -> Closed { wait_ms: 250 }
        +500 ms
        join 2 -> Closed { wait_ms: 250 }
        +100 ms
        join 2 -> Closed { wait_ms: 250 }
        +200 ms
        join 2 -> Closed { wait_ms: 50 }
        +50 ms
        join 2 -> Closed { wait_ms: 0 }
        +60000 ms
        join 3 -> Closed { wait_ms: 250 }
        +249 ms
        join 3 -> Closed { wait_ms: 1 }
        +1 ms
        join 3 -> Closed { wait_ms: 0 }
    "#]]);
}

#[test]
fn the_watermark_stays_below_what_is_pending() {
    let mut session = Session::new(Opening {
        record: SessionRecord::default(),
        delivered: Vec::new(),
        locale: Locale::En,
    });
    let mut last = SessionRecord::default();
    let at = Duration::from_secs(1);
    for turn in 1..=200_u64 {
        session.resume(id(u128::from(turn)), Duration::ZERO);
        let key = u128::from(turn);
        session.handle(input(key, key, turn * 10, queued(None)), at);
        // The hundredth stays pending.
        if turn != 100 {
            let end = ended(TurnStatus::Completed, None);
            for output in session.handle(input(key, key, turn * 10 + 1, end), at) {
                if let Output::Complete { record, .. } = output {
                    last = record;
                }
            }
        }
    }
    assert!(last.watermark < 1_000, "{}", last.watermark);
    let known =
        |turn: u64| turn * 10 <= last.watermark || last.done.contains(&id(u128::from(turn)));
    assert!((1..=200).all(|turn| known(turn) == (turn != 100)));
}

#[test]
fn a_turn_is_remembered_over_any_number_of_streams() {
    let mut record = SessionRecord::default();
    for turn in 1..=200_u64 {
        let mut play = Play::reopened(record, Vec::new());
        let number = u128::from(turn);
        play.resume(number).event(number, turn * 10, queued(None)).wait(150);
        let end = input(number, number, turn * 10 + 1, ended(TurnStatus::Completed, Some("")));
        let outputs = play.session.handle(end, play.at);
        let told = outputs.into_iter().find_map(|output| match output {
            Output::Complete { record, .. } => Some(record),
            _ => None,
        });
        record = told.unwrap();
        let known = |turn: u64| {
            turn * 10 <= record.watermark || record.done.contains(&id(u128::from(turn)))
        };
        assert!((1..=turn).all(known), "after turn {turn}: {record:?}");
        assert!(record.done.len() <= 64);
    }
}

#[test]
fn a_client_that_hung_up_at_the_close_has_seen_it() {
    let mut play = Play::new();
    play.resume(1).event(1, 10, queued(None)).wait(150);
    play.event(1, 11, ended(TurnStatus::Completed, Some(""))).close().join(2);
    play.session.close_seen();
    play.session.body_ended(play.at);
    play.join(2);
    play.check(expect![[r#"
        resume 1
        1@10 queued
            1 estimation  [10]
        +150 ms
        1@11 turn_end
            1 starts
            1 first plain "" "completed"  [11]
            1 completed plain "" "completed"  record 0 [1]
        close -> Some(Close)
        join 2 -> Closed { wait_ms: 250 }
        join 2 -> Closed { wait_ms: 0 }
    "#]]);
}

#[test]
fn a_stream_for_nothing_ends_without_an_error_if_the_session_is_known() {
    let nothing = |record: SessionRecord| Play::reopened(record, Vec::new()).session.nothing();
    assert_eq!(nothing(SessionRecord::default()), Some(Frame::SessionNotFound));
    let record = SessionRecord { watermark: 0, done: vec![id(1)], done_at: vec![1] };
    assert_eq!(nothing(record), Some(Frame::Close));
    let mut play = Play::new();
    play.resume(1);
    assert_eq!(play.session.nothing(), None);
}
