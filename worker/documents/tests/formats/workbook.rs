//! Workbooks made of their parts, good and bad ones.
use std::io::{Cursor, Write as _};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006";
const WORKBOOK: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml";

pub struct Workbook {
    pub content_type: String,
    /// Name, state, and what stands inside `worksheet`.
    pub sheets: Vec<(String, &'static str, String)>,
    pub shared_strings: String,
    /// Formats of cells by their number: `s="1"` is the first.
    pub formats: Vec<&'static str>,
    pub epoch_1904: bool,
}

impl Default for Workbook {
    fn default() -> Self {
        Self {
            content_type: WORKBOOK.to_owned(),
            sheets: Vec::new(),
            shared_strings: String::new(),
            formats: Vec::new(),
            epoch_1904: false,
        }
    }
}

impl Workbook {
    pub fn of(rows: &str) -> Self {
        Self::default().sheet("Sheet1", rows)
    }

    pub fn sheet(self, name: &str, rows: &str) -> Self {
        self.part(name, "visible", format!("<sheetData>{rows}</sheetData>"))
    }

    pub fn hidden(self, name: &str, rows: &str) -> Self {
        self.part(name, "hidden", format!("<sheetData>{rows}</sheetData>"))
    }

    pub fn part(mut self, name: &str, state: &'static str, inside: String) -> Self {
        self.sheets.push((name.to_owned(), state, inside));
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.with_names(str::to_owned)
    }

    /// As a writer that spells the names of parts in its own way.
    pub fn with_names(&self, spelt: fn(&str) -> String) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        self.parts(&mut zip, spelt);
        zip.finish().unwrap().into_inner()
    }

    /// With a part of `size` repeated bytes between two pieces of text, written without being held.
    pub fn with_filled_part(
        &self,
        name: &str,
        (before, after): (&str, &str),
        filling: &str,
        size: u64,
    ) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        self.parts(&mut zip, str::to_owned);
        zip.start_file(name, options().compression_level(Some(6))).unwrap();
        zip.write_all(before.as_bytes()).unwrap();
        let block = filling.repeat((1 << 20) / filling.len());
        let mut left = size;
        while left > 0 {
            zip.write_all(block.as_bytes()).unwrap();
            left = left.saturating_sub(block.len() as u64);
        }
        zip.write_all(after.as_bytes()).unwrap();
        zip.finish().unwrap().into_inner()
    }

    fn parts(&self, zip: &mut ZipWriter<Cursor<Vec<u8>>>, spelt: fn(&str) -> String) {
        let mut part = |name: &str, text: &str| {
            zip.start_file(spelt(name), options()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        };
        part(
            "[Content_Types].xml",
            &format!(
                "<Types xmlns=\"{PACKAGE}/content-types\"><Default Extension=\"xml\" ContentType=\"application/xml\"/>\
             <Override PartName=\"/xl/workbook.xml\" ContentType=\"{}\"/></Types>",
                self.content_type
            ),
        );
        part("_rels/.rels", &relations(&[("1", "officeDocument", "xl/workbook.xml".to_owned())]));
        let ids: Vec<String> = (1..=self.sheets.len()).map(|id| id.to_string()).collect();
        let sheets: Vec<_> = ids
            .iter()
            .map(|id| (id.as_str(), "worksheet", format!("worksheets/sheet{id}.xml")))
            .collect();
        part("xl/_rels/workbook.xml.rels", &relations(&sheets));
        let list: String = self
            .sheets
            .iter()
            .zip(&ids)
            .map(|((name, state, _), id)| {
                format!(
                    "<sheet name=\"{name}\" sheetId=\"{id}\" state=\"{state}\" r:id=\"rId{id}\"/>"
                )
            })
            .collect();
        let epoch = if self.epoch_1904 { "<workbookPr date1904=\"1\"/>" } else { "" };
        part(
            "xl/workbook.xml",
            &format!(
                "<workbook xmlns=\"{MAIN}\" xmlns:r=\"{OFFICE}\">{epoch}<sheets>{list}</sheets></workbook>"
            ),
        );
        for ((_, _, inside), id) in self.sheets.iter().zip(&ids) {
            part(
                &format!("xl/worksheets/sheet{id}.xml"),
                &format!("<worksheet xmlns=\"{MAIN}\">{inside}</worksheet>"),
            );
        }
        if !self.shared_strings.is_empty() {
            part(
                "xl/sharedStrings.xml",
                &format!("<sst xmlns=\"{MAIN}\">{}</sst>", self.shared_strings),
            );
        }
        if !self.formats.is_empty() {
            part("xl/styles.xml", &styles(&self.formats));
        }
    }
}

fn options() -> SimpleFileOptions {
    SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(1))
}

fn relations(relations: &[(&str, &str, String)]) -> String {
    let list: String = relations
        .iter()
        .map(|(id, kind, target)| {
            format!("<Relationship Id=\"rId{id}\" Type=\"{OFFICE}/{kind}\" Target=\"{target}\"/>")
        })
        .collect();
    format!("<Relationships xmlns=\"{PACKAGE}/relationships\">{list}</Relationships>")
}

fn styles(formats: &[&str]) -> String {
    let numbered = || formats.iter().enumerate().map(|(index, format)| (index + 164, format));
    let codes: String = numbered()
        .map(|(id, code)| format!("<numFmt numFmtId=\"{id}\" formatCode=\"{code}\"/>"))
        .collect();
    let cells: String = numbered().map(|(id, _)| format!("<xf numFmtId=\"{id}\"/>")).collect();
    format!(
        "<styleSheet xmlns=\"{MAIN}\"><numFmts>{codes}</numFmts><cellXfs><xf numFmtId=\"0\"/>{cells}</cellXfs></styleSheet>"
    )
}

/// A row of text cells beginning in column A.
pub fn row(number: usize, cells: &[&str]) -> String {
    let cells: String = cells
        .iter()
        .enumerate()
        .map(|(column, text)| {
            let column = char::from(b'A' + u8::try_from(column).unwrap());
            format!("<c r=\"{column}{number}\" t=\"inlineStr\"><is><t>{text}</t></is></c>")
        })
        .collect();
    format!("<row r=\"{number}\">{cells}</row>")
}
