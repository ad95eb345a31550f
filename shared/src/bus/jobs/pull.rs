//! The worker's side: one standing request for exactly one job, and the answers to a delivery.
use std::time::Duration;

use async_nats::client::Request;
use async_nats::jetstream::Message as JetStreamMessage;
use async_nats::{Message, StatusCode, Subject};
use bytes::Bytes;
use contract::job::Job;
use contract::subject;
use futures_util::StreamExt as _;
use serde::Serialize;
use tokio::time::Instant;
use tracing::debug;

use crate::bus::jobs::{Ack, Delivery, Puller, Standing};
use crate::bus::retry::Patience;
use crate::bus::{ANSWER_WITHIN, Bus, Error, bounded};
use crate::runtime::trace::Trace;

/// The server shows so often that it still knows the request.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(1);
/// After a reconnect the request is gone, but its answer may be on its way.
const AFTER_RECONNECT: Duration = Duration::from_millis(200);
const ACK_PATIENCE: Duration = Duration::from_secs(10);
const REQUEST_TERMINATED: u16 = 409;

#[derive(Serialize)]
struct NextRequest {
    batch: u32,
    /// Nanoseconds, as the other one.
    expires: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_heartbeat: Option<u64>,
}

enum Heard {
    Delivery(Box<Delivery>),
    /// The request ended without a job.
    Ended,
    /// The request is lost: a new one is due.
    Lost,
    Alive,
}

impl Puller {
    pub fn new(bus: &Bus) -> Self {
        Self { bus: bus.clone(), standing: None }
    }

    /// The next job; `None` when none came within `expires`. Survives restarts of the server.
    ///
    /// Cancel-safe: the request stands until the next call; a job is never lost between two calls.
    pub async fn pull(&mut self, expires: Duration) -> Result<Option<Delivery>, Error> {
        let until = Instant::now() + expires;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() && self.standing.is_none() {
                return Ok(None);
            }
            if !self.bus.connected_within(left.max(AFTER_RECONNECT)).await {
                return Err(Error::Disconnected);
            }
            match self.hear(expires).await? {
                Heard::Delivery(delivery) => {
                    self.standing = None;
                    return Ok(Some(*delivery));
                }
                Heard::Ended => {
                    self.standing = None;
                    return Ok(None);
                }
                Heard::Lost => self.standing = None,
                Heard::Alive => {}
            }
        }
    }

    /// Waits for the end of the standing request, at most the time it was made for; a job that it still brings is
    /// returned: give it back. The server knows no earlier end that a job can't cross on its way.
    pub async fn withdraw(&mut self) -> Option<Delivery> {
        while self.standing.is_some() && self.bus.is_connected() {
            match self.hear(Duration::ZERO).await {
                Ok(Heard::Delivery(delivery)) => {
                    self.standing = None;
                    return Some(*delivery);
                }
                Ok(Heard::Alive) => {}
                Ok(Heard::Ended | Heard::Lost) | Err(_) => self.standing = None,
            }
        }
        self.standing = None;
        None
    }

    async fn hear(&mut self, expires: Duration) -> Result<Heard, Error> {
        if self.standing.is_none() {
            let (standing, inbox) = Standing::subscribe(&self.bus, expires).await?;
            let standing = self.standing.insert(standing);
            request(&self.bus, inbox, expires, standing.signs_of_life).await?;
        }
        let Some(standing) = &mut self.standing else { return Ok(Heard::Lost) };
        let message = tokio::select! {
            biased;
            message = standing.answers.next() => message,
            Ok(()) = standing.disturbances.changed() => {
                if standing.disturbances.borrow_and_update().connects != standing.connects {
                    standing.connects = standing.disturbances.borrow().connects;
                    standing.expected_by = Instant::now() + AFTER_RECONNECT;
                    standing.signs_of_life = AFTER_RECONNECT;
                }
                return Ok(Heard::Alive);
            }
            () = tokio::time::sleep_until(standing.expected_by) => return Ok(Heard::Lost),
        };
        let Some(message) = message else { return Err(Error::Disconnected) };
        standing.expected_by = Instant::now() + standing.signs_of_life;
        match message.status {
            None => delivery(&self.bus, message).map(|job| Heard::Delivery(Box::new(job))),
            Some(StatusCode::IDLE_HEARTBEAT) => Ok(Heard::Alive),
            Some(status) => self.ended(status, &message),
        }
    }

    fn ended(&mut self, status: StatusCode, message: &Message) -> Result<Heard, Error> {
        self.standing = None;
        let text = message.description.clone().unwrap_or_default();
        match status {
            StatusCode::TIMEOUT | StatusCode::NOT_FOUND => Ok(Heard::Ended),
            StatusCode::NO_RESPONDERS => Err(Error::NoResponders),
            _ => {
                let code = u64::from(status.as_u16());
                debug!(code, text, "A pull request ended early");
                // A new leader, or a server that stops: ask again. Anything else is a refusal.
                let moved = text.contains("Leadership") || text.contains("Shutdown");
                if status.as_u16() == REQUEST_TERMINATED && moved {
                    return Ok(Heard::Lost);
                }
                Err(Error::Refused { code, text })
            }
        }
    }
}

