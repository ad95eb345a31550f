//! One submission on a stream: what its client was told so far, what is held back, how it ended.
use std::time::Duration;

use contract::control::Delivered;
use contract::error_code::ErrorCode;
use contract::event::{Envelope, Event, Queued, TurnEnd, TurnStatus};
use contract::ids::TurnId;
use contract::job::Locale;
use contract::limits;
use serde_json::{Value, json};

use super::{EventPlace, Output, SILENT_JOIN};
use crate::frame::Frame;
use crate::message::{self, Place};

pub struct View {
    registered_at: Duration,
    joined: Joined,
    /// Frames that must not overtake the answer to the join. `None`: they need not wait any more.
    waiting: Option<Vec<Output>>,
    /// The client has been sent a frame.
    told: bool,
    /// Sequence of the submission's own `queued`.
    queued_seq: Option<u64>,
    /// The same of the turn that it shows: its own, or another one.
    turn_queued: Option<u64>,
    /// The conversation as the client knows it.
    conversation: Option<String>,
    /// Shows another turn than its own.
    attached: bool,
    /// The log did not have the shown turn's beginning.
    beginning_gone: bool,
    /// Nobody here can say how the turn ended.
    lost: bool,
    /// Sequence of the last event that was taken in.
    last_seq: u64,
    /// Events up to here are taken in, but give no frame.
    mute_through: u64,
    announced: bool,
    has_value: bool,
    text: Text,
    /// `confirm_required` or `error`: the last value if the turn ends right after it.
    held: Option<(u64, Value)>,
    ending: Option<Ending>,
}

/// What is known of the answer to a submission's join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joined {
    NotYet,
    /// It was answered before this stream was opened, for all that is known.
    Earlier {
        opened: Duration,
    },
    /// Its gateway asked, and answers at once.
    Asked {
        at: Duration,
    },
}

struct Ending {
    closing: Value,
    at: Duration,
}

/// A join that is not announced within this time after its `queued` has been answered, or never will be.
const JOIN_ANSWERED_AFTER: Duration = Duration::from_secs(1);

impl View {
    pub fn new(at: Duration, delivered: u64) -> Self {
        Self {
            registered_at: at,
            joined: Joined::NotYet,
            waiting: Some(Vec::new()),
            told: false,
            queued_seq: None,
            turn_queued: None,
            conversation: None,
            attached: false,
            beginning_gone: false,
            lost: false,
            last_seq: 0,
            mute_through: delivered,
            announced: false,
            has_value: false,
            text: Text::default(),
            held: None,
            ending: None,
        }
    }

    /// Its gateway asks, and will answer the join at once.
    pub fn join(&mut self, at: Duration) {
        self.joined = Joined::Asked { at };
        if !self.told {
            self.waiting.get_or_insert_default();
        }
    }

    /// It was there before the stream.
    pub fn resume(&mut self, at: Duration) {
        if self.joined == Joined::NotYet {
            self.joined = Joined::Earlier { opened: at };
        }
    }

    /// Puts out what is new, once the join has been answered.
    pub fn release(&mut self, new: Vec<Output>, at: Duration, outputs: &mut Vec<Output>) {
        let ready = at >= self.opens_at();
        match &mut self.waiting {
            Some(waiting) => {
                waiting.extend(new);
                if ready {
                    self.told = !waiting.is_empty();
                    outputs.append(waiting);
                    self.waiting = None;
                }
            }
            None => {
                self.told |= !new.is_empty();
                outputs.extend(new);
            }
        }
    }

    fn opens_at(&self) -> Duration {
        match self.joined {
            Joined::NotYet => self.registered_at + JOIN_ANSWERED_AFTER,
            Joined::Earlier { .. } => Duration::ZERO,
            Joined::Asked { at } => at + limits::COMPLETION_AFTER_JOIN,
        }
    }

    pub fn registered_at(&self) -> Duration {
        self.registered_at
    }

    pub fn queued_seq(&self) -> Option<u64> {
        self.queued_seq
    }

    /// Joined, and not one event came.
    pub fn is_unheard(&self) -> bool {
        self.queued_seq.is_none() && self.last_seq == 0 && self.ending.is_none()
    }

    /// The turn has ended, and its text is not to be had here.
    pub fn is_lost(&self) -> bool {
        self.lost && self.ending.is_none()
    }

    /// The turn is queued, and nobody has started it.
    pub fn is_waiting(&self) -> bool {
        self.queued_seq.is_some()
            && self.turn_queued == Some(self.last_seq)
            && self.ending.is_none()
    }

