//! The backend's client against a server that records what it gets and answers as told.
mod identity;
mod mock;
mod outcomes;
mod output;
mod paths;
mod repeats;
