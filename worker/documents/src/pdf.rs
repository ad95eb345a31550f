//! PDF: two engines read every page. The first gives the better order of words, but loses pages to its panics and
//! words to fonts it doesn't know; the second steps in where that shows.
mod arbiter;
mod first;
mod second;

use std::time::Duration;

use crate::confine::thread_time;
use crate::extracted::{Mark, Note};
use crate::failure::{Failure, Why};
use crate::limits::Limits;
use crate::output::{Output, Stop};
use crate::pdf::first::First;
use crate::pdf::second::Second;

/// Why an engine can't open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unopened {
    Encrypted,
    Corrupt,
}

/// The first engine reads the fonts anew for every page: of a book of a hundred pages it would read half in the time
/// there is. So after half of the time the second goes on alone.
const BOTH: u32 = 2;

pub(crate) fn read(bytes: &[u8], limits: &Limits, out: &mut Output<'_>) -> Result<(), Stop> {
    let both_until = thread_time() + Duration::from_millis(limits.cpu_ms) / BOTH;
    let second = Second::open(bytes);
    let first = First::open(bytes, limits);
    if let (Err(one), Err(other)) = (&first, &second) {
        let encrypted = [one, other].contains(&&Unopened::Encrypted);
        return Err(if encrypted { Failure::Encrypted } else { Failure::Corrupt }.into());
    }
    let (mut first, second) = (first.ok(), second.ok());
    let there =
        first.as_ref().map_or(0, First::pages).max(second.as_ref().map_or(0, Second::pages));
    if there == 0 {
        return Err(Failure::Corrupt.into());
    }
    let last = there.min(limits.pages);
    let first = first.as_mut();
    let mut pages = Pages { first, both_until, out, letters: 0, empty: 0, unread: 0 };
    match &second {
        Some(second) => second.each_page(last, &mut |number, text| pages.page(number, text))?,
        None => (1..=last).try_for_each(|number| pages.page(number, None))?,
    }
    pages.finish(last)?;
    if there > last { Err(Stop::Cut(Why::Pages)) } else { Ok(()) }
}

struct Pages<'f, 'o, 'e> {
    first: Option<&'f mut First>,
    both_until: Duration,
    out: &'o mut Output<'e>,
    letters: usize,
    empty: u32,
    unread: u32,
}

impl Pages<'_, '_, '_> {
    /// `second` is what the second engine read.
    fn page(&mut self, number: u32, second: Option<String>) -> Result<(), Stop> {
        let hurry = second.is_some() && thread_time() > self.both_until;
        let first = if hurry { None } else { self.first.as_mut().and_then(|f| f.page(number)) };
        self.out.begin(Mark::Page { number });
        let Some(text) = arbiter::choose(first, second) else {
            self.unread += 1;
            return Ok(());
        };
        let letters = arbiter::letters(&text);
        self.letters += letters;
        if letters == 0 {
            self.empty += 1;
            return Ok(());
        }
        self.out.text(&tidy(&text))?;
        self.out.flush();
        Ok(())
    }

    fn finish(&mut self, last: u32) -> Result<(), Stop> {
        if self.letters == 0 {
            let failure = if self.unread == last { Failure::Corrupt } else { Failure::NoText };
            return Err(failure.into());
        }
        if self.empty > 0 {
            self.out.note(Note::PagesWithoutText { pages: self.empty });
        }
        if self.unread > 0 {
            self.out.note(Note::PagesUnread { pages: self.unread });
        }
        Ok(())
    }
}

/// No blanks at the ends of lines, at most one empty line in a row.
fn tidy(text: &str) -> String {
    let mut tidy = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines().map(str::trim_end) {
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty > 1 || (line.is_empty() && tidy.is_empty()) {
            continue;
        }
        tidy.push_str(line);
        tidy.push('\n');
    }
    tidy.truncate(tidy.trim_end().len());
    tidy
}
