//! What a file is, against what it is called.
use documents::failure::Failure;
use documents::limits::Limits;
use documents::sniff::sniff;
use expect_test::{Expect, expect};
use image::{DynamicImage, ImageFormat, RgbImage};

use crate::here;
use crate::pdf_file::PdfFile;
use crate::workbook::{Workbook, row};

fn workbook() -> Workbook {
    Workbook::of(&row(1, &["x"]))
}

fn picture(format: ImageFormat) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    DynamicImage::ImageRgb8(RgbImage::new(8, 8)).write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

#[track_caller]
fn check(files: &[(&str, Vec<u8>)], expected: Expect) {
    let lines = files.iter().map(|(name, bytes)| match sniff(name, bytes, &Limits::default()) {
        Ok(kind) => format!("{name}: {}\n", kind.label()),
        Err(failure) => format!("{name}: {} {failure}\n", failure.code()),
    });
    expected.assert_eq(&lines.collect::<String>());
}

#[test]
fn what_is_taken() {
    let macros = Workbook {
        content_type: "application/vnd.ms-excel.sheet.macroEnabled.main+xml".to_owned(),
        ..workbook()
    };
    check(
        &[
            ("a.pdf", PdfFile::of_pages(&["x"]).bytes()),
            ("a.xlsx", workbook().bytes()),
            ("a.xlsm", macros.bytes()),
            ("a.json", b"{}".to_vec()),
            ("a.csv", b"a;b\n".to_vec()),
            ("a.tsv", b"a\tb\n".to_vec()),
            ("a.png", picture(ImageFormat::Png)),
            ("a.jpg", picture(ImageFormat::Jpeg)),
        ],
        expect![[r#"
            a.pdf: PDF
            a.xlsx: XLSX
            a.xlsm: XLSX
            a.json: JSON
            a.csv: CSV
            a.tsv: TSV
            a.png: PNG
            a.jpg: JPEG
        "#]],
    );
}

#[test]
fn other_archives_are_no_workbooks() {
    let of_type = |kind: &str| Workbook { content_type: kind.to_owned(), ..workbook() }.bytes();
    check(
        &[
            (
                "word.xlsx",
                of_type(
                    "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
                ),
            ),
            ("binary.xlsx", of_type("application/vnd.ms-excel.sheet.binary.macroEnabled.main")),
            ("calc.xlsx", zip(&["mimetype", "META-INF/manifest.xml"])),
            ("plain.xlsx", zip(&["a.txt"])),
            ("broken.xlsx", b"PK\x03\x04 and nothing behind".to_vec()),
            ("old.xlsx", ole("Workbook")),
            ("password.xlsx", ole("EncryptedPackage")),
        ],
        expect![[r#"
            word.xlsx: FILE_TYPE The file is an Office file of another kind, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            binary.xlsx: FILE_TYPE The file is an Office file of another kind, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            calc.xlsx: FILE_TYPE The file is an OpenDocument file (ODS, ODT), which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            plain.xlsx: FILE_TYPE The file is an archive, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            broken.xlsx: FILE_CORRUPT The file is damaged and can't be read.
            old.xlsx: FILE_TYPE The file is an old Office file (XLS, DOC), which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            password.xlsx: FILE_ENCRYPTED The file is protected with a password. Remove the password and send it again.
        "#]],
    );
}

fn zip(names: &[&str]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in names {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn ole(stream: &str) -> Vec<u8> {
    let name: Vec<u8> = stream.encode_utf16().flat_map(u16::to_le_bytes).collect();
    [b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec(), vec![0; 1_500], name, vec![0; 500]].concat()
}

#[test]
fn two_formats_in_one_file_are_refused() {
    let archive = workbook().bytes();
    let behind = |file: Vec<u8>| [file, archive.clone()].concat();
    check(
        &[
            ("a.pdf", behind(PdfFile::of_pages(&["x"]).bytes())),
            ("a.png", behind(picture(ImageFormat::Png))),
            ("a.jpg", behind(picture(ImageFormat::Jpeg))),
            ("a.xlsx", behind(b"MZ and a stub".to_vec())),
            ("front.xlsx", behind(zip(&["a.txt"]))),
            ("page.png", picture_with_comment(b"<script>alert(1)</script>")),
            ("pdf.png", picture_with_comment(b"%PDF-1.4 1 0 obj")),
            ("late.csv", [b"a,b\n".repeat(500), b"\0\x01\x02".to_vec()].concat()),
        ],
        expect![[r#"
            a.pdf: FILE_TYPE The file holds two formats at once. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            a.png: FILE_TYPE The file holds two formats at once. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            a.jpg: FILE_TYPE The file holds two formats at once. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            a.xlsx: FILE_TYPE The file is a program, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            front.xlsx: FILE_TYPE The file holds two formats at once. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            page.png: FILE_TYPE The file holds two formats at once. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            pdf.png: FILE_TYPE The file holds two formats at once. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            late.csv: FILE_TYPE The file is unknown data, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
        "#]],
    );
}

/// Right behind the header, where a viewer of the other format would look.
fn picture_with_comment(comment: &[u8]) -> Vec<u8> {
    let mut bytes = picture(ImageFormat::Png);
    let mut chunk = u32::try_from(comment.len()).unwrap().to_be_bytes().to_vec();
    chunk.extend_from_slice(b"tEXt");
    chunk.extend_from_slice(comment);
    chunk.extend_from_slice(&[0; 4]);
    bytes.splice(33..33, chunk);
    bytes
}

#[test]
fn a_workbook_may_carry_an_archive_inside() {
    let mut bytes = workbook();
    bytes.sheets[0].2.push_str("<!-- PK\x05 -->");
    assert!(here("a.xlsx", &bytes.bytes()).is_ok());
    assert_eq!(
        here("a.xlsx", &[]).unwrap_err().code(),
        Failure::WrongType(contract::file_type::Refused::Empty).code()
    );
}
