//! The Gradio chat protocol as data: no IO, no clock, no randomness.
//!
//! [`config`] is what a client fetches first, [`request`] what it sends, [`message`] the value an event
//! becomes, [`frame`] the text of one stream message, [`session`] the machine that turns the events of a
//! session into frames. The measured protocol is described in `docs/protocol.md`.
pub mod config;
pub mod frame;
pub mod message;
pub mod request;
pub mod session;
