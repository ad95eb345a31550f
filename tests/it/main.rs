//! Whole-system tests; this list is the table of contents.
#![expect(clippy::disallowed_methods, reason = "tasks of a test end with its runtime")]
#![expect(clippy::unwrap_used, reason = "what fails here is a failed test")]
mod approval;
mod auth;
mod bad_input;
mod cancel;
mod chat;
mod decisions;
mod history;
mod house;
mod layering;
mod limits;
mod redelivery;
mod rest;
mod sessions;
mod tidy;
mod tools;
