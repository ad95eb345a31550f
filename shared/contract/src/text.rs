//! Cutting text for people: never inside a grapheme.
use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;

use crate::limits;

/// FR-028. Returns the text as it is, or cut so that text plus mark has at most `MESSAGE_CHARS` characters.
pub fn truncate_message(text: &str) -> Cow<'_, str> {
    truncate_to(text, limits::MESSAGE_CHARS)
}

/// Cuts to `max_chars` characters, the mark included; at a sentence end if one lies near the cut.
pub fn truncate_to(text: &str, max_chars: usize) -> Cow<'_, str> {
    if text.len() <= max_chars || text.chars().count() <= max_chars {
        return Cow::Borrowed(text);
    }
    let room = max_chars.saturating_sub(limits::TRUNCATION_MARK.chars().count());
    let byte = text.char_indices().nth(room).map_or(text.len(), |(at, _)| at);
    let hard = grapheme_floor(text, byte);
    let cut = sentence_end(text, hard).unwrap_or(hard);
    let kept = text.get(..cut).unwrap_or_default();
    Cow::Owned(format!("{kept}{}", limits::TRUNCATION_MARK))
}

/// DECISIONS 28: whitespace folded, at most 60 graphemes.
pub fn title(text: &str) -> String {
    let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cleaned: String = folded.chars().filter(|c| !c.is_control()).collect();
    cleaned.graphemes(true).take(limits::TITLE_GRAPHEMES).collect::<String>().trim_end().to_owned()
}

/// Cuts to at most `max_bytes` bytes at a grapheme border; says whether anything was cut.
pub fn cut_bytes(text: &str, max_bytes: usize) -> (&str, bool) {
    if text.len() <= max_bytes {
        return (text, false);
    }
    (text.get(..grapheme_floor(text, max_bytes)).unwrap_or_default(), true)
}

/// The largest grapheme border at or below `byte`. Looks at a bounded piece before it only.
fn grapheme_floor(text: &str, byte: usize) -> usize {
    let mut start = byte.saturating_sub(256);
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let piece = text.get(start..).unwrap_or_default();
    let mut floor = start;
    for (at, grapheme) in piece.grapheme_indices(true) {
        if start + at > byte {
            break;
        }
        floor = start + at;
        if start + at + grapheme.len() <= byte {
            floor = start + at + grapheme.len();
        }
    }
    if floor == start && start > 0 { char_floor(text, byte) } else { floor }
}

/// A "grapheme" longer than the piece looked at is hostile text: cut at a character.
fn char_floor(text: &str, mut byte: usize) -> usize {
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}

fn sentence_end(text: &str, cut: usize) -> Option<usize> {
    let head = text.get(..cut)?;
    let mut next: Option<char> = text.get(cut..)?.chars().next();
    for (seen, (at, c)) in head.char_indices().rev().enumerate() {
        if seen >= limits::SENTENCE_WINDOW_CHARS {
            return None;
        }
        let closes = matches!(c, '.' | '!' | '?' | '…') && next.is_none_or(char::is_whitespace);
        if closes || matches!(c, '\n' | '。' | '！' | '？') {
            return Some(at + c.len_utf8());
        }
        next = Some(c);
    }
    None
}

#[cfg(test)]
mod tests;
