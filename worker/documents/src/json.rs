//! JSON, printed for reading: token by token and never as a tree, so that depth, repeated keys and long numbers do
//! no harm and stay as they are written. A cut falls between two values and closes what is open.
use crate::extracted::{Mark, Piece};
use crate::failure::{Failure, Why};
use crate::limits::Limits;
use crate::output::{Output, Stop};

/// A container up to this size that holds no other stands on one line.
const LINE_BYTES: usize = 100;
const LONG_STRING_BYTES: usize = 10_000;
const SHORTENED_CHARS: usize = 2_000;
/// Kept free to close what is open.
const RESERVE_BYTES: usize = 2_048;

pub(crate) fn read(text: &str, limits: &Limits, out: &mut Output<'_>) -> Result<(), Stop> {
    out.begin(Mark::Whole);
    let mut printer = Printer {
        text,
        at: 0,
        open: Vec::new(),
        begun: true,
        wrote: false,
        depth: limits.depth,
        out,
    };
    let ended = printer.print();
    let empty = !printer.wrote;
    match ended {
        Err(Stop::Cut(Why::Broken)) if empty => Err(Failure::Corrupt.into()),
        Err(Stop::Cut(why)) => {
            printer.close()?;
            out.piece(Piece::SectionCut);
            Err(Stop::Cut(why))
        }
        ended => ended,
    }
}

struct Container {
    array: bool,
    inline: bool,
    filled: bool,
}

struct Printer<'t, 'o, 'e> {
    text: &'t str,
    /// Everything before it is printed.
    at: usize,
    open: Vec<Container>,
    /// A line or a key was begun, and a value has to follow.
    begun: bool,
    wrote: bool,
    depth: usize,
    out: &'o mut Output<'e>,
}

const BROKEN: Stop = Stop::Cut(Why::Broken);

impl<'t> Printer<'t, '_, '_> {
    /// Several values one after another, as in JSON Lines, are taken too.
    fn print(&mut self) -> Result<(), Stop> {
        self.skip_blanks();
        if self.peek().is_none() {
            return Err(BROKEN);
        }
        while self.peek().is_some() {
            self.value()?;
            self.write("\n")?;
            self.skip_blanks();
        }
        Ok(())
    }

    /// One value with everything in it.
    fn value(&mut self) -> Result<(), Stop> {
        let floor = self.open.len();
        self.scalar_or_open()?;
        while self.open.len() > floor {
            self.skip_blanks();
            let (array, filled) = self.open.last().map_or((true, false), |c| (c.array, c.filled));
            match self.peek() {
                Some(b']') if array => self.end("]")?,
                Some(b'}') if !array => self.end("}")?,
                Some(b',') if filled => {
                    self.at += 1;
                    self.skip_blanks();
                    self.item(array, true)?;
                }
                Some(_) if !filled => self.item(array, false)?,
                Some(_) | None => return Err(BROKEN),
            }
        }
        Ok(())
    }

    /// An array's next value or an object's next pair.
    fn item(&mut self, array: bool, follows: bool) -> Result<(), Stop> {
        let start = self.at;
        let mut key = None;
        if !array {
            key = Some(self.string()?);
            self.skip_blanks();
            if self.peek() != Some(b':') {
                return Err(BROKEN);
            }
            self.at += 1;
            self.skip_blanks();
        }
        let value = self.at;
        self.fits(start)?;
        let inline = self.open.last().is_some_and(|c| c.inline);
        if follows {
            self.write(if inline { ", " } else { "," })?;
        }
        if !inline {
            self.line()?;
        }
        if let Some(container) = self.open.last_mut() {
            container.filled = true;
        }
        if let Some(key) = key {
            self.write(&key)?;
            self.write(": ")?;
            self.begun = true;
        }
        self.at = value;
        self.scalar_or_open()
    }

    /// Nothing of an item is printed unless its first token fits.
    fn fits(&mut self, start: usize) -> Result<(), Stop> {
        let token = match self.peek() {
            Some(b'"') => self.string()?.len(),
            Some(_) | None => LINE_BYTES,
        };
        let needed = token + LONG_STRING_BYTES.min(self.at - start) + 2 * self.open.len();
        if self.out.room() < needed + RESERVE_BYTES { Err(Stop::Cut(Why::Text)) } else { Ok(()) }
    }

    fn scalar_or_open(&mut self) -> Result<(), Stop> {
        match self.peek() {
            Some(b'{') => self.start(false),
            Some(b'[') => self.start(true),
            Some(b'"') => {
                let string = self.string()?;
                self.write(&string)
            }
            Some(_) => {
                let word = self.word()?;
                self.write(word)
            }
            None => Err(BROKEN),
        }
    }

