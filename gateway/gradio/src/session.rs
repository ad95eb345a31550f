//! The machine behind one open event stream: the events of a session in, frames out.
//!
//! It promises, whatever order things come in: one completion per submission and nothing after it; the first
//! value of a submission whole; no frame twice for a replayed or repeated event; `close_stream` only when
//! nothing is pending, and then never a promise to carry another submission.
//!
//! Time is how long the stream has been open.
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::control::{Delivered, SessionAnswer};
use contract::error_code::ErrorCode;
use contract::event::{Envelope, Event, SessionRecord};
use contract::ids::TurnId;
use contract::job::Locale;
use contract::limits;

use crate::frame::Frame;
use view::View;

/// A submission of which nothing was heard for so long is given up.
pub const SILENT_JOIN: Duration = Duration::from_secs(10);
/// So many delivered submissions are remembered one by one.
const DONE_KEPT: usize = 64;

pub struct Session {
    phase: Phase,
    locale: Locale,
    views: BTreeMap<TurnId, View>,
    record: SessionRecord,
    done: BTreeSet<TurnId>,
    /// Taken over from the session's previous stream.
    delivered: BTreeMap<TurnId, u64>,
    last_frame: Duration,
    given_up: Vec<TurnId>,
    /// When each join that came after the close was first asked for.
    late: BTreeMap<TurnId, Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing to tell so far.
    Fresh,
    Open,
    /// Every pending submission, and each that still joins, ends with this error.
    Ending(ErrorCode),
    /// `close_stream` was decided. A join may be answered when the client has surely seen it.
    Closed(Seen),
}

/// Whether the client has seen the end of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Not as far as anybody knows.
    Unknown,
    /// The body ended then. A client that has time to join has time to read on, so that long after both it has.
    Probably { ended: Duration },
    /// It hung up on reading `close_stream`.
    Certainly,
}

pub struct Opening {
    /// What earlier streams of the session have delivered.
    pub record: SessionRecord,
    /// What the previous stream said as it was taken over.
    pub delivered: Vec<Delivered>,
    /// Language of errors that the gateway itself reports.
    pub locale: Locale,
}

#[derive(Clone, Debug)]
pub enum Input {
    /// An event of the turn that submission `event_id` shows: its own, or the one it is attached to.
    Event { event_id: TurnId, place: EventPlace, envelope: Box<Envelope> },
    /// This submission can't be shown: it ends with this error.
    Fail { event_id: TurnId, code: ErrorCode },
    /// Time went by.
    Tick,
    /// The stream's token has expired, or the gateway goes down: every submission ends with this error.
    End(ErrorCode),
}

#[derive(Clone, Debug)]
pub struct EventPlace {
    /// Stream sequence.
    pub seq: u64,
    /// What the conversation is called when no `queued` said so.
    pub conversation: String,
}

/// What to write, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Frame {
        frame: Frame,
        /// What a later reader need not be told again, once this is written.
        mark: Option<Delivered>,
    },
    /// Store the record, then write the frame: the submission counts as delivered before the client sees its end.
    Complete { record: SessionRecord, frame: Frame },
}

impl Session {
    pub fn new(opening: Opening) -> Self {
        let Opening { record, delivered, locale } = opening;
        Self {
            phase: Phase::Fresh,
            locale,
            views: BTreeMap::new(),
            done: record.done.iter().copied().collect(),
            record,
            delivered: delivered.into_iter().map(|d| (d.turn_id, d.seq)).collect(),
            last_frame: Duration::ZERO,
            given_up: Vec::new(),
            late: BTreeMap::new(),
        }
    }

    /// A submission that was there before the stream.
    pub fn resume(&mut self, event_id: TurnId, at: Duration) {
        if !matches!(self.phase, Phase::Closed(_)) && !self.done.contains(&event_id) {
            self.view(event_id, at).resume(at);
        }
    }

