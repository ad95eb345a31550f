//! Harness: real servers, fakes on the wire, whole fleets, small clients.
//!
//! Read in this order: [`process`] programs that are stopped whatever happens, [`place`] where programs and
//! ports are found, [`nats`] and [`database`] the real servers, [`backend`] and [`llm`] the fakes,
//! [`proxy`] and [`roundrobin`] what stands between, [`cluster`] all of it together, [`token`], [`gradio`]
//! and [`rest`] what a user does with it, [`agentctl`] what an operator does, [`transcript`] what the user
//! saw, as text, [`event_log`] what workers wrote, [`chaos`] workers that are struck at every message they send.
#![expect(clippy::unwrap_used, reason = "a harness: what fails here is a failed test")]
#![expect(clippy::expect_used, reason = "a harness: what fails here is a failed test")]
#![expect(clippy::panic, reason = "a harness: what fails here is a failed test")]
#![expect(clippy::disallowed_methods, reason = "tasks of a fake end with the runtime of its test")]
pub mod agentctl;
pub mod backend;
pub mod chaos;
pub mod cluster;
pub mod database;
pub mod event_log;
pub mod gradio;
pub mod llm;
pub mod nats;
pub mod otlp;
pub mod place;
pub mod process;
pub mod proxy;
pub mod rest;
pub mod roundrobin;
pub mod token;
pub mod transcript;
