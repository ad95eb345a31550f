//! `shared::store` against a real Postgres that this binary starts for itself.
mod confirmations;
mod conversations;
mod fencing;
mod journal;
mod messages;
mod migrate;
mod pools;
mod search;
mod server;
mod turns;
mod world;
