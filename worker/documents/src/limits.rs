//! How much one file may cost, and how much may come out.
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// CPU time of the child; what was read until then is kept.
    pub cpu_ms: u64,
    /// Memory of the child above what it has at its start, with the stack of its parser.
    pub memory_bytes: u64,
    /// Text that comes out of one file.
    pub text_bytes: usize,
    pub pages: u32,
    /// Filled cells of a workbook.
    pub cells: u64,
    /// Declared size of everything in a workbook's archive, and that size by the archive's own.
    pub unpacked_bytes: u64,
    pub unpacked_ratio: u64,
    /// Brackets inside brackets of a JSON text.
    pub depth: usize,
    /// Either side of an image, before it is decoded.
    pub image_side: u32,
    /// What a decoded image may take.
    pub image_bytes: u64,
    /// Longer side of the image that comes out, and its size as Base64.
    pub image_out_side: u32,
    pub image_out_base64: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu_ms: 1_800,
            memory_bytes: 208 << 20,
            text_bytes: 400_000,
            pages: 300,
            cells: 200_000,
            unpacked_bytes: 100 << 20,
            unpacked_ratio: 200,
            depth: 100,
            image_side: 8_192,
            image_bytes: 128 << 20,
            image_out_side: 2_048,
            image_out_base64: 1_000_000,
        }
    }
}