    pub fn deadline(&self) -> Option<Duration> {
        if self.waiting.as_ref().is_some_and(|waiting| !waiting.is_empty()) {
            return Some(self.opens_at());
        }
        match &self.ending {
            Some(ending) => Some(self.due(ending)),
            None => self.is_unheard().then(|| self.registered_at + SILENT_JOIN),
        }
    }

    pub fn is_due(&self, at: Duration) -> bool {
        self.waiting.is_none() && self.ending.as_ref().is_some_and(|ending| at >= self.due(ending))
    }

    /// The completion stays behind the answer to the join.
    fn due(&self, ending: &Ending) -> Duration {
        ending.at.max(match self.joined {
            Joined::NotYet => self.registered_at + JOIN_ANSWERED_AFTER,
            Joined::Earlier { opened: at } | Joined::Asked { at } => {
                at + limits::COMPLETION_AFTER_JOIN
            }
        })
    }

    pub fn into_closing(self) -> Option<Value> {
        self.ending.map(|ending| ending.closing)
    }

    pub fn handle(
        &mut self,
        event_id: TurnId,
        place: EventPlace,
        envelope: &Envelope,
        at: Duration,
        outputs: &mut Vec<Output>,
    ) {
        let EventPlace { seq, conversation } = place;
        if self.ending.is_some() {
            return;
        }
        if let Event::Queued(queued) = &envelope.event {
            if envelope.turn_id == event_id {
                self.queued(event_id, seq, queued.clone(), conversation, outputs);
            } else {
                self.turn_queued = Some(seq);
                self.last_seq = self.last_seq.max(seq);
            }
            return;
        }
        if self.attached && envelope.turn_id == event_id {
            self.stop_showing(event_id, &envelope.event, at, outputs);
            return;
        }
        if seq <= self.last_seq {
            return;
        }
        let first = self.last_seq == 0;
        self.last_seq = seq;
        self.conversation.get_or_insert(conversation);
        let mut out = Writer { event_id, seq, outputs };
        self.start(&mut out);
        if self.attached && first {
            self.miss_beginning(&mut out);
        }
        if let Event::TurnEnd(end) = &envelope.event {
            self.finish(envelope, end, at, &mut out);
        } else {
            self.event(&envelope.event, &mut out);
        }
    }

    /// Ends with an error that no worker reported.
    pub fn fail(
        &mut self,
        event_id: TurnId,
        code: ErrorCode,
        locale: Locale,
        at: Duration,
        outputs: &mut Vec<Output>,
    ) {
        if self.ending.is_some() {
            return;
        }
        // What is held back is not told: it would be told again, in its place, to who attaches.
        let mut out = Writer { event_id, seq: self.last_seq, outputs };
        let place =
            Place { cursor: None, conversation: self.conversation.as_deref().unwrap_or("") };
        let facts = json!({"turn_id": event_id});
        let closing = message::error(code, code.text(locale), Some(&facts), place);
        self.say(closing.clone(), None, &mut out);
        self.ending = Some(Ending { closing, at });
    }

    /// The submission itself was cancelled; the turn that it shows goes on.
    fn stop_showing(
        &mut self,
        event_id: TurnId,
        event: &Event,
        at: Duration,
        outputs: &mut Vec<Output>,
    ) {
        let Event::TurnEnd(end) = event else { return };
        let mut out = Writer { event_id, seq: self.last_seq, outputs };
        self.start(&mut out);
        let place = self.place(self.last_seq.max(self.mute_through));
        let closing = message::closing(&self.text.whole, event_id, end.status, place);
        self.say(closing.clone(), None, &mut out);
        self.ending = Some(Ending { closing, at });
    }

    fn miss_beginning(&mut self, out: &mut Writer<'_>) {
        self.beginning_gone = true;
        let gap = Event::StreamGap { from: self.mute_through.to_string(), to: out.seq.to_string() };
        if let Some(gap) = message::value(&gap, self.place(out.seq))
            && out.seq > self.mute_through
        {
            self.say(gap, None, out);
        }
    }

    fn queued(
        &mut self,
        event_id: TurnId,
        seq: u64,
        queued: Queued,
        conversation: String,
        outputs: &mut Vec<Output>,
    ) {
        if self.queued_seq.is_some() {
            return;
        }
        self.queued_seq = Some(seq);
        self.conversation = Some(queued.conversation_ref.unwrap_or(conversation));
        match queued.attach {
            Some(attach) => {
                self.attached = true;
                self.mute_through = self.mute_through.max(attach.after);
            }
            None => {
                self.turn_queued = Some(seq);
                self.last_seq = self.last_seq.max(seq);
            }
        }
        if self.attached || seq > self.mute_through {
            let mark = (!self.attached).then_some(Delivered { turn_id: event_id, seq });
            let frame = Frame::Estimation { event: event_id, rank: queued.ahead };
            outputs.push(Output::Frame { frame, mark });
        }
    }

