//! PDFs page by page.
use documents::extract::whole;
use documents::failure::{Failure, Why};
use documents::limits::Limits;
use expect_test::{Expect, expect};
use pdf_extract::{
    Document, EncryptionState, EncryptionVersion, Object, Permissions, StringFormat,
};

use crate::pdf_file::PdfFile;
use crate::{here, shown};

#[track_caller]
fn check(file: &PdfFile, expected: Expect) {
    expected.assert_eq(&shown(&here("a.pdf", &file.bytes())));
}

#[test]
fn pages_have_their_marks() {
    check(
        &PdfFile::of_pages(&["Отчёт за февраль\nСумма 1200", "Second page"]),
        expect![[r#"
            [page 1]
            Отчёт за февраль
            Сумма 1200

            [page 2]
            Second page
        "#]],
    );
}

#[test]
fn pages_without_text_are_counted() {
    check(
        &PdfFile::of_pages(&["one", "", "three"]),
        expect![[r#"
            [page 1]
            one

            [page 2]


            [page 3]
            three
            Pages without text: 1.
        "#]],
    );
}

#[test]
fn a_scan_has_no_text() {
    assert_eq!(here("scan.pdf", &PdfFile::of_pages(&["", ""]).bytes()), Err(Failure::NoText));
}

#[test]
fn long_documents_are_cut_at_a_page() {
    let pages: Vec<String> = (1..=20).map(|number| format!("this is page {number}")).collect();
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let limits = Limits { pages: 3, ..Limits::default() };
    let read = whole("a.pdf", &PdfFile::of_pages(&pages).bytes(), &limits).unwrap();
    assert_eq!((read.sections.len(), read.cut), (3, Some(Why::Pages)));
    let limits = Limits { text_bytes: 40, ..Limits::default() };
    let read = whole("a.pdf", &PdfFile::of_pages(&pages).bytes(), &limits).unwrap();
    assert_eq!((read.sections.len(), read.cut), (3, Some(Why::Text)));
    assert!(read.sections[2].cut && !read.sections[1].cut);
}

#[test]
fn a_page_one_engine_dies_of_is_read_by_the_other() {
    // The first panics on an operator with too few operands.
    let mut file = PdfFile::of_pages(&["before", "x", "behind"]);
    file.stream(103, "", format!("1 0 cm\n{}", crate::pdf_file::shown("in the middle")).as_bytes());
    check(
        &file,
        expect![[r#"
            [page 1]
            before

            [page 2]
            in the middle

            [page 3]
            behind
        "#]],
    );
}

#[test]
fn in_a_hurry_one_engine_reads() {
    // The second joins lines.
    let file = PdfFile::of_pages(&["one\ntwo", "three"]);
    let limits = Limits { cpu_ms: 0, ..Limits::default() };
    let read = whole("a.pdf", &file.bytes(), &limits);
    expect![[r#"
        [page 1]
        one two

        [page 2]
        three
    "#]]
    .assert_eq(&shown(&read));
}

#[test]
fn what_a_page_inherits_is_found_and_loops_end() {
    let mut file = PdfFile::of_pages(&["inherited\nin two lines"]);
    file.object(100, "<< /Type /Page /Parent 2 0 R /Contents 101 0 R >>");
    // The tree is its own parent.
    file.object(2, "<< /Type /Pages /Kids [ 100 0 R ] /Count 1 /Parent 2 0 R /Resources << /Font << /F 4 0 R >> >> >>");
    check(
        &file,
        expect![[r#"
            [page 1]
            inherited
            in two lines
        "#]],
    );
}

#[test]
fn a_form_that_draws_itself_is_drawn_not() {
    let mut file = PdfFile::of_pages(&["around the form"]);
    file.object(100, "<< /Type /Page /Parent 2 0 R /MediaBox [ 0 0 595 842 ] /Resources << /Font << /F 4 0 R >> /XObject << /X 200 0 R >> >> /Contents 101 0 R >>");
    file.stream(
        101,
        "",
        format!("/X Do\n{}", crate::pdf_file::shown("around the form")).as_bytes(),
    );
    file.stream(200, "/Type /XObject /Subtype /Form /BBox [ 0 0 9 9 ] /Resources << /XObject << /X 201 0 R >> >>", b"/X Do");
    file.stream(201, "/Type /XObject /Subtype /Form /BBox [ 0 0 9 9 ] /Resources << /XObject << /X 200 0 R >> >>", b"/X Do");
    check(
        &file,
        expect![[r#"
        [page 1]
        around the form
    "#]],
    );
}

fn encrypted(user: &str, owner: &str) -> Vec<u8> {
    let mut document = Document::load_mem(&PdfFile::of_pages(&["Секрет фирмы"]).bytes()).unwrap();
    let id = Object::String(b"0123456789abcdef".to_vec(), StringFormat::Literal);
    document.trailer.set("ID", vec![id.clone(), id]);
    let version = EncryptionVersion::V2 {
        document: &document,
        owner_password: owner,
        user_password: user,
        key_length: 128,
        permissions: Permissions::all(),
    };
    let state = EncryptionState::try_from(version).unwrap();
    document.encrypt(&state).unwrap();
    let mut bytes = Vec::new();
    document.save_to(&mut bytes).unwrap();
    bytes
}

#[test]
fn only_a_password_to_open_keeps_the_text_away() {
    assert_eq!(here("a.pdf", &encrypted("user", "owner")), Err(Failure::Encrypted));
    let read = shown(&here("a.pdf", &encrypted("", "owner")));
    expect![[r#"
        [page 1]
        Секрет фирмы
    "#]]
    .assert_eq(&read);
}
