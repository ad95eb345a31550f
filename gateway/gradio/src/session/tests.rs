use contract::control::Delivered;
use contract::event::{Attach, Card, Queued, TurnEnd, TurnStatus, Usage};
use contract::ids::{ConfirmationId, SessionToken, UserId};
use expect_test::{Expect, expect};
use serde_json::Value;
use uuid::Uuid;

use super::*;

mod cuts;
mod search;
mod several_streams;

/// A stream under test. Writes down what it is told and what comes out.
struct Play {
    session: Session,
    at: Duration,
    transcript: String,
}

impl Play {
    fn new() -> Self {
        Self::reopened(SessionRecord::default(), Vec::new())
    }

    fn reopened(record: SessionRecord, delivered: Vec<Delivered>) -> Self {
        let opening = Opening { record, delivered, locale: Locale::En };
        Self { session: Session::new(opening), at: Duration::ZERO, transcript: String::new() }
    }

    fn wait(&mut self, ms: u64) -> &mut Self {
        self.at += Duration::from_millis(ms);
        self.line(format!("+{ms} ms"));
        self.input(Input::Tick)
    }

    fn join(&mut self, turn: u128) -> &mut Self {
        let answer = self.session.join(id(turn), self.at);
        self.line(format!("join {turn} -> {answer:?}"));
        self
    }

    fn resume(&mut self, turn: u128) -> &mut Self {
        self.session.resume(id(turn), self.at);
        self.line(format!("resume {turn}"));
        self
    }

    fn event(&mut self, turn: u128, seq: u64, event: Event) -> &mut Self {
        self.line(format!("{turn}@{seq} {}", name(&event)));
        self.input(input(turn, turn, seq, event))
    }

    /// An event of `source`, shown by the attached submission `turn`.
    fn shown(&mut self, turn: u128, source: u128, seq: u64, event: Event) -> &mut Self {
        self.line(format!("{source}@{seq} {} for {turn}", name(&event)));
        self.input(input(turn, source, seq, event))
    }

    fn input(&mut self, input: Input) -> &mut Self {
        for output in self.session.handle(input, self.at) {
            self.line(format!("    {}", show(&output)));
        }
        self
    }

    fn end(&mut self, code: ErrorCode) -> &mut Self {
        self.line(format!("end {}", code.as_str()));
        self.input(Input::End(code))
    }

    fn close(&mut self) -> &mut Self {
        let frame = self.session.close();
        self.line(format!("close -> {frame:?}"));
        self
    }

    fn line(&mut self, line: String) {
        self.transcript.push_str(&line);
        self.transcript.push('\n');
    }

    #[track_caller]
    fn check(&self, expected: Expect) {
        expected.assert_eq(&self.transcript);
    }
}

fn id(turn: u128) -> TurnId {
    TurnId(Uuid::from_u128(turn))
}

fn input(event_id: u128, turn: u128, seq: u64, event: Event) -> Input {
    let place = EventPlace { seq, conversation: "conv".to_owned() };
    let envelope = Box::new(Envelope {
        v: 1,
        turn_id: id(turn),
        attempt: 1,
        n: seq,
        event,
        ts: String::new(),
    });
    Input::Event { event_id: id(event_id), place, envelope }
}

fn queued(attach: Option<Attach>) -> Event {
    let user_id = UserId::try_from("alice".to_owned()).unwrap();
    let session_hash = "hash".to_owned();
    Event::Queued(Queued {
        user_id,
        session_hash,
        conversation_ref: None,
        ahead: 0,
        attach,
        digest: None,
    })
}

fn attach(turn: u128, after: u64) -> Event {
    let session = SessionToken::try_from("s".to_owned()).unwrap();
    queued(Some(Attach { turn_id: id(turn), session, after }))
}

fn started() -> Event {
    Event::Attempt { attempt: 1, worker: "w".to_owned() }
}

fn token(text: &str) -> Event {
    Event::StreamToken { token: text.to_owned() }
}

fn card() -> Event {
    Event::ConfirmRequired(Card {
        confirmation_id: ConfirmationId(Uuid::nil()),
        prompt: "sure?".to_owned(),
        thread_id: "t".to_owned(),
        calls: Vec::new(),
        expires_at: String::new(),
    })
}

fn error() -> Event {
    Event::Error { code: ErrorCode::LlmUnavailable, detail: "no".to_owned(), extra: None }
}

fn ended(status: TurnStatus, text: Option<&str>) -> Event {
    let text = text.map(str::to_owned);
    Event::TurnEnd(TurnEnd { status, text, usage: None, timings: None })
}

