//! Runs turns: one job at a time per slot, from the queue to its terminal event.
//!
//! In reading order: [`config`], [`app`], [`consumer`] pulls, [`job`] tells one job's story, [`context`] gathers what
//! the model is told, [`driver`] performs the effects of the pure loop, [`llm`], [`tools`] and [`backend`] do the IO.
pub mod app;
pub mod backend;

pub mod backoff;
pub mod config;
pub mod consumer;
pub mod context;
pub mod driver;
pub mod health;
pub mod job;
pub mod llm;
pub mod tools;
