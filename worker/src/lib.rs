//! Runs turns: one job at a time per slot, from the queue to its terminal event.
//!
//! In reading order: [`config`], [`app`], [`consumer`] pulls, [`job`] tells one job's story, [`lease`] proves that
//! it is ours, [`context`] gathers what the model is told, [`driver`] performs the effects of the pure loop, [`llm`],
//! [`tools`] and [`backend`] do the IO; [`metrics`] are what it is measured by.
pub mod app;
pub mod attachments;
pub mod backend;

pub mod backoff;
pub mod config;
pub mod consumer;
pub mod context;
pub mod doubt;
pub mod driver;
pub mod health;
pub mod job;
pub mod lease;
pub mod llm;
pub mod metrics;
pub mod operator;
pub mod tools;
