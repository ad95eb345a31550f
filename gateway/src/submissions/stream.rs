//! One open event stream. It owns its session: it answers what other gateways ask about it, and after its end
//! goes on answering for a while, because a join that is answered too early would never be read.
//!
//! A client that reads slowly, or not at all, costs a bounded outbox: while that is full, events are left in NATS.
mod handover;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::control::SessionAsk;
use contract::error_code::ErrorCode;
use contract::ids::{SessionToken, TurnId, UserId};
use contract::job::Locale;
use contract::subject;
use futures_util::{FutureExt as _, stream};
use gradio::frame::Frame;
use gradio::session::{Input, Opening, Session};
use shared::bus::control::{Reply, SessionOwner};
use shared::bus::{events, jobs};
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use crate::app::App;
use crate::load::{Place, StreamSlot};
use crate::metrics;
use crate::submissions::delivery::Deliveries;
use crate::submissions::dispatch;
use crate::submissions::outbox::{self, CHANNEL, Form, Outbox};
use crate::submissions::reading::{Next, Reading};
use crate::submissions::stream::handover::claim;

/// A session of which nothing is known gets so long to show up.
const FRESH_WITHIN: Duration = Duration::from_millis(250);
/// Whoever asks this stream meanwhile waits for its answer.
const CONFIRM_WITHIN: Duration = Duration::from_millis(400);
const CONFIRM_AGAIN: Duration = Duration::from_millis(200);
/// NATS may be away as a stream opens.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
const OPEN_PAUSE: Duration = Duration::from_millis(250);
/// A submission that nobody has started is looked after this often.
const WAITING_CHECK: Duration = Duration::from_secs(20);
/// So often, and with such pauses, a submission is refused whose client was told so while NATS was away.
const REFUSE_TRIES: u32 = 30;
const REFUSE_PAUSE: Duration = Duration::from_secs(2);

/// Whose stream, and in which form.
#[derive(Clone, Debug)]
pub struct Request {
    pub session: SessionToken,
    pub locale: Locale,
    /// Only this submission, in the plain form.
    pub only: Option<TurnId>,
    /// Every submission ends with this: the token has expired, or there are too many streams.
    pub ending: Option<ErrorCode>,
}

