//! What can go wrong with a file, and the sentence a user reads about it.
use contract::file_type::Refused;
use contract::file_warning::FileWarning;
use contract::job::Locale;
use serde::{Deserialize, Serialize};

/// Nothing came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// A PDF of pictures: a scan.
    NoText,
    /// Needs a password.
    Encrypted,
    Corrupt,
    /// After unpacking, or before decoding.
    TooLarge,
    TimedOut,
    WrongType(Refused),
    OutOfMemory,
    /// The reader died of this file, or could not be started.
    Crashed,
}

impl Failure {
    pub const fn warning(&self) -> FileWarning {
        match self {
            Self::NoText => FileWarning::PdfNoText,
            Self::Encrypted => FileWarning::FileEncrypted,
            Self::Corrupt => FileWarning::FileCorrupt,
            Self::TooLarge => FileWarning::FileTooLargeInside,
            Self::TimedOut => FileWarning::FileTooSlow,
            Self::WrongType(_) => FileWarning::FileType,
            Self::OutOfMemory => FileWarning::FileTooComplex,
            Self::Crashed => FileWarning::FileUnreadable,
        }
    }

    /// `code` of the `warning`.
    pub const fn code(&self) -> &'static str {
        self.warning().as_str()
    }

    pub fn text(&self, locale: Locale) -> String {
        match self {
            // Which type it is helps.
            Self::WrongType(refused) => refused.text(locale),
            Self::NoText
            | Self::Encrypted
            | Self::Corrupt
            | Self::TooLarge
            | Self::TimedOut
            | Self::OutOfMemory
            | Self::Crashed => self.warning().text(locale).to_owned(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text(Locale::En))
    }
}

impl std::error::Error for Failure {}

/// Only a part came out: [`FileWarning::FileCut`], whatever the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// More text than is taken of one file.
    Text,
    Pages,
    Cells,
    Depth,
    Time,
    Memory,
    /// The rest can't be read.
    Broken,
}

impl Why {
    pub const fn text(self, locale: Locale) -> &'static str {
        let (en, ru) = match self {
            Self::Text => (
                "Only the beginning was read: the file is long.",
                "Прочитано только начало: файл длинный.",
            ),
            Self::Pages => ("Only the first pages were read.", "Прочитаны только первые страницы."),
            Self::Cells => ("Only the first cells were read.", "Прочитаны только первые ячейки."),
            Self::Depth => {
                ("What is nested too deeply was left out.", "Слишком глубоко вложенное пропущено.")
            }
            Self::Time => (
                "Only a part was read: it took too long.",
                "Прочитана только часть: чтение слишком долгое.",
            ),
            Self::Memory => (
                "Only a part was read: it took too much memory.",
                "Прочитана только часть: не хватило памяти.",
            ),
            Self::Broken => (
                "Only a part was read: the rest is damaged.",
                "Прочитана только часть: остальное повреждено.",
            ),
        };
        match locale {
            Locale::En => en,
            Locale::Ru => ru,
        }
    }

    /// What a failure is called once something has come out.
    pub(crate) const fn of_failure(failure: &Failure) -> Self {
        match failure {
            Failure::TooLarge | Failure::OutOfMemory => Self::Memory,
            Failure::TimedOut => Self::Time,
            Failure::NoText
            | Failure::Encrypted
            | Failure::Corrupt
            | Failure::WrongType(_)
            | Failure::Crashed => Self::Broken,
        }
    }

    /// What a cut is called if nothing has come out.
    pub(crate) const fn as_failure(self) -> Failure {
        match self {
            Self::Text | Self::Pages | Self::Cells | Self::Depth => Failure::TooLarge,
            Self::Time => Failure::TimedOut,
            Self::Memory => Failure::OutOfMemory,
            Self::Broken => Failure::Corrupt,
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::file_type::Foreign;

    use super::*;

    #[test]
    fn every_failure_speaks_both_languages() {
        let wrong = Failure::WrongType(Refused::Content { found: Foreign::Archive });
        let failures = [
            Failure::NoText,
            Failure::Encrypted,
            Failure::Corrupt,
            Failure::TooLarge,
            Failure::TimedOut,
            wrong,
            Failure::OutOfMemory,
            Failure::Crashed,
        ];
        let mut codes = std::collections::BTreeSet::new();
        for failure in &failures {
            assert!(failure.text(Locale::En).is_ascii(), "{failure:?}");
            assert!(!failure.text(Locale::Ru).is_ascii(), "{failure:?}");
            assert!(codes.insert(failure.code()), "{failure:?}");
        }
        for why in
            [Why::Text, Why::Pages, Why::Cells, Why::Depth, Why::Time, Why::Memory, Why::Broken]
        {
            assert!(why.text(Locale::En).is_ascii(), "{why:?}");
            assert!(!why.text(Locale::Ru).is_ascii(), "{why:?}");
        }
    }
}
