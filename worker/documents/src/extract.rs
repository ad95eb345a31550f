//! One file to pieces. Runs in the child, and in tests of what is not dangerous.
use contract::file_type::FileType;

use crate::extracted::{Extracted, Gathered, Piece, Usage};
use crate::failure::{Failure, Why};
use crate::limits::Limits;
use crate::output::{Output, Stop};
use crate::sniff::sniff;
use crate::{encoding, json, pdf, picture, sheet, table};

/// Emits what is in the file, in its order, and says how it ended.
pub fn extract(
    name: &str,
    bytes: &[u8],
    limits: &Limits,
    emit: &mut dyn FnMut(Piece),
) -> Result<Option<Why>, Failure> {
    let kind = sniff(name, bytes, limits)?;
    let mut out = Output::new(emit, limits.text_bytes);
    let ended = read(kind, bytes, limits, &mut out);
    out.flush();
    match ended {
        Ok(()) => Ok(None),
        Err(Stop::Cut(why)) => Ok(Some(why)),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

/// The same in one piece, in this process: for files that are trusted.
pub fn whole(name: &str, bytes: &[u8], limits: &Limits) -> Result<Extracted, Failure> {
    let mut gathered = Gathered::default();
    let end = extract(name, bytes, limits, &mut |piece| gathered.push(piece));
    gathered.finish(end, Usage::default())
}

fn read(kind: FileType, bytes: &[u8], limits: &Limits, out: &mut Output<'_>) -> Result<(), Stop> {
    match kind {
        FileType::Json | FileType::Csv | FileType::Tsv => {
            let decoded = encoding::decode(bytes);
            out.piece(Piece::Head { kind, encoding: Some(decoded.encoding) });
            if kind == FileType::Json {
                json::read(&decoded.text, limits, out)
            } else {
                table::read(&decoded.text, out)
            }
        }
        FileType::Pdf => {
            out.piece(Piece::Head { kind, encoding: None });
            pdf::read(bytes, limits, out)
        }
        FileType::Xlsx => {
            out.piece(Piece::Head { kind, encoding: None });
            sheet::read(bytes, limits, out)
        }
        FileType::Png | FileType::Jpeg => {
            out.piece(Piece::Head { kind, encoding: None });
            picture::read(bytes, kind, limits, out)
        }
    }
}
