//! Which uploads are taken: what a name and the first bytes say. The package `documents` looks inside.
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::job::Locale;

/// So many bytes from the start are enough for [`judge`]; fewer only if the file has fewer.
pub const HEAD_BYTES: usize = 1024;
/// The list in every refusal.
pub const FORMATS: &str = "PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileType {
    Pdf,
    /// A workbook, with macros or without.
    Xlsx,
    Json,
    Csv,
    Tsv,
    Png,
    Jpeg,
}

impl FileType {
    pub const ALL: [Self; 7] =
        [Self::Pdf, Self::Xlsx, Self::Json, Self::Csv, Self::Tsv, Self::Png, Self::Jpeg];

    /// Lower case, without the dot.
    pub const fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Pdf => &["pdf"],
            Self::Xlsx => &["xlsx", "xlsm"],
            Self::Json => &["json"],
            Self::Csv => &["csv"],
            Self::Tsv => &["tsv"],
            Self::Png => &["png"],
            Self::Jpeg => &["jpg", "jpeg"],
        }
    }

    pub const fn mime(self) -> &'static str {
        match self {
            Self::Pdf => "application/pdf",
            Self::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            Self::Json => "application/json",
            Self::Csv => "text/csv",
            Self::Tsv => "text/tab-separated-values",
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
        }
    }

    pub const fn label(self) -> &'static str {
        match self {
            Self::Pdf => "PDF",
            Self::Xlsx => "XLSX",
            Self::Json => "JSON",
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
        }
    }

    pub const fn is_image(self) -> bool {
        match self {
            Self::Png | Self::Jpeg => true,
            Self::Pdf | Self::Xlsx | Self::Json | Self::Csv | Self::Tsv => false,
        }
    }

    fn of_extension(extension: &str) -> Option<Self> {
        let extension = extension.to_ascii_lowercase();
        Self::ALL.into_iter().find(|kind| kind.extensions().contains(&extension.as_str()))
    }
}

/// Content that is known and not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Foreign {
    Program,
    Script,
    /// An OLE container: .xls, .doc, .msi.
    OldOffice,
    /// .docx, .pptx, .xlsb.
    OtherOffice,
    OpenDocument,
    Archive,
    Html,
    Xml,
    Rtf,
    OtherImage,
    PostScript,
    /// Bytes that are no text and nothing known.
    Binary,
    /// Readable, but not the text that the name promises.
    Text,
}

impl Foreign {
    const fn label(self, locale: Locale) -> &'static str {
        let (en, ru) = match self {
            Self::Program => ("a program", "программа"),
            Self::Script => ("a script", "скрипт"),
            Self::OldOffice => ("an old Office file (XLS, DOC)", "старый файл Office (XLS, DOC)"),
            Self::OtherOffice => ("an Office file of another kind", "файл Office другого вида"),
            Self::OpenDocument => {
                ("an OpenDocument file (ODS, ODT)", "файл OpenDocument (ODS, ODT)")
            }
            Self::Archive => ("an archive", "архив"),
            Self::Html => ("a web page", "веб-страница"),
            Self::Xml => ("XML", "XML"),
            Self::Rtf => ("RTF", "RTF"),
            Self::OtherImage => ("an image of another kind", "изображение другого вида"),
            Self::PostScript => ("PostScript", "PostScript"),
            Self::Binary => ("unknown data", "неизвестные данные"),
            Self::Text => ("plain text", "обычный текст"),
        };
        match locale {
            Locale::En => en,
            Locale::Ru => ru,
        }
    }
}

/// Why a file is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Refused {
    Empty,
    /// The name's extension is not in the list, whatever the content.
    Name {
        extension: String,
    },
    Content {
        found: Foreign,
    },
    /// The name says one thing, the content another.
    Mismatch {
        named: FileType,
        found: FileType,
    },
    /// Two formats in one file.
    Ambiguous,
}

impl Refused {
    /// A sentence for the user that names the formats.
    pub fn text(&self, locale: Locale) -> String {
        match locale {
            Locale::En => format!("{}. Use {FORMATS}.", self.reason_en()),
            Locale::Ru => format!("{}. Подойдут {FORMATS}.", self.reason_ru()),
        }
    }

    fn reason_en(&self) -> String {
        match self {
            Self::Empty => "The file is empty".to_owned(),
            Self::Name { extension } => format!("Files called .{extension} can't be read"),
            Self::Content { found } => {
                format!("The file is {}, which can't be read", found.label(Locale::En))
            }
            Self::Mismatch { named, found } => {
                format!(
                    "The file is called {}, but its content is {}",
                    named.label(),
                    found.label()
                )
            }
            Self::Ambiguous => "The file holds two formats at once".to_owned(),
        }
    }

