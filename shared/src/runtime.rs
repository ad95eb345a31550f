//! Process plumbing, the same in both binaries.
pub mod clock;
pub mod digest;
pub mod env;
pub mod probe;
pub mod seal;
pub mod shutdown;
pub mod telemetry;
pub mod tls;
pub mod trace;
