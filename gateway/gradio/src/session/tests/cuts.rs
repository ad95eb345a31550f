//! A stream that breaks after any of its frames, or whose gateway stops at any moment, and the attach behind it:
//! the two parts make up what an unbroken stream tells.
use super::*;

/// What a client keeps: each value once. The completion repeats the last one; a value without a cursor is the
/// gateway's own.
#[derive(Clone, Debug, Default, PartialEq)]
struct Kept {
    values: Vec<Value>,
    cursor: u64,
    is_complete: bool,
}

impl Kept {
    fn take(&mut self, output: &Output) {
        let (Output::Frame { frame, .. } | Output::Complete { frame, .. }) = output;
        let (value, completes) = match frame {
            Frame::Generating { value, .. } => (value, false),
            Frame::Completed { value, .. } => (value, true),
            Frame::Estimation { .. } | Frame::Starts { .. } | Frame::Heartbeat => return,
            Frame::Close | Frame::SessionNotFound | Frame::Failed { .. } => return,
        };
        let Some(cursor) = value["metadata"]["cursor"].as_str() else { return };
        let cursor = cursor.parse().unwrap();
        assert!(cursor >= self.cursor, "cursors go back: {value}");
        self.cursor = cursor;
        self.is_complete |= completes;
        if !(completes && self.values.last() == Some(value)) {
            self.values.push(value.clone());
        }
    }
}

/// Outputs of a stream that shows a turn as its own (1), or attached to it (9) from a cursor on. The gateway stops
/// before the event of that number.
fn outputs(
    script: &[Event],
    attached_after: Option<u64>,
    stops_before: Option<usize>,
) -> Vec<Output> {
    let opening =
        Opening { record: SessionRecord::default(), delivered: Vec::new(), locale: Locale::En };
    let (mut session, at) = (Session::new(opening), limits::COMPLETION_AFTER_JOIN);
    let event_id = if attached_after.is_some() { 9 } else { 1 };
    session.resume(id(event_id), Duration::ZERO);
    let mut outputs = Vec::new();
    if let Some(after) = attached_after {
        outputs.extend(session.handle(input(9, 9, 900, attach(1, after)), at));
    }
    for (index, event) in script.iter().enumerate() {
        if stops_before == Some(index) {
            outputs.extend(session.handle(Input::End(ErrorCode::Unavailable), at));
        }
        let seq = 10 + index as u64;
        outputs.extend(session.handle(input(event_id, 1, seq, event.clone()), at));
    }
    outputs.extend(session.handle(Input::Tick, at + Duration::from_secs(1)));
    outputs
}

fn kept(outputs: &[Output]) -> Kept {
    let mut kept = Kept::default();
    outputs.iter().for_each(|output| kept.take(output));
    kept
}

fn scripts() -> Vec<Vec<Event>> {
    let rewind = || Event::Rewind { to_cursor: "12".to_owned() };
    let paused = || {
        let usage = Some(Usage::default());
        Event::TurnEnd(TurnEnd {
            status: TurnStatus::Interrupted,
            text: None,
            usage,
            timings: None,
        })
    };
    vec![
        vec![queued(None), started(), token("a"), token("b"), measured("ab")],
        vec![queued(None), started(), token("a"), card(), paused()],
        vec![queued(None), started(), token("a"), card(), token("b"), error(), paused()],
        vec![queued(None), started(), token("a"), token("b"), rewind(), token("c"), measured("ac")],
        vec![queued(None), error(), ended(TurnStatus::Rejected, None)],
    ]
}

#[test]
fn whatever_was_missed_is_told_to_who_attaches() {
    for script in scripts() {
        let whole = outputs(&script, None, None);
        let unbroken = kept(&whole);
        assert!(unbroken.is_complete);
        for read in 0..=whole.len() {
            let mut client = kept(&whole[..read]);
            let rest = outputs(&script, Some(client.cursor), None);
            rest.iter().for_each(|output| client.take(output));
            assert_eq!(client, unbroken, "after {read} outputs of {script:?}");
        }
    }
}

#[test]
fn a_stopping_gateway_tells_nothing_out_of_its_place() {
    for script in scripts() {
        let unbroken = kept(&outputs(&script, None, None));
        for stop in 0..script.len() {
            let broken = outputs(&script, None, Some(stop));
            let last = broken.last().map(show);
            assert_eq!(last.as_deref(), Some(r#"1 completed error "UNAVAILABLE"  record 0 [1]"#));
            let mut client = kept(&broken);
            client.is_complete = false;
            let rest = outputs(&script, Some(client.cursor), None);
            rest.iter().for_each(|output| client.take(output));
            assert_eq!(client, unbroken, "stopped before event {stop} of {script:?}");
        }
    }
}
