//! How many tokens a text costs, by a real tokenizer.
use tiktoken_rs::o200k_base_singleton;

/// Longer texts are counted by samples, so that nobody can stop a thread with one message.
const EXACT_BYTES: usize = 64 * 1024;
const SAMPLES: usize = 8;
const SAMPLE_BYTES: usize = 4 * 1024;
/// What a message costs besides its text.
const PER_MESSAGE: usize = 4;

/// Loads the vocabulary: half a second and 46 MB, once. Call at start-up, on a blocking thread.
pub fn warm() {
    count("warm");
}

/// Tokens of `text`; for models of other makers an estimate.
pub fn count(text: &str) -> usize {
    if text.is_empty() {
        return 0;
    }
    if text.len() <= EXACT_BYTES { exact(text) } else { estimate(text) }
}

/// Tokens of one message with this text.
pub fn count_message(text: &str) -> usize {
    PER_MESSAGE + count(text)
}

fn exact(text: &str) -> usize {
    o200k_base_singleton().encode_ordinary(text).len()
}

fn estimate(text: &str) -> usize {
    let mut tokens = 0;
    let mut bytes = 0;
    for sample in 0..SAMPLES {
        let from = char_floor(text, text.len() / SAMPLES * sample);
        let to = char_floor(text, from + SAMPLE_BYTES);
        let piece = text.get(from..to).unwrap_or_default();
        tokens += exact(piece);
        bytes += piece.len();
    }
    (tokens * text.len()).div_ceil(bytes.max(1))
}

fn char_floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
