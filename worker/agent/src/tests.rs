//! Transcripts of whole turns; a search over all short input sequences; long random turns.
pub(crate) mod random;

mod cancel;
mod confirm;
mod crash;
mod failures;
mod limits;
mod render;
mod search;
mod tools;
mod world;
