//! Faults at every message of a worker: a run with a fault must leave what the undisturbed run leaves.
//!
//! Black box: the worker is the real program, and nothing in it knows of this. Read in this order: [`fault`] what can
//! happen and where, [`message`] what is counted, [`wire`] where faults strike, [`script`] what is played,
//! [`stage`] and [`run`] one run, [`outcome`] and [`verdict`] what it is judged by, [`matrix`] all runs and the table.
pub mod dice;
pub mod events;
pub mod fault;
pub mod matrix;
pub mod message;
pub mod outcome;
pub mod random;
pub mod run;
pub mod script;
pub mod stage;
pub mod transcript;
pub mod verdict;
pub mod wire;