    fn start(&mut self, out: &mut Writer<'_>) {
        if self.announced {
            return;
        }
        self.announced = true;
        if self.attached || out.seq > self.mute_through {
            out.push(Frame::Starts { event: out.event_id }, None);
        }
    }

    fn event(&mut self, event: &Event, out: &mut Writer<'_>) {
        self.let_go(out);
        self.text.take(event, out.seq);
        let value = message::value(event, self.place(out.seq));
        if matches!(event, Event::ConfirmRequired(_) | Event::Error { .. }) {
            self.held = value.map(|value| (out.seq, value));
        } else {
            self.tell(value, out);
        }
    }

    fn finish(&mut self, last: &Envelope, end: &TurnEnd, at: Duration, out: &mut Writer<'_>) {
        if self.beginning_gone && end.text.is_none() && self.held.is_none() {
            self.lost = true;
            return;
        }
        let place = self.place(out.seq);
        let summary = message::turn_end(end, place);
        let closing = match &self.held {
            // A gateway's refusal is no part of a turn, and no place to go on from.
            Some((_, held)) if last.attempt == 0 && end.status == TurnStatus::Rejected => {
                message::without_cursor(held.clone())
            }
            // Cursors grow from value to value, so that the last one a client saw tells where to go on.
            Some((_, held)) => message::moved(held.clone(), out.seq),
            None => {
                let text = end.text.as_deref().unwrap_or(&self.text.whole);
                message::closing(text, last.turn_id, end.status, place)
            }
        };
        self.held = None;
        if let Some(summary) = summary
            && out.seq > self.mute_through
        {
            // Only the last frame of an event says that it was delivered.
            self.say(summary, None, out);
        }
        self.tell(Some(closing.clone()), out);
        self.ending = Some(Ending { closing, at });
    }

    /// What was held back was not the last value after all.
    fn let_go(&mut self, out: &mut Writer<'_>) {
        if let Some((seq, value)) = self.held.take()
            && seq > self.mute_through
        {
            self.say(value, Some(seq), out);
        }
    }

    fn tell(&mut self, value: Option<Value>, out: &mut Writer<'_>) {
        if let Some(value) = value
            && out.seq > self.mute_through
        {
            self.say(value, Some(out.seq), out);
        }
    }

    fn say(&mut self, value: Value, seq: Option<u64>, out: &mut Writer<'_>) {
        let first = !self.has_value;
        self.has_value = true;
        out.push(Frame::Generating { event: out.event_id, value, first }, seq);
    }

    fn place(&self, seq: u64) -> Place<'_> {
        Place { cursor: Some(seq), conversation: self.conversation.as_deref().unwrap_or("") }
    }
}

struct Writer<'a> {
    event_id: TurnId,
    /// Of the event at hand.
    seq: u64,
    outputs: &'a mut Vec<Output>,
}

impl Writer<'_> {
    fn push(&mut self, frame: Frame, seq: Option<u64>) {
        let mark = seq.map(|seq| Delivered { turn_id: self.event_id, seq });
        self.outputs.push(Output::Frame { frame, mark });
    }
}

/// The answer so far, for a turn whose end doesn't repeat it.
#[derive(Default)]
struct Text {
    whole: String,
    /// Cursor and length after each piece.
    pieces: Vec<(u64, usize)>,
}

impl Text {
    fn take(&mut self, event: &Event, seq: u64) {
        match event {
            Event::StreamToken { token } => {
                self.whole.push_str(token);
                self.pieces.push((seq, self.whole.len()));
            }
            Event::Message { content } => {
                self.whole.clone_from(content);
                self.pieces.clear();
                self.pieces.push((seq, self.whole.len()));
            }
            Event::Rewind { to_cursor } => {
                let cursor = to_cursor.parse().unwrap_or(0);
                self.pieces.retain(|(seq, _)| *seq <= cursor);
                self.whole.truncate(self.pieces.last().map_or(0, |(_, length)| *length));
            }
            Event::Queued(_)
            | Event::Attempt { .. }
            | Event::ToolStart { .. }
            | Event::ToolProgress { .. }
            | Event::ToolEnd { .. }
            | Event::ToolError { .. }
            | Event::ConfirmRequired(_)
            | Event::ConfirmResolved { .. }
            | Event::Warning { .. }
            | Event::StreamGap { .. }
            | Event::Error { .. }
            | Event::TurnEnd(_)
            | Event::Session(_) => {}
        }
    }
}
