//! Whole-system tests; this list is the table of contents.
#![expect(clippy::disallowed_methods, reason = "tasks of a test end with its runtime")]
#![expect(clippy::unwrap_used, reason = "what fails here is a failed test")]
mod approval;
mod attach;
mod auth;
mod backpressure;
mod bad_input;
mod cancel;
mod chaos;
mod chat;
mod cluster3;
mod decisions;
mod documents;
mod endurance;
mod handover;
mod history;
mod house;
mod idempotency;
mod layering;
mod limits;
mod nats_security;
mod operator;
mod outages;
mod poison;
mod redelivery;
mod rest;
mod restore;
mod rolling;
mod rotation;
mod secrets;
mod sessions;
mod takeover;
mod telemetry;
mod tidy;
mod tools;
mod unavailable;