    /// A gateway is about to answer the join of `event_id`. `Open` is a promise to carry it to its end.
    pub fn join(&mut self, event_id: TurnId, at: Duration) -> SessionAnswer {
        match self.phase {
            Phase::Fresh | Phase::Open | Phase::Ending(_) => {
                if !self.done.contains(&event_id) {
                    self.view(event_id, at).join(at);
                }
                SessionAnswer::Open
            }
            Phase::Closed(seen) => {
                let left = match seen {
                    Seen::Unknown => limits::CLOSE_SETTLE,
                    Seen::Probably { ended } => {
                        let asked = *self.late.entry(event_id).or_insert(at);
                        (ended.max(asked) + limits::CLOSE_SETTLE).saturating_sub(at)
                    }
                    Seen::Certainly => Duration::ZERO,
                };
                SessionAnswer::Closed { wait_ms: u64::try_from(left.as_millis()).unwrap_or(0) }
            }
        }
    }

    pub fn handle(&mut self, input: Input, at: Duration) -> Vec<Output> {
        if matches!(self.phase, Phase::Closed(_)) {
            return Vec::new();
        }
        let mut told = BTreeMap::new();
        match input {
            Input::Event { event_id, place, envelope } => {
                let record = matches!(envelope.event, Event::Session(_));
                if !record && !self.is_delivered(event_id, &envelope, place.seq) {
                    let ending = matches!(self.phase, Phase::Ending(_));
                    let view = self.view(event_id, at);
                    if !ending {
                        view.handle(
                            event_id,
                            place,
                            &envelope,
                            at,
                            told.entry(event_id).or_default(),
                        );
                    }
                }
            }
            Input::Fail { event_id, code } => {
                if let Some(view) = self.views.get_mut(&event_id) {
                    view.fail(event_id, code, self.locale, at, told.entry(event_id).or_default());
                }
            }
            Input::Tick => {}
            Input::End(code) => self.phase = Phase::Ending(code),
        }
        self.give_up(at, &mut told);
        let mut outputs = Vec::new();
        for (event_id, view) in &mut self.views {
            view.release(told.remove(event_id).unwrap_or_default(), at, &mut outputs);
        }
        self.complete(at, &mut outputs);
        self.beat(at, &mut outputs);
        outputs
    }

    /// Submissions that were given up since the last call because nothing was heard of them: their clients believe
    /// that they will not be answered.
    pub fn take_given_up(&mut self) -> Vec<TurnId> {
        std::mem::take(&mut self.given_up)
    }

