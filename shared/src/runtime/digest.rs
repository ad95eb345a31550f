//! SHA-256 as text.
use std::fmt::Write as _;

use ring::digest::{SHA256, digest};

/// 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in digest(&SHA256, bytes).as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