    fn reason_ru(&self) -> String {
        match self {
            Self::Empty => "Файл пуст".to_owned(),
            Self::Name { extension } => format!("Файлы .{extension} не читаются"),
            Self::Content { found } => {
                format!("В файле {}, такое не читается", found.label(Locale::Ru))
            }
            Self::Mismatch { named, found } => {
                format!("Файл назван {}, но внутри {}", named.label(), found.label())
            }
            Self::Ambiguous => "В файле сразу два формата".to_owned(),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason_en())
    }
}

impl std::error::Error for Refused {}

/// What the first bytes can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    Is(FileType),
    /// A zip: perhaps a workbook.
    Zip,
    /// An OLE container: perhaps a workbook with a password.
    Ole,
    /// With its first character that is no blank.
    Text(Option<char>),
    Foreign(Foreign),
}

/// The type that name and first bytes agree on. A yes is a guess until the whole file was looked at.
pub fn judge(name: &str, head: &[u8]) -> Result<FileType, Refused> {
    let named = match extension(name) {
        None => None,
        Some(extension) => {
            Some(FileType::of_extension(extension).ok_or_else(|| Refused::Name {
                extension: extension.chars().filter(|c| c.is_alphanumeric()).take(16).collect(),
            })?)
        }
    };
    if head.is_empty() {
        return Err(Refused::Empty);
    }
    let content = |found| Err(Refused::Content { found });
    match (recognise(head), named) {
        (Head::Is(found), None) => Ok(found),
        (Head::Is(found), Some(named)) if found == named => Ok(found),
        (Head::Is(found), Some(named)) => Err(Refused::Mismatch { named, found }),
        (Head::Zip | Head::Ole, Some(FileType::Xlsx)) | (Head::Zip, None) => Ok(FileType::Xlsx),
        (Head::Zip, Some(_)) => content(Foreign::Archive),
        (Head::Ole, _) => content(Foreign::OldOffice),
        (Head::Text(Some('{' | '[')), None) => Ok(FileType::Json),
        (Head::Text(_), None) => Ok(FileType::Csv),
        (Head::Text(_), Some(named @ (FileType::Csv | FileType::Tsv))) => Ok(named),
        (
            Head::Text(Some('{' | '[' | '"' | '-' | '0'..='9' | 't' | 'f' | 'n')),
            Some(FileType::Json),
        ) => Ok(FileType::Json),
        (Head::Text(_), Some(_)) => content(Foreign::Text),
        (Head::Foreign(found), _) => content(found),
    }
}

/// What an upload is refused for. Its type, if the name promises one that is taken: then the content has to keep that.
/// What else there is may be stored, since clients upload before anybody knows what for; programs may not.
pub fn gate(name: &str, head: &[u8]) -> Result<Option<FileType>, Refused> {
    let promised = extension(name).and_then(FileType::of_extension);
    match judge(name, head) {
        Ok(found) => Ok(Some(found)),
        Err(refused) if promised.is_some() => Err(refused),
        Err(_) => match recognise(head) {
            Head::Foreign(found @ (Foreign::Program | Foreign::Script)) => {
                Err(Refused::Content { found })
            }
            Head::Is(_) | Head::Zip | Head::Ole | Head::Text(_) | Head::Foreign(_) => Ok(None),
        },
    }
}

/// What follows the last dot of the last path part; `None` when nothing does.
fn extension(name: &str) -> Option<&str> {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let (stem, extension) = last.rsplit_once('.')?;
    (!stem.is_empty() && !extension.is_empty()).then_some(extension)
}

const OLE: &[u8] = &[0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];

