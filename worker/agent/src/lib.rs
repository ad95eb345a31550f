//! The agent loop as a pure state machine: values in, values out; no IO, clock, randomness or ids.
//!
//! The shell feeds [`input`]s to a [`run::Run`] and performs the [`effect`]s it answers with, in order. A
//! serialized run is the checkpoint. Read in this order: [`message`] and [`tool`] what the model is sent,
//! [`input`], [`effect`], [`run`] the loop, [`approval`] which calls wait for the user, [`history`] what
//! still fits, [`toolbox`] which tools a query may see, [`prompt`] what the model is told, [`documents`] how files
//! are quoted.
pub mod approval;
pub mod documents;
pub mod effect;
pub mod history;
pub mod input;
pub mod message;
pub mod prompt;
pub mod run;
pub mod tool;
pub mod toolbox;

#[cfg(test)]
mod tests;
