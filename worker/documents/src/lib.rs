//! Reads uploads: bytes to text for a model. No network, no files, and no trust in the bytes.
//!
//! In reading order: [`limits`], [`extracted`] what comes out, [`failure`] what can go wrong, [`sniff`] the type by
//! content, [`extract`] one file to pieces, [`parent`] the same in a child process with limits ([`child`]).
//! A caller that faces users uses [`parent::Reader`] only: parsers panic, overflow their stack, allocate without end.
pub mod child;
pub mod extract;
pub mod extracted;
pub mod failure;
pub mod limits;
pub mod parent;
pub mod sniff;

mod confine;
mod encoding;
mod json;
mod output;
mod pdf;
mod picture;
mod sheet;
mod table;
mod wire;
