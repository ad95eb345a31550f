//! What came out of one file: as it is stored, as the model is told of it, as the user is.
use agent::documents::{Document, Section};
use anyhow::Context as _;
use contract::event::Event;
use contract::file_type::FileType;
use contract::file_warning::FileWarning;
use contract::job::Locale;
use contract::text;
use documents::extracted::{Extracted, Mark, Note};
use documents::failure::{Failure, Why};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A user's name for a file, in a sentence.
const NAME_BYTES: usize = 200;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Extraction {
    Read(Content),
    Failed {
        failure: Failure,
    },
    /// Expired, or never this user's.
    Gone,
    /// It could not be fetched. Never stored.
    Unavailable,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    kind: FileType,
    sections: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cut: Option<Why>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<Note>,
    /// There is a picture that a model can be shown.
    #[serde(default)]
    picture: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Part {
    mark: Mark,
    text: String,
}

impl Extraction {
    pub fn of(extracted: Extracted, picture: bool) -> Self {
        let part = |section: documents::extracted::Section| Part {
            mark: section.mark,
            text: section.text,
        };
        Self::Read(Content {
            kind: extracted.kind,
            sections: extracted.sections.into_iter().map(part).collect(),
            cut: extracted.cut,
            notes: extracted.notes,
            picture,
        })
    }

    pub fn render(&self) -> anyhow::Result<Value> {
        serde_json::to_value(self).context("rendering an extraction")
    }

    /// One of a later release may say more than this one understands.
    pub fn parse(stored: Value) -> Self {
        serde_json::from_value(stored).unwrap_or(Self::Failed { failure: Failure::Crashed })
    }

    /// Whoever reads the file again may find more: it was the machine that failed, or a limit that a busy machine
    /// reaches earlier.
    pub fn may_change(&self) -> bool {
        match self {
            Self::Failed { failure } => {
                matches!(failure, Failure::Crashed | Failure::TimedOut | Failure::OutOfMemory)
            }
            Self::Unavailable => true,
            Self::Read(_) | Self::Gone => false,
        }
    }

    pub fn is_picture(&self) -> bool {
        match self {
            Self::Read(content) => content.picture,
            Self::Failed { .. } | Self::Gone | Self::Unavailable => false,
        }
    }

    /// `place`: of its picture among those that go with the message.
    pub fn document(
        &self,
        name: &str,
        earlier: bool,
        place: Option<usize>,
        locale: Locale,
    ) -> Document {
        let mut document = Document { name: name.to_owned(), earlier, ..Document::default() };
        match self {
            Self::Read(content) => content.describe(&mut document, place, locale),
            Self::Failed { failure } => document.notes.push(unread(&failure.text(Locale::En))),
            Self::Gone => document.notes.push(unread(FileWarning::FileExpired.text(Locale::En))),
            Self::Unavailable => {
                document.notes.push(unread(FileWarning::FileUnavailable.text(Locale::En)))
            }
        }
        document
    }

    /// `cut`: not all of it fits into the model's context.
    pub fn warnings(
        &self,
        name: &str,
        takes_pictures: bool,
        cut: bool,
        locale: Locale,
    ) -> Vec<Event> {
        let warning = |code: FileWarning, text: &str| warning(code, name, text, locale);
        let plain = |code: FileWarning| warning(code, code.text(locale));
        match self {
            Self::Read(content) => {
                let mut warnings = Vec::new();
                if let Some(why) = content.cut {
                    warnings.push(warning(FileWarning::FileCut, why.text(locale)));
                } else if cut {
                    warnings.push(plain(FileWarning::FileCut));
                }
                let notes = content.notes.iter();
                warnings.extend(
                    notes.map(|note| warning(FileWarning::FileIncomplete, &note.text(locale))),
                );
                if content.picture && !takes_pictures {
                    warnings.push(plain(FileWarning::ImageNotSeen));
                }
                warnings
            }
            Self::Failed { failure } => vec![warning(failure.warning(), &failure.text(locale))],
            Self::Gone => vec![plain(FileWarning::FileExpired)],
            Self::Unavailable => vec![plain(FileWarning::FileUnavailable)],
        }
    }
}

impl Content {
    fn describe(&self, document: &mut Document, place: Option<usize>, locale: Locale) {
        let section =
            |part: &Part| Section { mark: part.mark.text(locale), text: part.text.clone() };
        document.sections = self.sections.iter().map(section).collect();
        document.spread = self.kind == FileType::Xlsx;
        if let Some(why) = self.cut {
            document.notes.push(why.text(Locale::En).to_owned());
        }
        document.notes.extend(self.notes.iter().map(|note| note.text(Locale::En)));
        match place {
            Some(place) => {
                document.notes.push(format!("This is picture {} of this message.", place + 1));
            }
            None if self.picture => document.notes.push(
                "You can't see this picture; only its type and size are known. Say so if asked about it."
                    .to_owned(),
            ),
            None => {}
        }
    }
}

fn unread(why: &str) -> String {
    format!("Nothing of this file is known. {why}")
}

fn warning(code: FileWarning, name: &str, text: &str, locale: Locale) -> Event {
    let plain: String = name.chars().filter(|c| !c.is_control()).collect();
    let name = text::cut_bytes(&plain, NAME_BYTES).0;
    let detail = match locale {
        Locale::Ru => format!("Файл «{name}»: {text}"),
        Locale::En => format!("File \"{name}\": {text}"),
    };
    Event::Warning { code: code.as_str().to_owned(), detail }
}

#[cfg(test)]
mod tests;
