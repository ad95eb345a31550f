//! What can go wrong with a file, and the sentence a user reads about it.
use contract::file_type::Refused;
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
    /// `code` of the `warning`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoText => "PDF_NO_TEXT",
            Self::Encrypted => "FILE_ENCRYPTED",
            Self::Corrupt => "FILE_CORRUPT",
            Self::TooLarge => "FILE_TOO_LARGE_INSIDE",
            Self::TimedOut => "FILE_TOO_SLOW",
            Self::WrongType(_) => "FILE_TYPE",
            Self::OutOfMemory => "FILE_TOO_COMPLEX",
            Self::Crashed => "FILE_UNREADABLE",
        }
    }

    pub fn text(&self, locale: Locale) -> String {
        let (en, ru) = match self {
            Self::WrongType(refused) => return refused.text(locale),
            Self::NoText => (
                "The PDF has no text, only pictures: it is probably a scan. Send pages as images or a PDF with text.",
                "В PDF нет текста, только изображения: вероятно, это скан. Пришлите страницы картинками или PDF с текстом.",
            ),
            Self::Encrypted => (
                "The file is protected with a password. Remove the password and send it again.",
                "Файл защищён паролем. Снимите пароль и отправьте его снова.",
            ),
            Self::Corrupt => {
                ("The file is damaged and can't be read.", "Файл повреждён и не читается.")
            }
            Self::TooLarge => (
                "The file is too large after unpacking. Send a smaller one.",
                "После распаковки файл слишком велик. Пришлите файл поменьше.",
            ),
            Self::TimedOut => (
                "Reading the file took too long. Send a smaller part of it.",
                "Файл читался слишком долго. Пришлите его меньшую часть.",
            ),
            Self::OutOfMemory => (
                "Reading the file took too much memory. Send a smaller part of it.",
                "Чтение файла заняло слишком много памяти. Пришлите его меньшую часть.",
            ),
            Self::Crashed => (
                "The file could not be read. Save it anew or in another format and try again.",
                "Файл не удалось прочитать. Сохраните его заново или в другом формате и попробуйте ещё раз.",
            ),
        };
        match locale {
            Locale::En => en.to_owned(),
            Locale::Ru => ru.to_owned(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text(Locale::En))
    }
}

impl std::error::Error for Failure {}

/// Only a part came out.
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
    /// `code` of the `warning`, whatever the reason.
    pub const CODE: &str = "FILE_CUT";

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
