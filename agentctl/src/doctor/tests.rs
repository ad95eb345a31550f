//! A healthy fleet's facts, and each rule with one of them broken.
mod fleet;
mod healthy;
mod servers;
mod sick;
