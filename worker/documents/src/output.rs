//! Where the readers of all formats write to: cleans, counts, and stops at the limit.
use contract::text::cut_bytes;

use crate::extracted::{Mark, Note, Piece};
use crate::failure::{Failure, Why};

/// So much text is sent at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// Why a reader ends before the file does.
#[derive(Debug)]
pub(crate) enum Stop {
    Cut(Why),
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

pub(crate) struct Output<'a> {
    emit: &'a mut dyn FnMut(Piece),
    waiting: String,
    room: usize,
}

impl<'a> Output<'a> {
    pub(crate) fn new(emit: &'a mut dyn FnMut(Piece), text_bytes: usize) -> Self {
        Self { emit, waiting: String::new(), room: text_bytes }
    }

    /// Bytes that still fit.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    pub(crate) fn piece(&mut self, piece: Piece) {
        self.flush();
        (self.emit)(piece);
    }

    pub(crate) fn begin(&mut self, mark: Mark) {
        self.piece(Piece::Section(mark));
    }

    pub(crate) fn note(&mut self, note: Note) {
        self.piece(Piece::Note(note));
    }

    /// Appends to the open section what fits.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Stop> {
        let (fits, cut) = cut_bytes(text, self.room);
        self.room -= fits.len();
        self.waiting.extend(fits.chars().filter(|c| is_shown(*c)));
        if cut {
            self.piece(Piece::SectionCut);
            return Err(Stop::Cut(Why::Text));
        }
        if self.waiting.len() >= CHUNK_BYTES {
            self.flush();
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) {
        if !self.waiting.is_empty() {
            (self.emit)(Piece::Text(std::mem::take(&mut self.waiting)));
        }
    }
}

/// Control characters are no text: some end strings, some hide what follows from a reader.
fn is_shown(c: char) -> bool {
    matches!(c, '\n' | '\t') || !c.is_control()
}