impl Standing {
    async fn subscribe(bus: &Bus, expires: Duration) -> Result<(Self, String), Error> {
        let disturbances = bus.disturbances();
        let inbox = bus.client.new_inbox();
        let answers = bounded(bus.client.subscribe(inbox.clone())).await?;
        let connects = disturbances.borrow().connects;
        // The server allows signs of life only if two of them fit.
        let shown = expires >= SIGN_OF_LIFE * 2;
        let signs_of_life = if shown { SIGN_OF_LIFE * 2 + GRACE } else { expires + GRACE };
        let expected_by = Instant::now() + signs_of_life;
        Ok((Self { answers, disturbances, connects, expected_by, signs_of_life }, inbox))
    }
}

async fn request(
    bus: &Bus,
    inbox: String,
    expires: Duration,
    signs_of_life: Duration,
) -> Result<(), Error> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let shown = signs_of_life > SIGN_OF_LIFE * 2;
    let idle_heartbeat = shown.then_some(nanos(SIGN_OF_LIFE));
    let body = NextRequest { batch: 1, expires: nanos(expires), idle_heartbeat };
    let body = serde_json::to_vec(&body).map(Bytes::from).unwrap_or_default();
    let (stream, consumer) = (subject::STREAM_JOBS, subject::CONSUMER_WORKERS);
    let to = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
    bounded(bus.client.publish_with_reply(to, inbox, body)).await
}

fn delivery(bus: &Bus, message: Message) -> Result<Delivery, Error> {
    let conversation = message.subject.rsplit('.').next().and_then(|id| id.parse().ok());
    let trace = message.headers.as_ref().map(Trace::from_headers).unwrap_or_default();
    let raw = message.payload.clone();
    let job = serde_json::from_slice::<Job>(&raw).map_err(|error| error.to_string());
    let payload = job.and_then(|job| {
        if Some(job.conversation_id) == conversation {
            Ok(job)
        } else {
            Err("the job names another conversation than its subject".to_owned())
        }
    });
    let message = JetStreamMessage { message, context: bus.js.clone() };
    let deliveries = message.info().map(|info| info.delivered);
    let deliveries = deliveries.map_err(|error| Error::Unexpected(error.to_string()))?;
    let deliveries = u64::try_from(deliveries).unwrap_or(1);
    let Some(reply) = message.message.reply else {
        return Err(Error::Unexpected("a job without a reply subject".to_owned()));
    };
    let ack = Ack { bus: bus.clone(), reply };
    Ok(Delivery { conversation, payload, raw, trace, deliveries, ack })
}

impl Ack {
    /// Still working: restarts the server's `ack_wait`. Confirmed by the server, or an error after `within`.
    pub async fn progress(&self, within: Duration) -> Result<(), Error> {
        once(&self.bus, self.reply.clone(), Bytes::from_static(b"+WPI"), within).await
    }

    /// Done; the conversation's gate opens. Confirmed by the server. Only while owning the lease.
    pub async fn ack(&self) -> Result<(), Error> {
        self.confirmed(Bytes::from_static(b"+ACK")).await
    }

    /// Not now: deliver again after `delay`.
    pub async fn nak(&self, delay: Duration) -> Result<(), Error> {
        let answer = format!("-NAK {{\"delay\":{}}}", delay.as_nanos());
        let answer = if delay.is_zero() { "-NAK".to_owned() } else { answer };
        self.confirmed(Bytes::from(answer)).await
    }

    /// Never deliver again; the gate opens.
    pub async fn term(&self) -> Result<(), Error> {
        self.confirmed(Bytes::from_static(b"+TERM")).await
    }

    async fn confirmed(&self, answer: Bytes) -> Result<(), Error> {
        let mut patience = Patience::new(ACK_PATIENCE);
        loop {
            match once(&self.bus, self.reply.clone(), answer.clone(), ANSWER_WITHIN).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_transient() && patience.pause(&self.bus).await => {}
                Err(error) => return Err(error),
            }
        }
    }
}

async fn once(bus: &Bus, reply: Subject, answer: Bytes, within: Duration) -> Result<(), Error> {
    if !bus.is_connected() {
        return Err(Error::Disconnected);
    }
    let request = Request::new().payload(answer).timeout(Some(within));
    let confirmed = tokio::time::timeout(within, bus.client.send_request(reply, request));
    confirmed.await.map_err(|_| Error::Timeout)??;
    Ok(())
}
