//! What a user is told of a file that was not read, or not as a whole: the code of a `warning`, and a text in RU and EN.
use serde::{Deserialize, Serialize};

use crate::job::Locale;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FileWarning {
    /// Only a part was read, or fits into the model's context.
    FileCut,
    /// Pages or sheets have no text or can't be read.
    FileIncomplete,
    ImageNotSeen,
    /// A scan.
    PdfNoText,
    FileEncrypted,
    FileCorrupt,
    /// After unpacking, or before decoding.
    FileTooLargeInside,
    FileTooSlow,
    FileTooComplex,
    FileType,
    FileUnreadable,
    /// It is not, or no longer, stored.
    FileExpired,
    FileUnavailable,
}

impl FileWarning {
    pub const ALL: [Self; 13] = [
        Self::FileCut,
        Self::FileIncomplete,
        Self::ImageNotSeen,
        Self::PdfNoText,
        Self::FileEncrypted,
        Self::FileCorrupt,
        Self::FileTooLargeInside,
        Self::FileTooSlow,
        Self::FileTooComplex,
        Self::FileType,
        Self::FileUnreadable,
        Self::FileExpired,
        Self::FileUnavailable,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FileCut => "FILE_CUT",
            Self::FileIncomplete => "FILE_INCOMPLETE",
            Self::ImageNotSeen => "IMAGE_NOT_SEEN",
            Self::PdfNoText => "PDF_NO_TEXT",
            Self::FileEncrypted => "FILE_ENCRYPTED",
            Self::FileCorrupt => "FILE_CORRUPT",
            Self::FileTooLargeInside => "FILE_TOO_LARGE_INSIDE",
            Self::FileTooSlow => "FILE_TOO_SLOW",
            Self::FileTooComplex => "FILE_TOO_COMPLEX",
            Self::FileType => "FILE_TYPE",
            Self::FileUnreadable => "FILE_UNREADABLE",
            Self::FileExpired => "FILE_EXPIRED",
            Self::FileUnavailable => "FILE_UNAVAILABLE",
        }
    }

    /// What happened and what helps. The worker may know it better: which type, which part.
    pub const fn text(self, locale: Locale) -> &'static str {
        match locale {
            Locale::En => self.text_en(),
            Locale::Ru => self.text_ru(),
        }
    }

    const fn text_en(self) -> &'static str {
        match self {
            Self::FileCut => "The file is too long for the model: only a part of it is used.",
            Self::FileIncomplete => "Pages or sheets of the file could not be read.",
            Self::ImageNotSeen => {
                "The language model takes no images: it knows only the type and size of this one."
            }
            Self::PdfNoText => {
                "The PDF has no text, only pictures: it is probably a scan. Send pages as images or a PDF with text."
            }
            Self::FileEncrypted => {
                "The file is protected with a password. Remove the password and send it again."
            }
            Self::FileCorrupt => "The file is damaged and can't be read.",
            Self::FileTooLargeInside => {
                "The file is too large after unpacking. Send a smaller one."
            }
            Self::FileTooSlow => "Reading the file took too long. Send a smaller part of it.",
            Self::FileTooComplex => {
                "Reading the file took too much memory. Send a smaller part of it."
            }
            Self::FileType => {
                "This kind of file can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG."
            }
            Self::FileUnreadable => {
                "The file could not be read. Save it anew or in another format and try again."
            }
            Self::FileExpired => {
                "The file is not, or no longer, stored. Uploads are kept for a day: send it again."
            }
            Self::FileUnavailable => "The file could not be fetched at the moment. Send it again.",
        }
    }

    const fn text_ru(self) -> &'static str {
        match self {
            Self::FileCut => "Файл слишком длинный для модели: используется только часть.",
            Self::FileIncomplete => "Некоторые страницы или листы файла прочитать не удалось.",
            Self::ImageNotSeen => {
                "Языковая модель не принимает изображения: ей известны только тип и размер этого."
            }
            Self::PdfNoText => {
                "В PDF нет текста, только изображения: вероятно, это скан. Пришлите страницы картинками или PDF с текстом."
            }
            Self::FileEncrypted => "Файл защищён паролем. Снимите пароль и отправьте его снова.",
            Self::FileCorrupt => "Файл повреждён и не читается.",
            Self::FileTooLargeInside => {
                "После распаковки файл слишком велик. Пришлите файл поменьше."
            }
            Self::FileTooSlow => "Файл читался слишком долго. Пришлите его меньшую часть.",
            Self::FileTooComplex => {
                "Чтение файла заняло слишком много памяти. Пришлите его меньшую часть."
            }
            Self::FileType => {
                "Такие файлы не читаются. Подойдут PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG."
            }
            Self::FileUnreadable => {
                "Файл не удалось прочитать. Сохраните его заново или в другом формате и попробуйте ещё раз."
            }
            Self::FileExpired => {
                "Файла в хранилище нет. Загруженное хранится сутки: отправьте его снова."
            }
            Self::FileUnavailable => "Файл сейчас не удалось получить. Отправьте его снова.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_type::FORMATS;

    #[test]
    fn the_name_on_the_wire_is_the_name_in_code() {
        for warning in FileWarning::ALL {
            assert_eq!(serde_json::to_value(warning).unwrap(), warning.as_str());
        }
    }

    #[test]
    fn every_warning_speaks_both_languages() {
        for warning in FileWarning::ALL {
            assert!(warning.text(Locale::En).is_ascii(), "{warning:?}");
            assert!(!warning.text(Locale::Ru).is_ascii(), "{warning:?}");
        }
        for locale in [Locale::En, Locale::Ru] {
            assert!(FileWarning::FileType.text(locale).contains(FORMATS));
        }
    }
}