const MAGIC: [(&[u8], Head); 24] = [
    (b"\x89PNG\r\n\x1a\n", Head::Is(FileType::Png)),
    (b"\xff\xd8\xff", Head::Is(FileType::Jpeg)),
    (b"PK\x03\x04", Head::Zip),
    (OLE, Head::Ole),
    (b"MZ", Head::Foreign(Foreign::Program)),
    (b"\x7fELF", Head::Foreign(Foreign::Program)),
    (b"\xfe\xed\xfa", Head::Foreign(Foreign::Program)),
    (b"\xcf\xfa\xed\xfe", Head::Foreign(Foreign::Program)),
    (b"\xca\xfe\xba\xbe", Head::Foreign(Foreign::Program)),
    (b"#!", Head::Foreign(Foreign::Script)),
    (b"PK", Head::Foreign(Foreign::Archive)),
    (b"Rar!", Head::Foreign(Foreign::Archive)),
    (b"7z\xbc\xaf", Head::Foreign(Foreign::Archive)),
    (b"\x1f\x8b", Head::Foreign(Foreign::Archive)),
    (b"BZh", Head::Foreign(Foreign::Archive)),
    (b"\xfd7zXZ", Head::Foreign(Foreign::Archive)),
    (b"\x28\xb5\x2f\xfd", Head::Foreign(Foreign::Archive)),
    (b"{\\rtf", Head::Foreign(Foreign::Rtf)),
    (b"%!PS", Head::Foreign(Foreign::PostScript)),
    (b"GIF8", Head::Foreign(Foreign::OtherImage)),
    (b"RIFF", Head::Foreign(Foreign::OtherImage)),
    (b"II*\0", Head::Foreign(Foreign::OtherImage)),
    (b"MM\0*", Head::Foreign(Foreign::OtherImage)),
    (b"BM", Head::Foreign(Foreign::OtherImage)),
];

fn recognise(head: &[u8]) -> Head {
    let text = text_head(head);
    let known = MAGIC.iter().find(|(magic, _)| head.starts_with(magic));
    // Two letters begin many a table: text is no program and no picture.
    if let Some((magic, found)) = known
        && !(magic.iter().all(u8::is_ascii_alphabetic) && text.is_some())
    {
        return *found;
    }
    // Some writers put blanks before the header; anything else there is another format.
    let pdf =
        head.iter().position(|b| !b.is_ascii_whitespace() && !matches!(b, 0 | 0xef | 0xbb | 0xbf));
    if pdf.is_some_and(|at| head.get(at..).is_some_and(|rest| rest.starts_with(b"%PDF-"))) {
        return Head::Is(FileType::Pdf);
    }
    let Some(text) = text else { return Head::Foreign(Foreign::Binary) };
    let text = text.trim_start().to_ascii_lowercase();
    let begins = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    if begins(&["<!doctype html", "<html", "<head", "<body", "<script", "<svg"]) {
        Head::Foreign(Foreign::Html)
    } else if begins(&["<?xml", "<!doctype"]) {
        Head::Foreign(Foreign::Xml)
    } else {
        Head::Text(text.chars().next())
    }
}

/// UTF-16, by its mark or by the zeros that Latin letters, digits and blanks leave in one of two lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wide {
    LittleEndian,
    BigEndian,
}

pub fn wide(bytes: &[u8]) -> Option<Wide> {
    if bytes.starts_with(b"\xff\xfe") {
        return Some(Wide::LittleEndian);
    }
    if bytes.starts_with(b"\xfe\xff") {
        return Some(Wide::BigEndian);
    }
    let pairs = bytes.get(..HEAD_BYTES).unwrap_or(bytes).as_chunks::<2>().0;
    let (first, second) = pairs.iter().fold((0, 0), |(first, second), [high, low]| {
        (first + usize::from(*high == 0), second + usize::from(*low == 0))
    });
    let enough = (pairs.len() / 10).max(2);
    let few = pairs.len() / 20;
    if second >= enough && first <= few {
        Some(Wide::LittleEndian)
    } else if first >= enough && second <= few {
        Some(Wide::BigEndian)
    } else {
        None
    }
}

/// The first bytes as text, one char a byte (two in UTF-16), if they can be text at all.
fn text_head(head: &[u8]) -> Option<String> {
    let text: String = match wide(head) {
        Some(wide) => {
            let unit = |pair: &[u8; 2]| match wide {
                Wide::LittleEndian => u16::from_le_bytes(*pair),
                Wide::BigEndian => u16::from_be_bytes(*pair),
            };
            let units = head.as_chunks::<2>().0.iter().map(unit).filter(|unit| *unit != 0xfeff);
            units.map(|unit| char::from_u32(u32::from(unit)).unwrap_or('\u{fffd}')).collect()
        }
        None => {
            let body = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
            body.iter().map(|b| char::from(*b)).collect()
        }
    };
    text.chars().all(is_text).then_some(text)
}

/// What text consists of, in any one-byte encoding too: C1 is letters there, 0x1a ends files of DOS.
pub const fn is_text(c: char) -> bool {
    c >= ' ' || matches!(c, '\t' | '\r' | '\n' | '\u{c}' | '\u{1a}')
}

#[cfg(test)]
mod tests;
