//! How full and how busy everything is, as the servers see it.
use std::time::Duration;

use bytes::Bytes;
use contract::subject;
use serde_json::Value;
use time::OffsetDateTime;

use crate::bus::{Bus, Error, api, topology};
use crate::runtime::clock;

const STREAM_NOT_FOUND: u64 = 10_059;
const CONSUMER_NOT_FOUND: u64 = 10_014;

/// The server at the other end of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub version: String,
    pub is_recent_enough: bool,
    pub max_payload_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Those that are there.
    pub streams: Vec<StreamState>,
    pub consumer: Option<ConsumerState>,
    pub clock: Option<Clock>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamState {
    pub name: String,
    pub messages: u64,
    /// When the oldest one was stored, by the server's clock.
    pub oldest_at: Option<OffsetDateTime>,
    pub bytes: u64,
    /// `None`: without limit.
    pub max_messages: Option<u64>,
    pub max_bytes: Option<u64>,
    /// Full, it takes no more; others drop their oldest messages.
    pub refuses_when_full: bool,
    pub replicas: u64,
    /// Copies that are away or behind.
    pub missing_replicas: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerState {
    pub ack_wait: Duration,
    /// Requests of workers with a free slot.
    pub waiting_pulls: u64,
    /// Jobs nobody has pulled yet.
    pub pending: u64,
    /// Jobs in hand.
    pub in_hand: u64,
    /// Those of them that were delivered before.
    pub redelivered: u64,
}

/// The time at the server, and here before and after the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    pub at: OffsetDateTime,
    pub asked_at: OffsetDateTime,
    pub heard_at: OffsetDateTime,
}

pub fn server(bus: &Bus) -> Server {
    let info = bus.client.server_info();
    Server {
        is_recent_enough: topology::server_version(bus).is_none(),
        version: info.version,
        max_payload_bytes: u64::try_from(info.max_payload).unwrap_or(u64::MAX),
    }
}

/// Needs the right to read the definitions only.
pub async fn survey(bus: &Bus) -> Result<Survey, Error> {
    let (mut streams, mut clock) = (Vec::new(), None);
    for name in topology::stream_names() {
        let asked_at = clock::now();
        match api::ask(bus, &format!("STREAM.INFO.{name}"), Bytes::new()).await {
            Ok(info) => {
                let at = info["ts"].as_str().and_then(|at| clock::parse(at).ok());
                clock = at.map(|at| Clock { at, asked_at, heard_at: clock::now() }).or(clock);
                streams.push(stream_state(&name, &info));
            }
            Err(Error::Refused { code: STREAM_NOT_FOUND, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let (stream, name) = (subject::STREAM_JOBS, subject::CONSUMER_WORKERS);
    let consumer =
        match api::ask(bus, &format!("CONSUMER.INFO.{stream}.{name}"), Bytes::new()).await {
            Ok(info) => Some(consumer_state(&info)),
            Err(Error::Refused { code: STREAM_NOT_FOUND | CONSUMER_NOT_FOUND, .. }) => None,
            Err(error) => return Err(error),
        };
    Ok(Survey { streams, consumer, clock })
}

fn stream_state(name: &str, info: &Value) -> StreamState {
    let (config, state) = (&info["config"], &info["state"]);
    // A stream without copies has no list of them.
    let others = info["cluster"]["replicas"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_away = |other: &&Value| other["offline"] == true || other["current"] == false;
    let messages = number(&state["messages"]);
    let first = state["first_ts"].as_str().filter(|_| messages > 0);
    StreamState {
        name: name.to_owned(),
        messages,
        oldest_at: first.and_then(|at| clock::parse(at).ok()),
        bytes: number(&state["bytes"]),
        max_messages: config["max_msgs"].as_u64(),
        max_bytes: config["max_bytes"].as_u64(),
        refuses_when_full: config["discard"] == "new",
        replicas: number(&config["num_replicas"]),
        missing_replicas: u64::try_from(others.iter().filter(is_away).count()).unwrap_or(u64::MAX),
    }
}

fn consumer_state(info: &Value) -> ConsumerState {
    ConsumerState {
        ack_wait: Duration::from_nanos(number(&info["config"]["ack_wait"])),
        waiting_pulls: number(&info["num_waiting"]),
        pending: number(&info["num_pending"]),
        in_hand: number(&info["num_ack_pending"]),
        redelivered: number(&info["num_redelivered"]),
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
