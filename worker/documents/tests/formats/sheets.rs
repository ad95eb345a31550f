//! Workbooks as a model reads them.
use documents::extract::whole;
use documents::failure::Why;
use documents::limits::Limits;
use expect_test::{Expect, expect};

use crate::workbook::{Workbook, row};
use crate::{here, shown};

#[track_caller]
fn check(workbook: &Workbook, expected: Expect) {
    expected.assert_eq(&shown(&here("book.xlsx", &workbook.bytes())));
}

#[test]
fn a_table_has_column_letters_and_row_numbers() {
    let rows = [
        row(1, &["Товар", "Цена", "Склад"]),
        row(2, &["Болт", "1,5", "Омск"]),
        row(4, &["Гайка", "2", "a\tb\nc"]),
    ];
    check(
        &Workbook::default().sheet("Итоги", &rows.concat()),
        expect![[r#"
            [sheet «Итоги»]
            →A→B→C
            1→Товар→Цена→Склад
            2→Болт→1,5→Омск
            4→Гайка→2→a b ↵ c
        "#]],
    );
}

#[test]
fn values_are_shown_as_people_see_them() {
    let cells = [
        r#"<c r="A1"><v>0.30000000000000004</v></c>"#,
        r#"<c r="B1" t="b"><v>1</v></c>"#,
        r#"<c r="C1" t="e"><v>#DIV/0!</v></c>"#,
        r#"<c r="D1" s="1"><v>46054</v></c>"#,
        r#"<c r="E1" s="2"><v>46054.75</v></c>"#,
        r#"<c r="F1" s="3"><v>0.5</v></c>"#,
        r#"<c r="G1" s="4"><v>1.25</v></c>"#,
        r#"<c r="H1" t="d"><v>2026-02-01T10:00:00</v></c>"#,
        r#"<c r="I1" t="s"><v>0</v></c>"#,
        r#"<c r="J1"><f>SUM(A1:A1)</f><v>7</v></c>"#,
        r#"<c r="K1"><f>SUM(A1:A1)</f></c>"#,
        r#"<c r="L1" t="str"><f>A1</f><v>a &amp; b</v></c>"#,
    ];
    let workbook = Workbook {
        formats: vec!["dd.mm.yyyy", "dd.mm.yyyy hh:mm", "hh:mm", "[h]:mm:ss"],
        shared_strings: "<si><r><t>Жир</t></r><r><t>ный</t></r></si>".to_owned(),
        ..Workbook::of(&format!("<row r=\"1\">{}</row>", cells.concat()))
    };
    check(
        &workbook,
        expect![[r#"
            [sheet «Sheet1»]
            →A→B→C→D→E→F→G→H→I→J→K→L
            1→0.3→TRUE→#DIV/0!→2026-02-01→2026-02-01 18:00:00→12:00:00→30:00:00→2026-02-01T10:00:00→Жирный→7→=SUM(A1:A1)→a & b
        "#]],
    );
}

#[test]
fn the_other_epoch_is_known() {
    let workbook = Workbook {
        formats: vec!["dd.mm.yyyy"],
        epoch_1904: true,
        ..Workbook::of(r#"<row r="1"><c r="A1" s="1"><v>44592</v></c></row>"#)
    };
    check(
        &workbook,
        expect![[r#"
        [sheet «Sheet1»]
        →A
        1→2026-02-01
    "#]],
    );
}

#[test]
fn hidden_sheets_are_marked_and_empty_ones_named() {
    let workbook = Workbook::default()
        .sheet("Первый", &row(1, &["a"]))
        .sheet("Пустой", "")
        .hidden("Черновик", &row(1, &["b"]));
    check(
        &workbook,
        expect![[r#"
            [sheet «Первый»]
            →A
            1→a

            [sheet «Пустой»]


            [sheet «Черновик» (hidden)]
            →A
            1→b
        "#]],
    );
}

#[test]
fn merged_cells_have_their_value_once_and_say_so() {
    let rows = [row(1, &["Заголовок"]), row(2, &["a", "b", "c"])].concat();
    let inside = format!(
        "<sheetData>{rows}</sheetData><mergeCells count=\"2\"><mergeCell ref=\"A1:C1\"/><mergeCell ref=\"A3:A9\"/></mergeCells>"
    );
    check(
        &Workbook::default().part("Лист", "visible", inside),
        expect![[r#"
            [sheet «Лист»]
            →A→B→C
            1→Заголовок
            2→a→b→c
            (merged: A1:C1, A3:A9)
        "#]],
    );
}

#[test]
fn cells_far_apart_carry_their_names() {
    let cell = |name: &str| {
        format!(
            "<row r=\"{}\"><c r=\"{name}\"><v>1</v></c></row>",
            name.trim_start_matches(char::is_alphabetic)
        )
    };
    check(
        &Workbook::of(&[cell("A1"), cell("XFD2"), cell("C1048576")].concat()),
        expect![[r#"
            [sheet «Sheet1»]
            1→A=1
            2→XFD=1
            1048576→C=1
        "#]],
    );
    // Behind the rows that the layout was chosen by.
    let rows: String = (1..=300).map(|number| row(number, &["x", "y"])).collect();
    let text = shown(&here("a.xlsx", &Workbook::of(&(rows + &cell("AB400"))).bytes()));
    assert!(text.contains("\n300→x→y\n400→AB=1\n"), "{text}");
}

#[test]
fn every_sheet_gets_its_part_of_the_room() {
    let long: String = (1..=2_000).map(|number| row(number, &["much text in every row"])).collect();
    let workbook = Workbook::default()
        .sheet("One", &long)
        .sheet("Two", &row(1, &["second"]))
        .sheet("Three", &long);
    let limits = Limits { text_bytes: 6_000, ..Limits::default() };
    let read = whole("a.xlsx", &workbook.bytes(), &limits).unwrap();
    assert_eq!(read.cut, Some(Why::Text));
    let sizes: Vec<(usize, bool)> =
        read.sections.iter().map(|section| (section.text.len() / 100, section.cut)).collect();
    // A third; little; and all that is left.
    assert_eq!(sizes, [(20, true), (0, false), (39, true)]);
    assert!(read.sections[1].text.contains("second"));
}

#[test]
fn cells_are_counted_over_all_sheets() {
    let rows: String = (1..=100).map(|number| row(number, &["x", "y"])).collect();
    let workbook = Workbook::default().sheet("One", &rows).sheet("Two", &rows);
    let limits = Limits { cells: 250, ..Limits::default() };
    let read = whole("a.xlsx", &workbook.bytes(), &limits).unwrap();
    assert_eq!(read.cut, Some(Why::Cells));
    assert_eq!(read.sections.iter().map(|section| section.cut).collect::<Vec<_>>(), [false, true]);
    assert!(read.sections[1].text.ends_with("\n25\tx\ty\n"));
}

#[test]
fn a_broken_sheet_leaves_the_others() {
    let workbook = Workbook::default()
        .part(
            "Broken",
            "visible",
            "<sheetData><row r=\"1\"><c r=\"A1\" t=\"x\"><v>1</v></c></row>".to_owned(),
        )
        .sheet("Whole", &row(1, &["x"]));
    check(
        &workbook,
        expect![[r#"
            [sheet «Broken»]


            [sheet «Whole»]
            →A
            1→x
            Sheets that could not be read: 1.
        "#]],
    );
}

#[test]
fn names_of_parts_may_be_in_lower_case() {
    let bytes = Workbook::of(&row(1, &["x"])).with_names(str::to_lowercase);
    expect![[r#"
        [sheet «Sheet1»]
        →A
        1→x
    "#]]
    .assert_eq(&shown(&here("a.xlsx", &bytes)));
}
