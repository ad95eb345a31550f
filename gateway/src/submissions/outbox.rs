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
use shared::bus::{Bus, events};
use shared::runtime::clock;
use shared::runtime::trace::Trace;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Frames handed to the HTTP server ahead of the socket.
pub const CHANNEL: usize = 8;
/// With so many frames waiting no more events are read.
const FULL: usize = 256;
/// The record is a courtesy to later streams; the client does not wait longer for its completion.
const RECORD_WITHIN: Duration = Duration::from_secs(1);

/// How frames are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Queue,
    Call,
}

pub struct Outbox {
    form: Form,
    waiting: VecDeque<Output>,
    written: HashMap<TurnId, u64>,
}

impl Outbox {
    pub fn new(form: Form) -> Self {
        Self { form, waiting: VecDeque::new(), written: HashMap::new() }
    }

    pub fn extend(&mut self, outputs: Vec<Output>) {
        self.waiting.extend(outputs);
    }

    pub fn push(&mut self, frame: Frame) {
        self.waiting.push_back(Output::Frame { frame, mark: None });
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.waiting.len() >= FULL
    }

    /// Forgets what was not written, and says what was.
    pub fn abandon(&mut self) -> Vec<Delivered> {
        self.waiting.clear();
        self.written.drain().map(|(turn_id, seq)| Delivered { turn_id, seq }).collect()
    }

    /// Writes the next output. A completion is recorded first, so that no later stream repeats it.
    pub async fn write_next(
        &mut self,
        permit: mpsc::Permit<'_, Bytes>,
        bus: &Bus,
        session: &SessionToken,
    ) {
        let Some(output) = self.waiting.pop_front() else { return };
        let frame = match output {
            Output::Frame { frame, mark } => {
                if let Some(Delivered { turn_id, seq }) = mark {
                    self.written.insert(turn_id, seq);
                }
                frame
            }
            Output::Complete { record, frame } => {
                store(bus, session, record).await;
                if let Frame::Completed { event, .. } = &frame {
                    self.written.remove(event);
                }
                frame
            }
        };
        if let Some(text) = text(self.form, &frame) {
            permit.send(Bytes::from(text));
        }
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
    let publishing = events::publish_unfenced(bus, nil.0, session, &envelope, &trace);
    match tokio::time::timeout(RECORD_WITHIN, publishing).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(%error, "Can't record what a session was told: {error}"),
        Err(_) => tracing::warn!("Can't record what a session was told: no answer"),
    }
}

const _: () = assert!(limits::CLOSE_SETTLE.as_millis() < limits::CLOSE_LINGER.as_millis());