fn measured(text: &str) -> Event {
    let usage = Some(Usage::default());
    let (status, text) = (TurnStatus::Completed, Some(text.to_owned()));
    Event::TurnEnd(TurnEnd { status, text, usage, timings: None })
}

fn name(event: &Event) -> String {
    serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned()
}

fn show(output: &Output) -> String {
    match output {
        Output::Frame { frame, mark } => {
            let mark = mark.map_or(String::new(), |mark| format!("  [{}]", mark.seq));
            format!("{}{mark}", show_frame(frame))
        }
        Output::Complete { record, frame } => {
            let done: Vec<_> = record.done.iter().map(|turn| turn.0.as_u128()).collect();
            format!("{}  record {} {done:?}", show_frame(frame), record.watermark)
        }
    }
}

fn show_frame(frame: &Frame) -> String {
    match frame {
        Frame::Estimation { event, .. } => format!("{} estimation", event.0.as_u128()),
        Frame::Starts { event } => format!("{} starts", event.0.as_u128()),
        Frame::Generating { event, value, first } => {
            let first = if *first { "first " } else { "" };
            format!("{} {first}{}", event.0.as_u128(), show_value(value))
        }
        Frame::Completed { event, value } => {
            format!("{} completed {}", event.0.as_u128(), show_value(value))
        }
        Frame::Heartbeat => "heartbeat".to_owned(),
        Frame::Close => "close".to_owned(),
        Frame::SessionNotFound => "not found".to_owned(),
        Frame::Failed { text } => format!("failed {text}"),
    }
}

fn show_value(value: &Value) -> String {
    let metadata = &value["metadata"];
    match metadata["type"].as_str() {
        Some("stream_token") => format!("token {}", metadata["token"]),
        Some("error") => format!("error {}", metadata["code"]),
        Some(other) => other.to_owned(),
        None => format!("plain {} {}", value["content"], metadata["status"]),
    }
}

