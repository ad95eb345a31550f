//! What comes out of a file.
use contract::file_type::FileType;
use contract::job::Locale;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Why};

#[derive(Clone, Debug, PartialEq)]
pub struct Extracted {
    pub kind: FileType,
    /// Of text files: a guess, unless it is UTF-8.
    pub encoding: Option<String>,
    pub sections: Vec<Section>,
    pub image: Option<Image>,
    pub cut: Option<Why>,
    pub notes: Vec<Note>,
    pub usage: Usage,
}

impl Extracted {
    /// Everything, each section under its mark.
    pub fn text(&self, locale: Locale) -> String {
        let sections = self.sections.iter().map(|section| {
            let text = section.text.trim_end();
            match section.mark.text(locale) {
                Some(mark) => format!("[{mark}]\n{text}"),
                None => text.to_owned(),
            }
        });
        sections.collect::<Vec<_>>().join("\n\n")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub mark: Mark,
    pub text: String,
    /// Goes on in the file.
    pub cut: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "mark")]
pub enum Mark {
    /// The file is one piece.
    Whole,
    Page {
        number: u32,
    },
    Sheet {
        name: String,
        hidden: bool,
    },
}

impl Mark {
    pub fn text(&self, locale: Locale) -> Option<String> {
        match (self, locale) {
            (Self::Whole, _) => None,
            (Self::Page { number }, Locale::En) => Some(format!("page {number}")),
            (Self::Page { number }, Locale::Ru) => Some(format!("страница {number}")),
            (Self::Sheet { name, hidden }, Locale::En) => {
                Some(format!("sheet «{name}»{}", if *hidden { " (hidden)" } else { "" }))
            }
            (Self::Sheet { name, hidden }, Locale::Ru) => {
                Some(format!("лист «{name}»{}", if *hidden { " (скрытый)" } else { "" }))
            }
        }
    }
}

/// Decoded, scaled and encoded anew: nothing of the original but its pixels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub mime: String,
    pub base64: String,
    pub width: u32,
    pub height: u32,
}

/// Worth telling the user, though what came out is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "note")]
pub enum Note {
    /// Pictures only, among pages with text.
    PagesWithoutText {
        pages: u32,
    },
    /// Neither engine could read them.
    PagesUnread {
        pages: u32,
    },
    SheetsUnread {
        sheets: u32,
    },
}

impl Note {
    pub fn text(&self, locale: Locale) -> String {
        match (self, locale) {
            (Self::PagesWithoutText { pages }, Locale::En) => {
                format!("Pages without text: {pages}.")
            }
            (Self::PagesWithoutText { pages }, Locale::Ru) => {
                format!("Страниц без текста: {pages}.")
            }
            (Self::PagesUnread { pages }, Locale::En) => {
                format!("Pages that could not be read: {pages}.")
            }
            (Self::PagesUnread { pages }, Locale::Ru) => {
                format!("Страниц прочитать не удалось: {pages}.")
            }
            (Self::SheetsUnread { sheets }, Locale::En) => {
                format!("Sheets that could not be read: {sheets}.")
            }
            (Self::SheetsUnread { sheets }, Locale::Ru) => {
                format!("Листов прочитать не удалось: {sheets}.")
            }
        }
    }
}

/// What the child took, as far as it could say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub cpu_ms: u64,
    /// Resident memory at the start, and the most there was.
    pub start_bytes: u64,
    pub peak_bytes: u64,
}

/// One step of an extraction, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    Head {
        kind: FileType,
        encoding: Option<String>,
    },
    Section(Mark),
    /// More of the open section.
    Text(String),
    /// The open section is not complete.
    SectionCut,
    Image(Image),
    Note(Note),
}

/// Puts pieces together.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    head: Option<(FileType, Option<String>)>,
    sections: Vec<Section>,
    image: Option<Image>,
    notes: Vec<Note>,
}

impl Gathered {
    pub(crate) fn push(&mut self, piece: Piece) {
        match piece {
            Piece::Head { kind, encoding } => self.head = Some((kind, encoding)),
            Piece::Section(mark) => {
                self.sections.push(Section { mark, text: String::new(), cut: false })
            }
            Piece::Text(text) => {
                if let Some(open) = self.sections.last_mut() {
                    open.text.push_str(&text);
                }
            }
            Piece::SectionCut => {
                if let Some(open) = self.sections.last_mut() {
                    open.cut = true;
                }
            }
            Piece::Image(image) => self.image = Some(image),
            Piece::Note(note) => self.notes.push(note),
        }
    }

    /// A file that failed late keeps what had come out.
    pub(crate) fn finish(
        mut self,
        end: Result<Option<Why>, Failure>,
        usage: Usage,
    ) -> Result<Extracted, Failure> {
        let empty = self.image.is_none()
            && self.sections.iter().all(|section| section.text.trim().is_empty());
        let cut = match end {
            Err(failure) if empty => return Err(failure),
            Err(failure) => {
                self.push(Piece::SectionCut);
                Some(Why::of_failure(&failure))
            }
            Ok(Some(why)) if empty => return Err(why.as_failure()),
            Ok(cut) => cut,
        };
        let Some((kind, encoding)) = self.head else { return Err(Failure::Crashed) };
        let Self { sections, image, notes, .. } = self;
        Ok(Extracted { kind, encoding, sections, image, cut, notes, usage })
    }
}
