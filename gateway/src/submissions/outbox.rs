//! What a stream's client is still to be sent. The socket may be slow; the machine behind it never waits for it.
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use contract::control::Delivered;
use contract::event::{Envelope, Event, SessionRecord};
use contract::ids::{ConversationId, SessionToken, TurnId};
use contract::{SCHEMA_VERSION, limits};
use gradio::frame::Frame;
use gradio::session::Output;
use shared::bus::Bus;
use shared::bus::events::{self, PublishError};
use shared::runtime::clock;
use shared::runtime::trace::Trace;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Frames handed to the HTTP server ahead of the socket.
pub const CHANNEL: usize = 2;
/// With so many frames, or so much text, waiting no more events are read.
const FULL: usize = 256;
const FULL_BYTES: usize = 256 * 1024;
/// Without the record the next stream would tell the turn again. The client has read everything but its completion,
/// which waits while another server becomes the leader, and not much longer.
const RECORD_WITHIN: Duration = Duration::from_secs(15);

/// How frames are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Queue,
    Call,
}

pub struct Outbox {
    form: Form,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    written: HashMap<TurnId, u64>,
}

/// One output, as it will be written.
struct Waiting {
    text: Bytes,
    mark: Option<Delivered>,
    /// Stored before the text is written.
    record: Option<SessionRecord>,
    /// What is complete with it.
    completes: Option<TurnId>,
}

impl Outbox {
    pub fn new(form: Form) -> Self {
        Self { form, waiting: VecDeque::new(), waiting_bytes: 0, written: HashMap::new() }
    }

    pub fn extend(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            let (frame, mark, record) = match output {
                Output::Frame { frame, mark } => (frame, mark, None),
                Output::Complete { record, frame } => (frame, None, Some(record)),
            };
            self.wait(&frame, mark, record);
        }
    }

    pub fn push(&mut self, frame: &Frame) {
        self.wait(frame, None, None);
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.waiting.len() >= FULL || self.waiting_bytes >= FULL_BYTES
    }

    /// Forgets what was not written, and says what was.
    pub fn abandon(&mut self) -> Vec<Delivered> {
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.written.drain().map(|(turn_id, seq)| Delivered { turn_id, seq }).collect()
    }

    /// Writes the next output. A completion is recorded first, so that no later stream repeats it.
    pub async fn write_next(
        &mut self,
        permit: mpsc::Permit<'_, Bytes>,
        bus: &Bus,
        session: &SessionToken,
    ) {
        let Some(next) = self.waiting.pop_front() else { return };
        self.waiting_bytes -= next.text.len();
        if let Some(Delivered { turn_id, seq }) = next.mark {
            self.written.insert(turn_id, seq);
        }
        if let Some(record) = next.record {
            store(bus, session, record).await;
        }
        if let Some(turn) = next.completes {
            self.written.remove(&turn);
        }
        if !next.text.is_empty() {
            permit.send(next.text);
        }
    }

    fn wait(&mut self, frame: &Frame, mark: Option<Delivered>, record: Option<SessionRecord>) {
        let completes =
            if let Frame::Completed { event, .. } = frame { Some(*event) } else { None };
        let text = Bytes::from(text(self.form, frame).unwrap_or_default());
        self.waiting_bytes += text.len();
        self.waiting.push_back(Waiting { text, mark, record, completes });
    }
}

pub fn text(form: Form, frame: &Frame) -> Option<String> {
    match form {
        Form::Queue => Some(frame.queue_text()),
        Form::Call => frame.call_text(),
    }
}

async fn store(bus: &Bus, session: &SessionToken, record: SessionRecord) {
    let nil = (ConversationId(Uuid::nil()), TurnId(Uuid::nil()));
    let envelope = Envelope {
        v: SCHEMA_VERSION,
        turn_id: nil.1,
        attempt: 0,
        n: 0,
        event: Event::Session(record),
        ts: clock::rfc3339(clock::now()),
    };
    let trace = Trace::default();
    let publishing = async {
        loop {
            match events::publish_unfenced(bus, nil.0, session, &envelope, &trace).await {
                Err(PublishError::Unavailable(error)) if error.is_transient() => {}
                recorded => return recorded,
            }
        }
    };
    match tokio::time::timeout(RECORD_WITHIN, publishing).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(%error, "Can't record what a session was told: {error}"),
        Err(_) => tracing::warn!("Can't record what a session was told: no answer"),
    }
}

const _: () = assert!(limits::CLOSE_SETTLE.as_millis() < limits::CLOSE_LINGER.as_millis());