#[test]
fn a_turn_is_told_to_its_end() {
    let mut play = Play::new();
    play.resume(1).event(1, 10, queued(None)).event(1, 11, started()).event(1, 12, token("При"));
    play.event(1, 13, token("вет")).wait(200).event(1, 14, measured("Привет")).close().join(2);
    play.check(expect![[r#"
        resume 1
        1@10 queued
            1 estimation  [10]
        1@11 attempt
            1 starts
        1@12 stream_token
            1 first token "При"  [12]
        1@13 stream_token
            1 token "вет"  [13]
        +200 ms
        1@14 turn_end
            1 turn_end
            1 plain "Привет" "completed"  [14]
            1 completed plain "Привет" "completed"  record 0 [1]
        close -> Some(Close)
        join 2 -> Closed { wait_ms: 250 }
    "#]]);
}

#[test]
fn a_completion_stays_behind_the_answer_to_its_join() {
    let mut play = Play::new();
    play.event(1, 10, queued(None)).event(1, 11, ended(TurnStatus::Completed, Some("hi")));
    play.wait(200).join(1).wait(149).close().wait(1).close();
    play.check(expect![[r#"
        1@10 queued
        1@11 turn_end
        +200 ms
        join 1 -> Open
        +149 ms
        close -> None
        +1 ms
            1 estimation  [10]
            1 starts
            1 first plain "hi" "completed"  [11]
            1 completed plain "hi" "completed"  record 0 [1]
        close -> Some(Close)
    "#]]);
}

#[test]
fn nothing_overtakes_the_answer_to_a_join_on_an_open_stream() {
    let mut play = Play::new();
    play.resume(1).event(1, 10, queued(None)).wait(1_000);
    play.event(2, 11, queued(None)).join(2).event(2, 12, token("a")).wait(149);
    play.event(2, 13, token("b")).wait(1).event(2, 14, token("c"));
    play.check(expect![[r#"
        resume 1
        1@10 queued
            1 estimation  [10]
        +1000 ms
        2@11 queued
        join 2 -> Open
        2@12 stream_token
        +149 ms
        2@13 stream_token
        +1 ms
            2 estimation  [11]
            2 starts
            2 first token "a"  [12]
            2 token "b"  [13]
        2@14 stream_token
            2 token "c"  [14]
    "#]]);
}

#[test]
fn a_completion_does_not_wait_for_a_join_that_never_comes() {
    let mut play = Play::new();
    play.event(1, 10, queued(None)).event(1, 11, ended(TurnStatus::Completed, Some("hi")));
    play.wait(999).wait(1).close();
    play.check(expect![[r#"
        1@10 queued
        1@11 turn_end
        +999 ms
        +1 ms
            1 estimation  [10]
            1 starts
            1 first plain "hi" "completed"  [11]
            1 completed plain "hi" "completed"  record 0 [1]
        close -> Some(Close)
    "#]]);
}

#[test]
fn a_card_is_the_last_value_of_a_turn_that_pauses() {
    let mut play = Play::new();
    play.resume(1).event(1, 10, queued(None)).event(1, 11, token("a")).event(1, 12, card());
    play.wait(150).event(1, 13, ended(TurnStatus::Interrupted, Some("a")));
    play.check(expect![[r#"
        resume 1
        1@10 queued
            1 estimation  [10]
        1@11 stream_token
            1 starts
            1 first token "a"  [11]
        1@12 confirm_required
        +150 ms
        1@13 turn_end
            1 confirm_required  [13]
            1 completed confirm_required  record 0 [1]
    "#]]);
}

#[test]
fn a_card_that_is_not_the_last_value_comes_in_its_place() {
    let mut play = Play::new();
    play.resume(1).event(1, 10, queued(None)).event(1, 11, card()).event(1, 12, token("b"));
    play.event(1, 13, error()).wait(150).event(1, 14, measured("b"));
    play.check(expect![[r#"
        resume 1
        1@10 queued
            1 estimation  [10]
        1@11 confirm_required
            1 starts
        1@12 stream_token
            1 first confirm_required  [11]
            1 token "b"  [12]
        1@13 error
        +150 ms
        1@14 turn_end
            1 turn_end
            1 error "LLM_UNAVAILABLE"  [14]
            1 completed error "LLM_UNAVAILABLE"  record 0 [1]
    "#]]);
}

#[test]
fn repeated_and_late_events_give_no_frame() {
    let mut play = Play::new();
    play.resume(1).event(1, 10, queued(None)).event(1, 10, queued(None)).event(1, 11, token("a"));
    play.event(1, 11, token("a")).event(1, 10, queued(None)).wait(150);
    play.event(1, 12, ended(TurnStatus::Completed, None));
    play.event(1, 12, ended(TurnStatus::Completed, None)).event(1, 13, token("late"));
    play.check(expect![[r#"
        resume 1
        1@10 queued
            1 estimation  [10]
        1@10 queued
        1@11 stream_token
            1 starts
            1 first token "a"  [11]
        1@11 stream_token
        1@10 queued
        +150 ms
        1@12 turn_end
            1 plain "a" "completed"  [12]
            1 completed plain "a" "completed"  record 0 [1]
        1@12 turn_end
        1@13 stream_token
    "#]]);
}

#[test]
fn text_that_the_end_leaves_out_is_added_up() {
    let mut play = Play::new();
    play.resume(1).event(1, 10, queued(None)).event(1, 11, token("ab")).event(1, 12, token("cd"));
    play.event(1, 13, Event::Rewind { to_cursor: "11".to_owned() }).event(1, 14, token("€"));
    play.event(1, 15, Event::Rewind { to_cursor: "1".to_owned() }).event(1, 16, token("x"));
    play.event(1, 17, ended(TurnStatus::Completed, None));
    play.check(expect![[r#"
        resume 1
        1@10 queued
            1 estimation  [10]
        1@11 stream_token
            1 starts
            1 first token "ab"  [11]
        1@12 stream_token
            1 token "cd"  [12]
        1@13 rewind
            1 rewind  [13]
        1@14 stream_token
            1 token "€"  [14]
        1@15 rewind
            1 rewind  [15]
        1@16 stream_token
            1 token "x"  [16]
        1@17 turn_end
            1 plain "x" "completed"  [17]
    "#]]);
}

#[test]
fn two_turns_share_a_stream_and_the_last_one_closes_it() {
    let mut play = Play::new();
    play.resume(1).event(1, 10, queued(None)).join(2).event(2, 11, queued(None));
    play.event(2, 12, token("b")).event(1, 13, token("a")).wait(150);
    play.event(1, 14, ended(TurnStatus::Completed, Some("a"))).close();
    play.event(2, 15, ended(TurnStatus::Completed, Some("b"))).close();
    play.check(expect![[r#"
        resume 1
        1@10 queued
            1 estimation  [10]
        join 2 -> Open
        2@11 queued
        2@12 stream_token
        1@13 stream_token
            1 starts
            1 first token "a"  [13]
        +150 ms
            2 estimation  [11]
            2 starts
            2 first token "b"  [12]
        1@14 turn_end
            1 plain "a" "completed"  [14]
            1 completed plain "a" "completed"  record 0 [1]
        close -> None
        2@15 turn_end
            2 plain "b" "completed"  [15]
            2 completed plain "b" "completed"  record 0 [1, 2]
        close -> Some(Close)
    "#]]);
}