    fn start(&mut self, array: bool) -> Result<(), Stop> {
        if self.open.len() >= self.depth {
            return Err(Stop::Cut(Why::Depth));
        }
        let outer = self.open.last().is_some_and(|c| c.inline);
        let inline = outer || self.stands_on_one_line();
        self.at += 1;
        self.open.push(Container { array, inline, filled: false });
        self.write(if array { "[" } else { "{" })
    }

    fn end(&mut self, bracket: &str) -> Result<(), Stop> {
        self.at += 1;
        if self.open.pop().is_some_and(|c| c.filled && !c.inline) {
            self.line()?;
        }
        self.write(bracket)
    }

    fn stands_on_one_line(&self) -> bool {
        let mut quoted = false;
        let mut escaped = false;
        for byte in self.text.bytes().skip(self.at + 1).take(LINE_BYTES) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b'[' | b'{' if !quoted => return false,
                b']' | b'}' if !quoted => return true,
                _ => {}
            }
        }
        false
    }

    /// A number or a name, as it is written.
    fn word(&mut self) -> Result<&'t str, Stop> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let ends = |c: char| {
            matches!(c, ',' | ']' | '}' | ':' | '"' | '[' | '{') || c.is_ascii_whitespace()
        };
        let word = rest.get(..rest.find(ends).unwrap_or(rest.len())).unwrap_or_default();
        // The last three are no JSON, but widely written.
        let name = matches!(word, "true" | "false" | "null" | "NaN" | "Infinity" | "-Infinity");
        let number = word.starts_with(|c: char| c == '-' || c.is_ascii_digit())
            && word
                .bytes()
                .all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E'));
        if !name && !number || word.len() > LONG_STRING_BYTES {
            return Err(BROKEN);
        }
        self.at += word.len();
        Ok(word)
    }

    /// A string with its quotes: letters written as escapes become letters, long ones are shortened.
    fn string(&mut self) -> Result<String, Stop> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let body = rest.strip_prefix('"').ok_or(BROKEN)?;
        let mut escaped = false;
        let end = body.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let raw = end.and_then(|end| body.get(..end)).ok_or(BROKEN)?;
        self.at += raw.len() + 2;
        if raw.len() <= LONG_STRING_BYTES {
            return Ok(format!("\"{}\"", unescaped(raw)));
        }
        let start: String = unescaped(raw).chars().take(SHORTENED_CHARS).collect();
        Ok(format!("\"{start}… (cut, {} bytes)\"", raw.len()))
    }

    /// Says that something is missing, and closes every container.
    fn close(&mut self) -> Result<(), Stop> {
        if !self.begun && self.open.last().is_some_and(|c| !c.inline) {
            self.line()?;
        }
        self.write("… (cut)")?;
        while let Some(container) = self.open.pop() {
            if !container.inline {
                self.line()?;
            }
            self.write(if container.array { "]" } else { "}" })?;
        }
        self.write("\n")
    }

    fn line(&mut self) -> Result<(), Stop> {
        let indent = 2 * self.open.len();
        self.write(&format!("\n{:indent$}", ""))?;
        self.begun = true;
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), Stop> {
        self.begun = false;
        self.wrote = true;
        self.out.text(text)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }
}

/// `\u0414` is one letter to a reader and six to a model. Escapes of ASCII stay: a quote inside a string, a line's end.
fn unescaped(raw: &str) -> String {
    if !raw.contains("\\u") {
        return raw.to_owned();
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        text.push_str(before);
        let (letter, length) = letter(escape);
        match letter {
            Some(letter) => text.push(letter),
            None => text.push_str(escape.get(..length).unwrap_or(escape)),
        }
        rest = escape.get(length..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

/// The letter an escape stands for, if it is to be shown, and the length of the escape.
fn letter(escape: &str) -> (Option<char>, usize) {
    let unit = |at: usize| {
        let hex = escape.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(hex, 16).ok()
    };
    let Some(first) = unit(0) else {
        return (None, escape.char_indices().nth(2).map_or(escape.len(), |(at, _)| at));
    };
    let (units, length) = match unit(6) {
        Some(second) if (0xd800..0xdc00).contains(&first) => (vec![first, second], 12),
        Some(_) | None => (vec![first], 6),
    };
    let decoded = char::decode_utf16(units).next().and_then(Result::ok);
    // Marks that only steer the direction of text stay visible.
    let hidden = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    (decoded.filter(|c| !c.is_ascii() && !c.is_control() && !hidden(*c)), length)
}

#[cfg(test)]
mod tests;
