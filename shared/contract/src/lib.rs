//! What travels between gateway and worker over NATS, as data: no IO, no clock, no randomness.
//!
//! Read in this order: [`ids`] who is meant, [`subject`] where it travels, [`job`] what is asked,
//! [`event`] what is told, [`control`] what interrupts, [`error_code`] what went wrong,
//! [`file_type`] and [`file_warning`] what becomes of files, [`limits`] every number the specification promises.
pub mod control;
pub mod error_code;
pub mod event;
pub mod file_type;
pub mod file_warning;
pub mod ids;
pub mod job;
pub mod limits;
pub mod secret;
pub mod subject;
pub mod text;

/// Version of every JSON document in this package (`v`, header `Agent-Schema`).
pub const SCHEMA_VERSION: u32 = 1;
