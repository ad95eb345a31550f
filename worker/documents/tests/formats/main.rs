//! Every format, the types that are refused, the sandbox, and files made to do harm.
#![expect(clippy::unwrap_used, reason = "what fails here is a failed test")]
mod child;
mod hostile;
mod pdf_file;
mod pdfs;
mod sandbox;
mod sheets;
mod types;
mod workbook;

use contract::job::Locale;
use documents::extract::whole;
use documents::extracted::Extracted;
use documents::failure::Failure;
use documents::limits::Limits;
use documents::parent::Reader;

/// As `Extracted` reads: text, then what else there is to say.
fn shown(read: &Result<Extracted, Failure>) -> String {
    let extracted = match read {
        Ok(extracted) => extracted,
        Err(failure) => return format!("{failure:?}\n"),
    };
    let mut lines = vec![extracted.text(Locale::En).replace('\t', "→")];
    lines.extend(extracted.encoding.iter().map(|encoding| format!("encoding: {encoding}")));
    lines.extend(extracted.cut.iter().map(|why| format!("cut: {why:?}")));
    lines.extend(extracted.notes.iter().map(|note| note.text(Locale::En)));
    let text = lines.join("\n");
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn here(name: &str, bytes: &[u8]) -> Result<Extracted, Failure> {
    whole(name, bytes, &Limits::default())
}

/// What a child may take is told by the processor's time, however little of it there is.
fn reader() -> Reader {
    let wall = std::time::Duration::from_secs(120);
    Reader::new(env!("CARGO_BIN_EXE_extract-document"), &[], 2).with_wall(wall)
}
