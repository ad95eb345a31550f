//! One open event stream. It owns its session: it answers what other gateways ask about it, and after its end
//! goes on answering for a while, because a join that is answered too early would never be read.
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::control::{Delivered, SessionAnswer, SessionAsk};
use contract::error_code::ErrorCode;
use contract::ids::{SessionToken, TurnId};
use contract::job::Locale;
use contract::limits;
use futures_util::{FutureExt as _, stream};
use gradio::frame::Frame;
use gradio::session::{Input, Opening, Session};
use shared::bus::control::{self, Asked, Reply, SessionOwner};
use shared::bus::events::{Stored, TurnBacklog};
use shared::bus::jobs;
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use crate::app::App;
use crate::submissions::dispatch;
use crate::submissions::outbox::{self, CHANNEL, Form, Outbox};
use crate::submissions::reading::Reading;

/// A session of which nothing is known gets so long to show up.
const FRESH_WITHIN: Duration = Duration::from_millis(250);
/// NATS may be away as a stream opens.
const OPEN_WITHIN: Duration = Duration::from_secs(20);
const OPEN_PAUSE: Duration = Duration::from_millis(250);
/// A body stays open for so long behind `close_stream`. (In Node a hang-up gets lost now and then, when the
/// garbage collector takes a request's abort controller.)
const HANG_UP_WITHIN: Duration = Duration::from_millis(500);
/// Marks the second claim of a reader, which only older readers obey. The first one is obeyed by all.
const AGAIN: &str = "again:";
/// After giving way, a stream sends joins that still ask it on to the newer one for so long.
const SEND_ON_WITHIN: Duration = Duration::from_millis(20);
/// A submission that nobody has started is looked after this often.
const WAITING_CHECK: Duration = Duration::from_secs(20);

/// Whose stream, and in which form.
#[derive(Clone, Debug)]
pub struct Request {
    pub session: SessionToken,
    pub locale: Locale,
    /// Only this submission, in the plain form.
    pub only: Option<TurnId>,
    /// The token has expired: every submission ends with `UNAUTHORIZED`.
    pub expired: bool,
}

/// Answers at once; the stream runs in a tracked task.
pub fn open(app: &Arc<App>, request: Request) -> Response {
    let (sender, receiver) = mpsc::channel(CHANNEL);
    let running = run(app.clone(), request, sender);
    app.shutdown.spawn("session stream", running);
    response(receiver)
}

/// A stream with nothing but `frame`.
pub fn single(form: Form, frame: &Frame) -> Response {
    event_stream(Body::from(outbox::text(form, frame).unwrap_or_default()))
}

