//! Hostile and foreign file names.
use super::*;

#[test]
fn a_path_is_shown_as_its_last_part() {
    assert_eq!(display("report.pdf").as_deref(), Some("report.pdf"));
    assert_eq!(display("../../etc/passwd").as_deref(), Some("passwd"));
    assert_eq!(display("C:\\Users\\anna\\Отчёт за май.xlsx").as_deref(), Some("Отчёт за май.xlsx"));
    assert_eq!(display("a\r\nb.csv").as_deref(), Some("ab.csv"));
    for name in ["", " ", ".", "..", "a/..", "a/", "\n"] {
        assert_eq!(display(name), None, "{name:?}");
    }
    assert_eq!(display(&"я".repeat(300)).map(|name| name.len()), Some(254));
}

#[test]
fn issued_paths_are_plain_and_keep_the_extension() {
    check("report.pdf", "report.pdf");
    check("Отчёт за май.xlsx", "file.xlsx");
    check("Отчёт 2026 (final).xlsx", "2026_final.xlsx");
    check(".env", "file.env");
    check("no extension", "no_extension");
    check("a.tar.gz", "a.tar.gz");
    check("x.ёё", "x");
    check("weird*?.$$$", "weird");
    check(&format!("{}.jpeg", "x".repeat(300)), &format!("{}.jpeg", "x".repeat(64)));
}

#[test]
fn nothing_else_passes_for_an_issued_path() {
    let id = "0123456789abcdef0123456789abcdef";
    assert!(is_issued(&format!("{id}/a.pdf")));
    for path in [
        String::new(),
        "/etc/passwd".to_owned(),
        "https://example.com/a.pdf".to_owned(),
        format!("{id}/"),
        format!("{id}/a/b"),
        format!("{id}/a b"),
        format!("{}/a.pdf", id.to_uppercase()),
        format!("{}/a.pdf", &id[1..]),
        format!("/{id}/a.pdf"),
        format!("{id}/{}", "a".repeat(200)),
    ] {
        assert!(!is_issued(&path), "{path}");
    }
}

#[test]
fn a_name_in_any_script_survives_in_the_header() {
    assert_eq!(
        disposition("Отчёт \"1\".pdf"),
        "attachment; filename=\"_______1_.pdf\"; filename*=UTF-8''\
         %D0%9E%D1%82%D1%87%D1%91%D1%82%20%221%22.pdf"
    );
}

#[track_caller]
fn check(shown: &str, safe: &str) {
    let path = issue(Uuid::nil(), shown);
    assert_eq!(path, format!("00000000000000000000000000000000/{safe}"));
    assert!(is_issued(&path), "{path}");
}
