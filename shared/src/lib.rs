//! What gateway and worker share: NATS ([`bus`]), Postgres ([`store`]), process plumbing ([`runtime`]).
pub mod bus;
pub mod runtime;
pub mod store;
