//! The type of a whole file by its content: what `contract::file_type` guesses from the head, made sure.
use contract::file_type::{FileType, Foreign, HEAD_BYTES, Refused, is_text, judge, wide};

use crate::failure::Failure;
use crate::limits::Limits;
use crate::sheet::package;

/// The end of a file in which the directory of an appended archive stands.
const TAIL_BYTES: usize = 66_000;
const END_OF_ARCHIVE: &[u8] = b"PK\x05\x06";

/// Name and content agree, and no second format hides behind the first.
pub fn sniff(name: &str, bytes: &[u8], limits: &Limits) -> Result<FileType, Failure> {
    let head = bytes.get(..HEAD_BYTES).unwrap_or(bytes);
    let kind = judge(name, head).map_err(Failure::WrongType)?;
    match kind {
        FileType::Xlsx => package::check(bytes, limits)?,
        FileType::Pdf => refuse(has_archive(bytes))?,
        FileType::Png | FileType::Jpeg => refuse(has_archive(bytes) || has_page(bytes))?,
        FileType::Json | FileType::Csv | FileType::Tsv => text(bytes)?,
    }
    Ok(kind)
}

fn refuse(ambiguous: bool) -> Result<(), Failure> {
    if ambiguous { Err(Failure::WrongType(Refused::Ambiguous)) } else { Ok(()) }
}

/// An archive is read from its end, so it can stand behind anything.
fn has_archive(bytes: &[u8]) -> bool {
    let tail = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or(bytes);
    tail.windows(END_OF_ARCHIVE.len()).rposition(|window| window == END_OF_ARCHIVE).is_some_and(
        |at| {
            // Its last field is the length of a comment that ends the file.
            let comment = tail
                .get(at + 20..at + 22)
                .and_then(|pair| pair.try_into().ok())
                .map(u16::from_le_bytes);
            comment.is_some_and(|length| at + 22 + usize::from(length) == tail.len())
        },
    )
}

/// A PDF reader looks for its header in the first kilobyte, a browser for tags.
fn has_page(bytes: &[u8]) -> bool {
    let head = bytes.get(..HEAD_BYTES).unwrap_or(bytes).to_ascii_lowercase();
    [b"%pdf-".as_slice(), b"<html", b"<script"]
        .iter()
        .any(|word| head.windows(word.len()).any(|window| window == *word))
}

/// No bytes that text never has, wherever they stand.
fn text(bytes: &[u8]) -> Result<(), Failure> {
    let binary = wide(bytes).is_none() && bytes.iter().any(|byte| !is_text(char::from(*byte)));
    if binary {
        Err(Failure::WrongType(Refused::Content { found: Foreign::Binary }))
    } else {
        Ok(())
    }
}
