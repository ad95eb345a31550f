//! The bus against a real nats-server: every test starts its own.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test shall fail at once")]

#[path = "bus/cluster.rs"]
mod cluster;
#[path = "bus/control.rs"]
mod control;
#[path = "bus/events.rs"]
mod events;
#[path = "bus/files.rs"]
mod files;
#[path = "bus/jobs.rs"]
mod jobs;
#[path = "bus/reader.rs"]
mod reader;
#[path = "bus/server.rs"]
mod server;
#[path = "bus/topology.rs"]
mod topology;
