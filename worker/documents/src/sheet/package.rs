//! The archive around a workbook, looked at before anything is unpacked.
use std::io::{Cursor, Read as _};

use contract::file_type::{Foreign, Refused};
use zip::ZipArchive;

use crate::failure::Failure;
use crate::limits::Limits;

const CONTENT_TYPES: &str = "[Content_Types].xml";
const CONTENT_TYPES_BYTES: u64 = 1 << 20;
const ENTRIES: usize = 10_000;
/// Small files are let through whatever their ratio: a kilobyte of zeros is no bomb.
const HARMLESS_BYTES: u64 = 10 << 20;
/// A stream of this name holds a workbook with a password.
const ENCRYPTED: &str = "EncryptedPackage";

/// That the archive holds a workbook, and that all of it is of a size to be unpacked.
pub(crate) fn check(bytes: &[u8], limits: &Limits) -> Result<(), Failure> {
    if !bytes.starts_with(b"PK") {
        return Err(of_container(bytes));
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|_| Failure::Corrupt)?;
    if archive.offset() != 0 {
        return Err(Failure::WrongType(Refused::Ambiguous));
    }
    if archive.len() > ENTRIES {
        return Err(Failure::TooLarge);
    }
    let mut unpacked = 0_u64;
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(|_| Failure::Corrupt)?;
        unpacked = unpacked.saturating_add(entry.size());
    }
    let ratio = unpacked / (bytes.len() as u64).max(1);
    let kind = kind(&mut archive)?;
    if unpacked > limits.unpacked_bytes
        || (unpacked > HARMLESS_BYTES && ratio > limits.unpacked_ratio)
    {
        return Err(Failure::TooLarge);
    }
    kind.map_or(Ok(()), |found| Err(Failure::WrongType(Refused::Content { found })))
}

/// What the archive is, if not a workbook.
fn kind(archive: &mut ZipArchive<Cursor<&[u8]>>) -> Result<Option<Foreign>, Failure> {
    // Some writers spell it in lower case.
    let found =
        archive.file_names().flatten().find(|name| name.eq_ignore_ascii_case(CONTENT_TYPES));
    let Some(name) = found.map(std::borrow::Cow::into_owned) else {
        let open = archive.index_for_name("META-INF/manifest.xml").is_some();
        return Ok(Some(if open { Foreign::OpenDocument } else { Foreign::Archive }));
    };
    let mut types = String::new();
    let entry = archive.by_name(&name).map_err(|_| Failure::Corrupt)?;
    entry.take(CONTENT_TYPES_BYTES).read_to_string(&mut types).map_err(|_| Failure::Corrupt)?;
    let workbooks = [
        "spreadsheetml.sheet.main+xml",
        "spreadsheetml.template.main+xml",
        "ms-excel.sheet.macroenabled.main+xml",
        "ms-excel.template.macroenabled.main+xml",
    ];
    let types = types.to_ascii_lowercase();
    if workbooks.iter().any(|kind| types.contains(kind)) {
        Ok(None)
    } else {
        Ok(Some(Foreign::OtherOffice))
    }
}

/// An OLE container called .xlsx: a workbook with a password, or an old one.
fn of_container(bytes: &[u8]) -> Failure {
    let name: Vec<u8> = ENCRYPTED.encode_utf16().flat_map(u16::to_le_bytes).collect();
    if bytes.windows(name.len()).any(|window| window == name) {
        Failure::Encrypted
    } else {
        Failure::WrongType(Refused::Content { found: Foreign::OldOffice })
    }
}