    /// When `Tick` has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        if matches!(self.phase, Phase::Closed(_)) {
            return None;
        }
        let views = self.views.values().filter_map(View::deadline);
        views.chain([self.last_frame + limits::SSE_HEARTBEAT]).min()
    }

    /// Nothing was heard or promised yet.
    pub fn is_fresh(&self) -> bool {
        matches!(self.phase, Phase::Fresh)
    }

    pub fn is_idle(&self) -> bool {
        self.views.is_empty()
    }

    /// Submissions of which only the `queued` is known since before `at - for_so_long`.
    pub fn waiting(&self, at: Duration, for_so_long: Duration) -> Vec<TurnId> {
        let waits = |view: &&View| view.is_waiting() && at >= view.registered_at() + for_so_long;
        self.views.iter().filter(|(_, view)| waits(view)).map(|(id, _)| *id).collect()
    }

    /// Decides to close if nothing is pending. Call it when everything put out so far has been written.
    pub fn close(&mut self) -> Option<Frame> {
        let open = matches!(self.phase, Phase::Open | Phase::Ending(_));
        (open && self.is_idle()).then(|| self.end(Frame::Close))
    }

    /// Nothing has come. A session that was told everything before ends without a word: a JavaScript client
    /// opens a stream for nothing when the answer to a join arrives after the frames, and would show an error.
    pub fn nothing(&mut self) -> Option<Frame> {
        let unknown = self.record == SessionRecord::default();
        let frame = if unknown { Frame::SessionNotFound } else { Frame::Close };
        matches!(self.phase, Phase::Fresh).then(|| self.end(frame))
    }

    /// A newer reader takes over: this stream ends at once, whatever is pending.
    pub fn hand_over(&mut self) -> Option<Frame> {
        let open = !matches!(self.phase, Phase::Closed(_));
        open.then(|| self.end(Frame::Close))
    }

    /// The client hung up after `close_stream` was written, which it does as it reads it.
    pub fn close_seen(&mut self) {
        if let Phase::Closed(seen) = &mut self.phase {
            *seen = Seen::Certainly;
        }
    }

    /// The body has ended behind `close_stream`, and the client gave no sign.
    pub fn body_ended(&mut self, at: Duration) {
        if let Phase::Closed(seen @ Seen::Unknown) = &mut self.phase {
            *seen = Seen::Probably { ended: at };
        }
    }

    fn end(&mut self, frame: Frame) -> Frame {
        self.views.clear();
        self.phase = Phase::Closed(Seen::Unknown);
        frame
    }

    fn view(&mut self, event_id: TurnId, at: Duration) -> &mut View {
        if self.phase == Phase::Fresh {
            self.phase = Phase::Open;
        }
        let delivered = self.delivered.get(&event_id).copied().unwrap_or(0);
        self.views.entry(event_id).or_insert_with(|| View::new(at, delivered))
    }

    fn is_delivered(&self, event_id: TurnId, envelope: &Envelope, seq: u64) -> bool {
        let old = matches!(envelope.event, Event::Queued(_))
            && envelope.turn_id == event_id
            && seq <= self.record.watermark;
        self.done.contains(&event_id) || old && !self.views.contains_key(&event_id)
    }

    fn give_up(&mut self, at: Duration, told: &mut BTreeMap<TurnId, Vec<Output>>) {
        for (event_id, view) in &mut self.views {
            let code = match self.phase {
                Phase::Ending(code) => code,
                Phase::Open if view.is_lost() => ErrorCode::Unavailable,
                Phase::Open if view.is_unheard() && at >= view.registered_at() + SILENT_JOIN => {
                    self.given_up.push(*event_id);
                    ErrorCode::Unavailable
                }
                Phase::Fresh | Phase::Open | Phase::Closed(_) => continue,
            };
            view.fail(*event_id, code, self.locale, at, told.entry(*event_id).or_default());
        }
    }

    fn complete(&mut self, at: Duration, outputs: &mut Vec<Output>) {
        let due: Vec<TurnId> =
            self.views.iter().filter(|(_, view)| view.is_due(at)).map(|(id, _)| *id).collect();
        for event_id in due {
            let Some(view) = self.views.remove(&event_id) else { continue };
            let queued = view.queued_seq();
            let Some(value) = view.into_closing() else { continue };
            self.remember(event_id, queued);
            outputs.push(Output::Complete {
                record: self.record.clone(),
                frame: Frame::Completed { event: event_id, value },
            });
        }
    }

    /// The watermark moves only over turns that are long past: a `queued` below it may not have arrived here yet.
    fn remember(&mut self, event_id: TurnId, queued: Option<u64>) {
        self.done.insert(event_id);
        let pending = self.views.values().map(|view| view.queued_seq().unwrap_or(0)).min();
        let record = &mut self.record;
        record.done_at.resize(record.done.len(), 0);
        record.done.push(event_id);
        record.done_at.push(queued.unwrap_or(0));
        while record.done.len() > DONE_KEPT {
            let oldest = record.done_at[0];
            if pending.is_some_and(|pending| oldest >= pending) {
                break;
            }
            record.watermark = record.watermark.max(oldest);
            record.done.remove(0);
            record.done_at.remove(0);
        }
    }

    fn beat(&mut self, at: Duration, outputs: &mut Vec<Output>) {
        if outputs.is_empty() && at >= self.last_frame + limits::SSE_HEARTBEAT {
            outputs.push(Output::Frame { frame: Frame::Heartbeat, mark: None });
        }
        if !outputs.is_empty() {
            self.last_frame = at;
        }
    }
}

#[cfg(test)]
mod tests;
