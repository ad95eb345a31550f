//! Bytes to text when nobody says in which encoding.
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use contract::file_type::{Wide, wide};
use encoding_rs::{
    Encoding, KOI8_R, KOI8_U, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1251, WINDOWS_1252,
};

pub(crate) struct Decoded {
    pub text: String,
    /// Lower case, as people write it.
    pub encoding: String,
}

pub(crate) fn decode(bytes: &[u8]) -> Decoded {
    let encoding = guess(bytes);
    let (text, used, _) = encoding.decode(bytes);
    Decoded { text: text.into_owned(), encoding: used.name().to_ascii_lowercase() }
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    match wide(bytes) {
        Some(Wide::LittleEndian) => return UTF_16LE,
        Some(Wide::BigEndian) => return UTF_16BE,
        None => {}
    }
    if std::str::from_utf8(bytes).is_ok() {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(telling(bytes), true);
    let guess = detector.guess(Some(b"ru"), Utf8Detection::Allow);
    if guess == WINDOWS_1252 && is_cyrillic(bytes) {
        WINDOWS_1251
    } else if guess == KOI8_U && !bytes.iter().any(|b| UKRAINIAN.contains(b)) {
        KOI8_R
    } else {
        guess
    }
}

/// The part around the first letters that are not ASCII: enough to tell, and the detector is slow.
fn telling(bytes: &[u8]) -> &[u8] {
    let first = bytes.iter().position(|b| !b.is_ascii()).unwrap_or_default();
    let start = first.saturating_sub(TELLING_BYTES / 2);
    bytes.get(start..bytes.len().min(start + TELLING_BYTES)).unwrap_or(bytes)
}

const TELLING_BYTES: usize = 512 * 1024;

/// Letters of KOI8-U that KOI8-R draws lines with.
const UKRAINIAN: [u8; 8] = [0xa4, 0xa6, 0xa7, 0xad, 0xb4, 0xb6, 0xb7, 0xbd];

/// Few Russian words among much ASCII look like accents to the detector; but accents stand alone, and letters of
/// windows-1251 stand side by side.
fn is_cyrillic(bytes: &[u8]) -> bool {
    let is_letter = |b: &u8| *b >= 0xc0;
    let high = bytes.iter().filter(|b| **b >= 0x80).count();
    let in_runs: usize = bytes
        .chunk_by(|a, b| is_letter(a) == is_letter(b))
        .filter(|run| run.first().is_some_and(is_letter) && run.len() >= 2)
        .map(<[u8]>::len)
        .sum();
    in_runs * 5 >= high * 4
}

#[cfg(test)]
mod tests {
    use encoding_rs::{IBM866, ISO_8859_5};

    use super::*;

    const RUSSIAN: &str = "Дата;Сумма;Примечание\n01.02.2026;1 200,50;Оплата поставки\n02.02.2026;300;Итого за день\n";

    #[track_caller]
    fn check(bytes: &[u8], encoding: &str, text: &str) {
        let decoded = decode(bytes);
        assert_eq!((decoded.encoding.as_str(), decoded.text.as_str()), (encoding, text));
    }

    fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(unit).collect()
    }

    #[test]
    fn russian_in_every_encoding_it_comes_in() {
        check(RUSSIAN.as_bytes(), "utf-8", RUSSIAN);
        check(&[b"\xef\xbb\xbf", RUSSIAN.as_bytes()].concat(), "utf-8", RUSSIAN);
        check(
            &[b"\xff\xfe".to_vec(), utf16(RUSSIAN, u16::to_le_bytes)].concat(),
            "utf-16le",
            RUSSIAN,
        );
        check(
            &[b"\xfe\xff".to_vec(), utf16(RUSSIAN, u16::to_be_bytes)].concat(),
            "utf-16be",
            RUSSIAN,
        );
        check(&utf16(RUSSIAN, u16::to_le_bytes), "utf-16le", RUSSIAN);
        check(&utf16(RUSSIAN, u16::to_be_bytes), "utf-16be", RUSSIAN);
        for encoding in [WINDOWS_1251, KOI8_R, IBM866, ISO_8859_5] {
            let bytes = encoding.encode(RUSSIAN).0;
            check(&bytes, &encoding.name().to_ascii_lowercase(), RUSSIAN);
        }
    }

    #[test]
    fn german_stays_german() {
        let german = "Straße;Größe;Übergröße\nMünchen;10;ärgerlich\nKöln;5;weiß\n";
        check(&WINDOWS_1252.encode(german).0, "windows-1252", german);
    }

    #[test]
    fn one_russian_word_in_much_english() {
        let text = format!("{}Итого;3\n", "item;price;count\n".repeat(3_000));
        check(&WINDOWS_1251.encode(&text).0, "windows-1251", &text);
    }
}
