//! `shared::store` against a real Postgres that this binary starts for itself.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod attempts;
mod confirmations;
mod conversations;
mod fencing;
mod journal;
mod messages;
mod migrate;
mod overview;
mod pools;
mod requeue;
mod search;
mod server;
mod turns;
mod world;
