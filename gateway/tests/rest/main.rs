//! Every REST route, uploads and the gate, over HTTP, on a real NATS and a real Postgres.
#![expect(clippy::unwrap_used, reason = "tests")]
mod active;
mod binary;
mod conversations;
mod files;
mod gate;
mod messages;
mod stand;
mod tokens;
