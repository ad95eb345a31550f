//! Archives and workbooks that are small until they are opened.
use super::suffer;
use crate::workbook::{Workbook, row};

const STRINGS: (&str, &str) =
    ("<sst xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\">", "</sst>");
const SHEET: (&str, &str) = (
    "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><sheetData>",
    "</sheetData></worksheet>",
);
const STRINGS_PART: &str = "xl/sharedStrings.xml";

fn one_cell() -> Workbook {
    Workbook::of(r#"<row r="1"><c r="A1" t="s"><v>0</v></c></row>"#)
}

/// The directory says that every large part is of a thousand bytes.
fn lying(mut archive: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(entry) =
        archive[at..].windows(4).position(|window| window == b"PK\x01\x02").map(|found| at + found)
    {
        let size = u32::from_le_bytes(archive[entry + 24..entry + 28].try_into().unwrap());
        if size > 1_000_000 {
            archive[entry + 24..entry + 28].copy_from_slice(&1_000_u32.to_le_bytes());
        }
        at = entry + 4;
    }
    archive
}

#[tokio::test]
async fn archives_that_unpack_to_gigabytes() {
    let zeros = one_cell().with_filled_part("xl/media/zeros.bin", ("", ""), "\0", 2 << 30);
    suffer("zeros.xlsx", &zeros, &["TooLarge"]).await;
    let many = Workbook::default();
    let many = (0..40).fold(many, |book, n| book.sheet(&format!("S{n}"), &" ".repeat(3 << 20)));
    suffer("many.xlsx", &many.bytes(), &["TooLarge"]).await;
    let strings =
        one_cell().with_filled_part(STRINGS_PART, STRINGS, "<si><t>bomb</t></si>", 1 << 30);
    suffer("strings.xlsx", &strings, &["TooLarge"]).await;
    // Read up to what the directory says, or not at all.
    suffer("lying-strings.xlsx", &lying(strings), &["Corrupt"]).await;
    let sheet = Workbook::default().sheet("x", "").with_filled_part(
        "xl/worksheets/sheet9.xml",
        SHEET,
        " ",
        1 << 30,
    );
    suffer("lying-unused.xlsx", &lying(sheet), &["whole", "Corrupt"]).await;
}

#[tokio::test]
async fn shared_strings_within_the_declared_limit() {
    let short = one_cell().with_filled_part(STRINGS_PART, STRINGS, "<si><t>a</t></si>", 90 << 20);
    let outcomes = ["TooLarge", "OutOfMemory", "TimedOut", "whole"];
    suffer("short-strings.xlsx", &short, &outcomes).await;
    let empty = one_cell().with_filled_part(STRINGS_PART, STRINGS, "<si/>", 90 << 20);
    suffer("empty-strings.xlsx", &empty, &outcomes).await;
}

/// A million rows, of which those that fit are read.
#[tokio::test]
async fn a_million_rows() {
    let rows: String = (1..=1_048_576)
        .map(|row| format!("<row r=\"{row}\"><c r=\"A{row}\"><v>7</v></c></row>"))
        .collect();
    let bytes = Workbook::of(&rows).bytes();
    drop(rows);
    let text = suffer("rows.xlsx", &bytes, &["cut: Text", "cut: Cells", "cut: Time"]).await;
    assert!(text.contains("\n1000\t7\n"));
}

#[tokio::test]
async fn a_billion_cells_in_a_kilobyte() {
    let rows = r#"<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>"#;
    let inside = format!("<dimension ref=\"A1:XFD1048576\"/><sheetData>{rows}</sheetData>");
    let bytes = Workbook::default().part("S", "visible", inside).bytes();
    assert!(bytes.len() < 2_500, "{}", bytes.len());
    let text = suffer("corners.xlsx", &bytes, &["whole"]).await;
    assert!(text.contains("1\tA=1\n1048576\tXFD=2"), "{text}");
}

#[tokio::test]
async fn cells_without_end() {
    let empty: String = (1..=200_000)
        .map(|row| {
            format!("<row r=\"{row}\"><c r=\"A{row}\"/><c r=\"B{row}\"/><c r=\"C{row}\"/></row>")
        })
        .collect();
    suffer("empty-cells.xlsx", &Workbook::of(&empty).bytes(), &["whole", "TooLarge", "TimedOut"])
        .await;
    let backwards: String = (1..=100_000)
        .rev()
        .map(|row| format!("<row r=\"{row}\"><c r=\"A{row}\"><v>7</v></c></row>"))
        .collect();
    suffer(
        "backwards.xlsx",
        &Workbook::of(&backwards).bytes(),
        &["cut: Text", "cut: Cells", "whole"],
    )
    .await;
    let wide: String = (0..150_000).map(|_| "<c><v>7</v></c>").collect();
    let wide = Workbook::of(&format!("<row r=\"1\">{wide}</row>"));
    suffer("one-row.xlsx", &wide.bytes(), &["cut: Text", "cut: Cells", "whole"]).await;
    let outside = r#"<row r="4294967295"><c r="ZZZZZZZZ4294967295"><v>1</v></c></row>"#;
    suffer("outside.xlsx", &Workbook::of(outside).bytes(), &["whole", "Corrupt"]).await;
}

/// Two hundred thousand cells point at one long string: forty gigabytes, were they all shown.
#[tokio::test]
async fn one_string_shown_without_end() {
    let cells: String = (1..=190_000)
        .map(|row| format!("<row r=\"{row}\"><c r=\"A{row}\" t=\"s\"><v>0</v></c></row>"))
        .collect();
    let book = Workbook {
        shared_strings: format!("<si><t>{}</t></si>", "long ".repeat(40_000)),
        ..Workbook::of(&cells)
    };
    suffer("repeated.xlsx", &book.bytes(), &["cut: Text", "OutOfMemory", "cut: Memory"]).await;
}

#[tokio::test]
async fn xml_that_is_no_table() {
    let deep = format!("{}{}", "<a>".repeat(400_000), "</a>".repeat(400_000));
    suffer("deep.xlsx", &Workbook::of(&deep).bytes(), &["whole", "Corrupt", "Crashed"]).await;
    let merged: String =
        (1..=300_000).map(|row| format!("<mergeCell ref=\"A{row}:B{row}\"/>")).collect();
    let inside =
        format!("<sheetData>{}</sheetData><mergeCells>{merged}</mergeCells>", row(1, &["x"]));
    let text = suffer(
        "merged.xlsx",
        &Workbook::default().part("S", "visible", inside).bytes(),
        &["whole"],
    )
    .await;
    assert!(text.contains("(merged: A1:B1, A2:B2,") && text.len() < 1_000);
    let entities = Workbook::default().part(
        "S",
        "visible",
        "<sheetData><row r=\"1\"><c r=\"A1\" t=\"str\"><v>&a;&a;&a;</v></c></row></sheetData>"
            .to_owned(),
    );
    suffer("entities.xlsx", &entities.bytes(), &["whole", "Corrupt"]).await;
    let sheets = (0..3_000).fold(Workbook::default(), |book, n| book.sheet(&format!("S{n}"), ""));
    suffer("sheets.xlsx", &sheets.bytes(), &["whole", "TimedOut", "cut: Time"]).await;
}