pub fn event_stream(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

fn response(receiver: mpsc::Receiver<Bytes>) -> Response {
    let frames = stream::unfold(receiver, |mut receiver| async {
        let frame = receiver.recv().await?;
        Some((Ok::<_, Infallible>(frame), receiver))
    });
    event_stream(Body::from_stream(frames))
}

async fn run(app: Arc<App>, request: Request, sender: mpsc::Sender<Bytes>) {
    let form = if request.only.is_some() { Form::Call } else { Form::Queue };
    let Some((stream, backlog)) = Stream::open(&app, request, &sender).await else {
        let frame = outbox::text(form, &Frame::SessionNotFound);
        let _ = sender.send(Bytes::from(frame.unwrap_or_default())).await;
        return;
    };
    Box::pin(stream.serve(backlog, sender)).await;
}

struct Stream {
    app: Arc<App>,
    request: Request,
    /// Time-ordered.
    reader_id: Uuid,
    opened: Instant,
    /// `None` for the plain form, whose clients never share a stream.
    owner: Option<SessionOwner>,
    reading: Reading,
    session: Session,
    outbox: Outbox,
    rechecked: bool,
    waiting_checked: Instant,
}

/// How a stream ended.
enum End {
    /// `close_stream` is on its way; joins are answered for a while.
    Closed,
    /// The client is gone, or a newer reader has taken over.
    Left,
}

impl Stream {
    /// Takes the session over from its previous stream, then reads what is there.
    async fn open(
        app: &Arc<App>,
        request: Request,
        sender: &mpsc::Sender<Bytes>,
    ) -> Option<(Self, Vec<TurnBacklog>)> {
        let started = Instant::now();
        let reader_id = Uuid::now_v7();
        let mut delivered = Vec::new();
        while started.elapsed() < OPEN_WITHIN && !sender.is_closed() {
            delivered.extend(claim(app, &request, reader_id).await);
            match own_and_read(app, &request).await {
                Ok((owner, reading, backlog)) => {
                    let opening = Opening {
                        record: reading.record().clone(),
                        delivered,
                        locale: request.locale,
                    };
                    let form = if request.only.is_some() { Form::Call } else { Form::Queue };
                    let stream = Self {
                        app: app.clone(),
                        reader_id,
                        opened: Instant::now(),
                        owner,
                        reading,
                        session: Session::new(opening),
                        outbox: Outbox::new(form),
                        rechecked: false,
                        waiting_checked: Instant::now(),
                        request,
                    };
                    return Some((stream, backlog));
                }
                Err(error) => {
                    tracing::warn!(%error, "Can't open a session's stream: {error}");
                    tokio::time::sleep(OPEN_PAUSE).await;
                }
            }
        }
        None
    }

    async fn serve(mut self, backlog: Vec<TurnBacklog>, sender: mpsc::Sender<Bytes>) {
        self.announce();
        match backlog.as_slice() {
            // The client opened the stream because this one's join was answered.
            [turn] => self.session.resume(turn.address.turn, Duration::ZERO),
            turns => {
                for turn in turns {
                    self.session.join(turn.address.turn, Duration::ZERO);
                }
            }
        }
        // Gateways that ask already have not answered their joins.
        while let Some((ask, reply)) = next_ask(&mut self.owner).now_or_never() {
            if self.answer(ask, reply, &sender).await {
                return;
            }
        }
        if self.request.expired {
            self.input(Input::End(ErrorCode::Unauthorized));
        } else {
            for stored in backlog.into_iter().flat_map(|turn| turn.stored) {
                self.event(stored).await;
            }
        }
        match self.pump(&sender).await {
            End::Closed if self.owner.is_some() => self.linger(sender).await,
            End::Closed => {}
            End::Left => {}
        }
    }

    /// Two readers that opened in the same moment have not seen each other's claim.
    fn announce(&self) {
        if self.owner.is_none() {
            return;
        }
        let (bus, session) = (self.app.bus.clone(), self.request.session.clone());
        let ask = SessionAsk::Claim { reader: format!("{AGAIN}{}", self.reader_id) };
        self.app.shutdown.spawn("claim", async move {
            let _ = control::ask_session(&bus, &session, &ask).await;
        });
    }

    async fn pump(&mut self, sender: &mpsc::Sender<Bytes>) -> End {
        let shutdown = self.app.shutdown.token();
        let mut stopping = false;
        loop {
            let wake = self.wake();
            let done = self.outbox.is_empty() && self.session.is_idle() && !self.session.is_fresh();
            tokio::select! {
                permit = sender.reserve(), if !self.outbox.is_empty() => {
                    let Ok(permit) = permit else { return End::Left };
                    self.outbox.write_next(permit, &self.app.bus, &self.request.session).await;
                }
                // The socket has taken everything.
                drained = sender.reserve_many(CHANNEL), if done => {
                    let Ok(mut drained) = drained else { return End::Left };
                    if let (Some(frame), Some(permit)) = (self.session.close(), drained.next()) {
                        self.outbox.push(frame);
                        self.outbox.write_next(permit, &self.app.bus, &self.request.session).await;
                        return End::Closed;
                    }
                }
                (ask, reply) = next_ask(&mut self.owner) => {
                    if self.answer(ask, reply, sender).await {
                        return End::Left;
                    }
                }
                stored = self.reading.next(), if !self.outbox.is_full() => self.event(stored).await,
                () = tokio::time::sleep_until(wake) => {
                    if self.tick(sender).await {
                        return End::Closed;
                    }
                }
                () = sender.closed() => return End::Left,
                () = shutdown.cancelled(), if !stopping => {
                    stopping = true;
                    self.input(Input::End(ErrorCode::Unavailable));
                }
            }
        }
    }

    async fn event(&mut self, stored: Stored) {
        for input in self.reading.inputs(stored).await {
            self.input(input);
        }
    }

    fn input(&mut self, input: Input) {
        let outputs = self.session.handle(input, self.at());
        self.outbox.extend(outputs);
    }

    /// True when the session turned out to be unknown and the client was told so.
    async fn tick(&mut self, sender: &mpsc::Sender<Bytes>) -> bool {
        self.input(Input::Tick);
        if self.waiting_checked.elapsed() >= WAITING_CHECK {
            self.waiting_checked = Instant::now();
            self.look_after_the_waiting();
        }
        if !self.session.is_fresh() {
            return false;
        }
        if self.at() < FRESH_WITHIN {
            self.rechecked = true;
            self.reading.recheck();
            return false;
        }
        let (Some(frame), Ok(permit)) = (self.session.nothing(), sender.reserve().await) else {
            return false;
        };
        // Who asks for one submission is told that there is none (any more).
        let single = self.request.only.is_some();
        self.outbox.push(if single { Frame::SessionNotFound } else { frame });
        self.outbox.write_next(permit, &self.app.bus, &self.request.session).await;
        true
    }

    fn wake(&self) -> Instant {
        let mut wake = self.waiting_checked + WAITING_CHECK;
        if let Some(deadline) = self.session.deadline() {
            wake = wake.min(self.opened + deadline);
        }
        if self.session.is_fresh() {
            wake = wake
                .min(self.opened + if self.rechecked { FRESH_WITHIN } else { FRESH_WITHIN / 2 });
        }
        wake
    }

    /// True when the session was handed over to a newer reader.
    async fn answer(
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

    /// A gateway that died between `queued` and its job leaves a turn that nobody will ever run.
    fn look_after_the_waiting(&self) {
        for turn in self.session.waiting(self.at(), WAITING_CHECK) {
            let Some(address) = self.reading.address(turn).cloned() else { continue };
            let (app, locale) = (self.app.clone(), self.request.locale);
            self.app.shutdown.spawn("orphan check", async move {
                match jobs::active(&app.bus, address.conversation).await {
                    Ok(Some(job)) if job.turn_id == address.turn => {}
                    Ok(_) => {
                        tracing::warn!(turn.id = %address.turn, "Turn {} was queued, but has no job", address.turn);
                        dispatch::give_up(&app.bus, &address, ErrorCode::Unavailable, locale).await;
                    }
                    Err(error) => tracing::warn!(%error, "Can't look for a job: {error}"),
                }
            });
        }
    }

    /// Answers for the closed stream until a newer one takes over.
    ///
    /// Stock clients hang up as they read `close_stream`. So the body stays open for a moment, and their
    /// hanging up proves that a join may be answered: they will open a new stream for it.
    async fn linger(&mut self, sender: mpsc::Sender<Bytes>) {
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

    fn at(&self) -> Duration {
        self.opened.elapsed()
    }
}

async fn claim(app: &App, request: &Request, reader_id: Uuid) -> Vec<Delivered> {
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

/// Owns first, then reads: a join is then either answered by this stream or among what it reads.
async fn own_and_read(
    app: &App,
    request: &Request,
) -> Result<(Option<SessionOwner>, Reading, Vec<TurnBacklog>), shared::bus::Error> {
    let owner = match request.only {
        None => Some(SessionOwner::subscribe(&app.bus, &request.session).await?),
        Some(_) => None,
    };
    let (reading, backlog) = Reading::open(&app.bus, &request.session, request.only).await?;
    Ok((owner, reading, backlog))
}

async fn hung_up(body: Option<&mpsc::Sender<Bytes>>) {
    match body {
        Some(body) => body.closed().await,
        None => std::future::pending().await,
    }
}

async fn next_ask(owner: &mut Option<SessionOwner>) -> (SessionAsk, Reply) {
    match owner {
        Some(owner) => owner.next().await,
        None => std::future::pending().await,
    }
}
