//! The model's client against a raw TCP server that misbehaves in every way seen so far.
mod assembling;
mod calls;
mod cutting;
mod failures;
mod mock;
mod quirks;
mod request;
mod tokens;
