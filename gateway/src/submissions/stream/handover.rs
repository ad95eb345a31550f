//! A stream as the owner of its session: what it answers to other gateways, how it takes the session over and how
//! it gives it up.
use std::time::Duration;

use bytes::Bytes;
use contract::control::{Delivered, SessionAnswer, SessionAsk};
use contract::limits;
use gradio::session::Input;
use shared::bus::control::{self, Asked, Reply};
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use crate::app::App;
use crate::submissions::outbox::{self, Form};
use crate::submissions::stream::{Request, Stream, next_ask};

/// A body stays open for so long behind `close_stream`. (In Node a hang-up gets lost now and then, when the
/// garbage collector takes a request's abort controller.)
const HANG_UP_WITHIN: Duration = Duration::from_millis(500);
/// Marks the second claim of a reader, which only older readers obey. The first one is obeyed by all.
const AGAIN: &str = "again:";
/// After giving way, a stream sends joins that still ask it on to the newer one for so long.
const SEND_ON_WITHIN: Duration = Duration::from_millis(20);

impl Stream {
    /// Two readers that opened in the same moment have not seen each other's claim.
    pub(super) fn announce(&self) {
        if self.owner.is_none() {
            return;
        }
        let (bus, session) = (self.app.bus.clone(), self.request.session.clone());
        let ask = SessionAsk::Claim { reader: format!("{AGAIN}{}", self.reader_id) };
        self.app.shutdown.spawn("claim", async move {
            let _ = control::ask_session(&bus, &session, &ask).await;
        });
    }

    /// True when the session was handed over to a newer reader.
    pub(super) async fn answer(
        &mut self,
        ask: SessionAsk,
        reply: Reply,
        sender: &mpsc::Sender<Bytes>,
    ) -> bool {
        let (answer, left) = match ask {
            SessionAsk::Join { turn_id } => {
                let answer = self.session.join(turn_id, self.at());
                if self.reading.address(turn_id).is_none() {
                    self.reading.recheck();
                }
                self.input(Input::Tick);
                (answer, false)
            }
            SessionAsk::Claim { reader } => {
                if !self.yields_to(&reader) {
                    return false;
                }
                let delivered = self.outbox.abandon();
                if let Some(text) =
                    self.session.hand_over().and_then(|frame| outbox::text(Form::Queue, &frame))
                {
                    let _ = sender.try_send(Bytes::from(text));
                }
                (SessionAnswer::Released { delivered }, true)
            }
        };
        if let Err(error) = reply.send(&answer).await {
            tracing::warn!(%error, "Can't answer for a session: {error}");
        }
        if left {
            self.send_on().await;
        }
        left
    }

    /// A join that asked this stream as it gave way asks again, and then the newer one.
    async fn send_on(&mut self) {
        let Some(owner) = &mut self.owner else { return };
        let again = SessionAnswer::Closed { wait_ms: SEND_ON_WITHIN.as_millis() as u64 };
        while let Ok((ask, reply)) = tokio::time::timeout(SEND_ON_WITHIN, owner.next()).await {
            if matches!(ask, SessionAsk::Join { .. }) {
                let _ = reply.send(&again).await;
            }
        }
    }

    fn yields_to(&self, reader: &str) -> bool {
        match reader.strip_prefix(AGAIN) {
            Some(reader) => reader > self.reader_id.to_string().as_str(),
            None => true,
        }
    }

    /// Answers for the closed stream until a newer one takes over.
    ///
    /// Stock clients hang up as they read `close_stream`. So the body stays open for a moment, and their
    /// hanging up proves that a join may be answered: they will open a new stream for it.
    pub(super) async fn linger(&mut self, sender: mpsc::Sender<Bytes>) {
        let shutdown = self.app.shutdown.token();
        let closed = Instant::now();
        let mut until = closed + limits::CLOSE_LINGER;
        let mut body = Some(sender);
        let mut stopping = false;
        loop {
            tokio::select! {
                (ask, reply) = next_ask(&mut self.owner) => {
                    if self.answer_closed(ask, reply).await {
                        return;
                    }
                }
                never = self.reading.skim() => match never {},
                () = hung_up(body.as_ref()) => {
                    self.session.close_seen();
                    body = None;
                }
                () = tokio::time::sleep_until(closed + HANG_UP_WITHIN), if body.is_some() => {
                    let at = self.at();
                    self.session.body_ended(at);
                    body = None;
                }
                () = tokio::time::sleep_until(until) => return,
                () = shutdown.cancelled(), if !stopping => {
                    stopping = true;
                    until = until.min(closed + limits::CLOSE_SETTLE);
                }
            }
        }
    }

    /// True when a newer stream has taken over.
    async fn answer_closed(&mut self, ask: SessionAsk, reply: Reply) -> bool {
        let (answer, left) = match ask {
            SessionAsk::Join { turn_id } => (self.session.join(turn_id, self.at()), false),
            SessionAsk::Claim { reader } if self.yields_to(&reader) => {
                (SessionAnswer::Released { delivered: Vec::new() }, true)
            }
            SessionAsk::Claim { .. } => return false,
        };
        if let Err(error) = reply.send(&answer).await {
            tracing::warn!(%error, "Can't answer for a closed session: {error}");
        }
        if left {
            self.send_on().await;
        }
        left
    }
}

pub(super) async fn claim(app: &App, request: &Request, reader_id: Uuid) -> Vec<Delivered> {
    if request.only.is_some() {
        return Vec::new();
    }
    let ask = SessionAsk::Claim { reader: reader_id.to_string() };
    match control::ask_session(&app.bus, &request.session, &ask).await {
        Asked::Answer(SessionAnswer::Released { delivered }) => delivered,
        Asked::Answer(SessionAnswer::Open | SessionAnswer::Closed { .. })
        | Asked::NoOwner
        | Asked::Timeout => Vec::new(),
    }
}

async fn hung_up(body: Option<&mpsc::Sender<Bytes>>) {
    match body {
        Some(body) => body.closed().await,
        None => std::future::pending().await,
    }
}
