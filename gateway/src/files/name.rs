//! Names of uploads: what a client calls a file, as shown text, as an issued path, as a header.
use contract::text;
use uuid::Uuid;

const SHOWN_BYTES: usize = 255;
const SAFE_STEM: usize = 64;
const SAFE_EXTENSION: usize = 10;
const ID_DIGITS: usize = 32;

/// The last part of whatever path a client sent, without control characters. `None` if nothing is left, or
/// if it is `.` or `..`.
pub fn display(file_name: &str) -> Option<String> {
    let last = file_name.rsplit(['/', '\\']).next().unwrap_or_default();
    let cleaned: String = last.chars().filter(|c| !c.is_control()).collect();
    let shown = text::cut_bytes(cleaned.trim(), SHOWN_BYTES).0;
    if shown.is_empty() || shown == "." || shown == ".." { None } else { Some(shown.to_owned()) }
}

/// `<32 digits>/<[A-Za-z0-9._-]+>`; keeps the extension.
pub fn issue(id: Uuid, shown: &str) -> String {
    let (stem, extension) = shown.rsplit_once('.').unwrap_or((shown, ""));
    let (stem, extension) = (safe(stem, SAFE_STEM), safe(extension, SAFE_EXTENSION));
    let stem = if stem.is_empty() { "file" } else { &stem };
    let dot = if extension.is_empty() { "" } else { "." };
    format!("{}/{stem}{dot}{extension}", id.simple())
}

/// Whether a path has the form of one that [`issue`] made.
pub fn is_issued(path: &str) -> bool {
    let Some((id, name)) = path.split_once('/') else { return false };
    let digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let bounded = (1..=SAFE_STEM + 1 + SAFE_EXTENSION).contains(&name.len());
    id.len() == ID_DIGITS && id.bytes().all(digit) && bounded && name.bytes().all(plain)
}

/// `Content-Disposition` for saving under the shown name, which may be in any script.
pub fn disposition(shown: &str) -> String {
    let ascii: String = shown
        .chars()
        .map(|c| if c.is_ascii_graphic() && c != '"' && c != '\\' { c } else { '_' })
        .collect();
    let mut encoded = String::new();
    for byte in shown.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{encoded}")
}

/// Letters, digits, `.` and `-`; runs of anything else become one `_`, and none of them stands at an end.
fn safe(text: &str, max: usize) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') {
            safe.push(c);
        } else if !safe.is_empty() && !safe.ends_with('_') {
            safe.push('_');
        }
    }
    let cut: String = safe.chars().take(max).collect();
    cut.trim_matches(['.', '_', '-']).to_owned()
}

#[cfg(test)]
mod tests;
