//! The bus against a real nats-server: every test starts its own.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test shall fail at once")]

#[path = "bus/cluster.rs"]
mod cluster;
#[path = "bus/control.rs"]
mod control;
#[path = "bus/dead_letters.rs"]
mod dead_letters;
#[path = "bus/events.rs"]
mod events;
#[path = "bus/files.rs"]
mod files;
#[path = "bus/jobs.rs"]
mod jobs;
#[path = "bus/reach.rs"]
mod reach;
#[path = "bus/reader.rs"]
mod reader;
#[path = "bus/server.rs"]
mod server;
#[path = "bus/survey.rs"]
mod survey;
#[path = "bus/topology.rs"]
mod topology;
#[path = "bus/workers.rs"]
mod workers;
