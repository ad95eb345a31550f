use expect_test::{Expect, expect};

use super::*;

#[track_caller]
fn check(files: &[(&str, &[u8])], expected: Expect) {
    let lines = files.iter().map(|(name, head)| match judge(name, head) {
        Ok(kind) => format!("{name}: {} {}\n", kind.label(), kind.mime()),
        Err(refused) => format!("{name}: {}\n", refused.text(Locale::En)),
    });
    expected.assert_eq(&lines.collect::<String>());
}

const PDF: &[u8] = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
const ZIP: &[u8] = b"PK\x03\x04\x14\0\0\0\x08\0";
const OLE_HEAD: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0\0\0";

#[test]
fn name_and_content_agree() {
    check(
        &[
            ("Отчёт.PDF", PDF),
            ("blanks.pdf", b"\r\n \n%PDF-1.4\n"),
            ("book.xlsx", ZIP),
            ("macros.xlsm", ZIP),
            ("password.xlsx", OLE_HEAD),
            ("a.json", b" \n{\"a\": 1}"),
            ("a.csv", "Дата;Сумма\n".as_bytes()),
            ("cp1251.csv", b"\xc4\xe0\xf2\xe0;\xd1\xf3\xec\xec\xe0\n"),
            ("utf16.tsv", b"\xff\xfea\0\t\0b\0\n\0"),
            ("utf16.without.bom.csv", b"\0a\0;\0b\0\n"),
            ("utf16.cyrillic.csv", b"\xff\xfe\x14\x04\x30\x04;\0\n\0"),
            ("picture.png", PNG),
            ("photo.jpeg", b"\xff\xd8\xff\xe0\0\x10JFIF\0"),
            ("BMW.csv", b"BMW;1\nMZ;2\n"),
            ("no extension", PDF),
            ("no extension", b"[1, 2]"),
            ("no extension", b"a,b\n1,2\n"),
            ("folder.d/no extension", PDF),
        ],
        expect![[r#"
            Отчёт.PDF: PDF application/pdf
            blanks.pdf: PDF application/pdf
            book.xlsx: XLSX application/vnd.openxmlformats-officedocument.spreadsheetml.sheet
            macros.xlsm: XLSX application/vnd.openxmlformats-officedocument.spreadsheetml.sheet
            password.xlsx: XLSX application/vnd.openxmlformats-officedocument.spreadsheetml.sheet
            a.json: JSON application/json
            a.csv: CSV text/csv
            cp1251.csv: CSV text/csv
            utf16.tsv: TSV text/tab-separated-values
            utf16.without.bom.csv: CSV text/csv
            utf16.cyrillic.csv: CSV text/csv
            picture.png: PNG image/png
            photo.jpeg: JPEG image/jpeg
            BMW.csv: CSV text/csv
            no extension: PDF application/pdf
            no extension: JSON application/json
            no extension: CSV text/csv
            folder.d/no extension: PDF application/pdf
        "#]],
    );
}

#[test]
fn the_rest_is_refused_with_the_formats() {
    check(
        &[
            ("setup.pdf", b"MZ\x90\0\x03\0\0\0"),
            ("setup.exe", PDF),
            ("a.png", PDF),
            ("a.pdf", PNG),
            ("old.xls", OLE_HEAD),
            ("old.csv", OLE_HEAD),
            ("text.docx", ZIP),
            ("a.zip", ZIP),
            ("zip.pdf", ZIP),
            ("page.csv", b"  <!DOCTYPE html><html>"),
            ("page.pdf", b"<html>%PDF-1.4"),
            ("gif.pdf", b"GIF89a%PDF-1.4\0"),
            ("a.json", b"hello"),
            ("text.pdf", b"hello"),
            ("noise.csv", b"a,b\0\x01\x02\x03,c"),
            ("empty.pdf", b""),
            ("script.csv", b"#!/bin/sh\n"),
            ("rich.csv", b"{\\rtf1"),
            ("feed.csv", b"<?xml version=\"1.0\"?>"),
            ("../../etc/a.sh", PDF),
        ],
        expect![[r#"
            setup.pdf: The file is a program, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            setup.exe: Files called .exe can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            a.png: The file is called PNG, but its content is PDF. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            a.pdf: The file is called PDF, but its content is PNG. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            old.xls: Files called .xls can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            old.csv: The file is an old Office file (XLS, DOC), which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            text.docx: Files called .docx can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            a.zip: Files called .zip can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            zip.pdf: The file is an archive, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            page.csv: The file is a web page, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            page.pdf: The file is a web page, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            gif.pdf: The file is an image of another kind, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            a.json: The file is plain text, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            text.pdf: The file is plain text, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            noise.csv: The file is unknown data, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            empty.pdf: The file is empty. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            script.csv: The file is a script, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            rich.csv: The file is RTF, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            feed.csv: The file is XML, which can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
            ../../etc/a.sh: Files called .sh can't be read. Use PDF, XLSX, XLSM, JSON, CSV, TSV, PNG, JPEG.
        "#]],
    );
}

#[test]
fn refusals_speak_russian_and_name_the_formats() {
    let refusals = [
        Refused::Empty,
        Refused::Name { extension: "exe".to_owned() },
        Refused::Content { found: Foreign::Program },
        Refused::Mismatch { named: FileType::Pdf, found: FileType::Png },
        Refused::Ambiguous,
    ];
    for refused in refusals {
        let (en, ru) = (refused.text(Locale::En), refused.text(Locale::Ru));
        assert!(en.is_ascii() && en.contains(FORMATS), "{en}");
        assert!(!ru.is_ascii() && ru.contains(FORMATS), "{ru}");
        assert_ne!(en, ru);
    }
}

#[test]
fn every_type_is_in_the_list() {
    for kind in FileType::ALL {
        for extension in kind.extensions() {
            assert_eq!(FileType::of_extension(&extension.to_uppercase()), Some(kind));
        }
        assert!(FORMATS.contains(kind.label()));
    }
}