/// Answers at once; the stream runs in a tracked task.
pub fn open(app: &Arc<App>, mut request: Request, user: &UserId) -> Response {
    let slot = match app.load.stream(user) {
        Place::Open(slot) => slot,
        Place::Refuse(code, slot) => {
            metrics::REJECTED.add(1, &metrics::label("reason", code.as_str()));
            request.ending.get_or_insert(code);
            slot
        }
        Place::Away(code) => {
            metrics::REJECTED.add(1, &metrics::label("reason", code.as_str()));
            return single(request.form(), &Frame::Failed { text: code.text(request.locale) });
        }
    };
    let (sender, receiver) = mpsc::channel(CHANNEL);
    let running = run(app.clone(), request, sender, slot);
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

impl Request {
    fn form(&self) -> Form {
        if self.only.is_some() { Form::Call } else { Form::Queue }
    }
}

async fn run(app: Arc<App>, request: Request, sender: mpsc::Sender<Bytes>, slot: StreamSlot) {
    let (form, locale) = (request.form(), request.locale);
    let Some((stream, backlog)) = Stream::open(&app, request, &sender).await else {
        let text = ErrorCode::Unavailable.text(locale);
        let frame = outbox::text(form, &Frame::Failed { text });
        let _ = sender.send(Bytes::from(frame.unwrap_or_default())).await;
        return;
    };
    Box::pin(stream.serve(backlog, sender, slot)).await;
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
    deliveries: Deliveries,
    session: Session,
    outbox: Outbox,
    rechecked: bool,
    /// When it may be said that there is nothing.
    confirm_at: Instant,
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
    ) -> Option<(Self, Vec<TurnId>)> {
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
                    let stream = Self {
                        app: app.clone(),
                        reader_id,
                        opened: Instant::now(),
                        owner,
                        reading,
                        deliveries: Deliveries::of_a_new_stream(),
                        session: Session::new(opening),
                        outbox: Outbox::new(request.form()),
                        rechecked: false,
                        confirm_at: Instant::now() + FRESH_WITHIN,
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

    async fn serve(mut self, backlog: Vec<TurnId>, sender: mpsc::Sender<Bytes>, slot: StreamSlot) {
        self.announce();
        match backlog.as_slice() {
            // The client opened the stream because this one's join was answered.
            [turn] => self.session.resume(*turn, Duration::ZERO),
            turns => {
                for turn in turns {
                    self.session.join(*turn, Duration::ZERO);
                }
            }
        }
        // Gateways that ask already have not answered their joins.
        while let Some((ask, reply)) = next_ask(&mut self.owner).now_or_never() {
            if self.answer(ask, reply, &sender).await {
                return;
            }
        }
        if let Some(code) = self.request.ending {
            self.input(Input::End(code));
        }
        let end = self.pump(&sender).await;
        drop(slot);
        match end {
            End::Closed if self.owner.is_some() => self.linger(sender).await,
            End::Closed => {}
            End::Left => {}
        }
    }

    async fn pump(&mut self, sender: &mpsc::Sender<Bytes>) -> End {
        let shutdown = self.app.shutdown.token();
        let mut stopping = false;
        loop {
            let (wake, is_full) = (self.wake(), self.outbox.is_full());
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
                        self.outbox.push(&frame);
                        self.outbox.write_next(permit, &self.app.bus, &self.request.session).await;
                        return End::Closed;
                    }
                }
                (ask, reply) = next_ask(&mut self.owner) => {
                    if self.answer(ask, reply, sender).await {
                        return End::Left;
                    }
                }
                next = next_event(&mut self.reading, is_full) => self.event(next).await,
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

    async fn event(&mut self, next: Next) {
        if let Next::Stored(stored) = &next {
            self.deliveries.see(stored);
        }
        for input in self.reading.inputs(next).await {
            self.input(input);
        }
    }

    fn input(&mut self, input: Input) {
        let outputs = self.session.handle(input, self.at());
        self.outbox.extend(outputs);
        for turn in self.session.take_given_up() {
            let refusing = refuse(self.app.clone(), turn, self.request.locale);
            self.app.shutdown.spawn("refusal", refusing);
        }
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
        if Instant::now() < self.confirm_at || !self.is_nothing_there().await {
            return false;
        }
        let (Some(frame), Ok(permit)) = (self.session.nothing(), sender.reserve().await) else {
            return false;
        };
        // Who asks for one submission is told that there is none (any more).
        let single = self.request.only.is_some();
        self.outbox.push(&if single { Frame::SessionNotFound } else { frame });
        self.outbox.write_next(permit, &self.app.bus, &self.request.session).await;
        true
    }

    /// A client that is told so in error never reads what it waits for: doubt means to look again.
    async fn is_nothing_there(&mut self) -> bool {
        self.confirm_at = Instant::now() + CONFIRM_AGAIN;
        match tokio::time::timeout(CONFIRM_WITHIN, self.reading.confirm()).await {
            Ok(Ok(something)) => !something,
            Ok(Err(error)) => {
                tracing::debug!(%error, "Can't be sure that a session has no events: {error}");
                false
            }
            Err(_) => false,
        }
    }

    fn wake(&self) -> Instant {
        let mut wake = self.waiting_checked + WAITING_CHECK;
        if let Some(deadline) = self.session.deadline() {
            wake = wake.min(self.opened + deadline);
        }
        if self.session.is_fresh() {
            wake = wake.min(if self.rechecked {
                self.confirm_at
            } else {
                self.opened + FRESH_WITHIN / 2
            });
        }
        wake
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

    fn at(&self) -> Duration {
        self.opened.elapsed()
    }
}

/// Owns first, then reads: a join is then either answered by this stream or among what it reads.
async fn own_and_read(
    app: &App,
    request: &Request,
) -> Result<(Option<SessionOwner>, Reading, Vec<TurnId>), shared::bus::Error> {
    let owner = match request.only {
        None => Some(SessionOwner::subscribe(&app.bus, &request.session).await?),
        Some(_) => None,
    };
    let (reading, backlog) = Reading::open(&app.bus, &request.session, request.only).await?;
    Ok((owner, reading, backlog))
}

/// What the client was told must be true: the turn is not begun later. Does nothing if it has been begun.
async fn refuse(app: Arc<App>, turn: TurnId, locale: Locale) {
    for _ in 0..REFUSE_TRIES {
        match events::first(&app.bus, &subject::events_of_turn(turn)).await {
            Ok(Some(first)) => {
                let code = ErrorCode::Unavailable;
                return dispatch::give_up(&app.bus, &first.address, code, locale).await;
            }
            Ok(None) => return,
            Err(_) => tokio::time::sleep(REFUSE_PAUSE).await,
        }
    }
}

async fn next_event(reading: &mut Reading, is_full: bool) -> Next {
    if is_full {
        match reading.skim().await {}
    }
    reading.next().await
}

async fn next_ask(owner: &mut Option<SessionOwner>) -> (SessionAsk, Reply) {
    match owner {
        Some(owner) => owner.next().await,
        None => std::future::pending().await,
    }
}
