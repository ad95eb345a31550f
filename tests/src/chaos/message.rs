//! What a worker sends, cut into whole messages with names that are the same from run to run.
//!
//! A message is what can be lost as a whole: one client line of NATS with its payload, the frames of Postgres up
//! to the one that makes the server act, one HTTP request. What the clock drives has no name: signs of life,
//! pulls, renewals, connections being made.
mod http;
mod nats;
mod postgres;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    Nats,
    Postgres,
    Model,
    Backend,
}

impl Channel {
    pub const ALL: [Self; 4] = [Self::Nats, Self::Postgres, Self::Model, Self::Backend];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::Postgres => "pg",
            Self::Model => "model",
            Self::Backend => "backend",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub bytes: Vec<u8>,
    /// None: it comes by the clock, and is not counted.
    pub label: Option<String>,
    pub asks_for_a_job: bool,
}

/// Cuts one connection's bytes, in the direction of the server.
pub enum Splitter {
    Nats(nats::Lines),
    Postgres(postgres::Frames),
    Http(http::Requests),
}

impl Splitter {
    pub fn new(channel: Channel) -> Self {
        match channel {
            Channel::Nats => Self::Nats(nats::Lines::default()),
            Channel::Postgres => Self::Postgres(postgres::Frames::default()),
            Channel::Model | Channel::Backend => Self::Http(http::Requests::new(channel)),
        }
    }

    /// Takes bytes in and gives the messages that are whole with them.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Message> {
        match self {
            Self::Nats(lines) => lines.push(bytes),
            Self::Postgres(frames) => frames.push(bytes),
            Self::Http(requests) => requests.push(bytes),
        }
    }
}

#[cfg(test)]
mod tests;
