//! PDF files made of their objects, good and bad ones.
use std::collections::BTreeMap;
use std::io::Write as _;

/// Codes are UTF-16 units, and the font says so.
const UNICODE_FONT: [&str; 3] = [
    "<< /Type /Font /Subtype /Type0 /BaseFont /Test /Encoding /Identity-H /DescendantFonts [ 5 0 R ] /ToUnicode 6 0 R >>",
    "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Test /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /DW 600 /FontDescriptor 7 0 R >>",
    "<< /Type /FontDescriptor /FontName /Test /Flags 4 /FontBBox [ 0 0 1000 1000 ] /Ascent 800 /Descent -200 /ItalicAngle 0 /CapHeight 700 /StemV 80 >>",
];
const TO_UNICODE: &str = "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def\n\
    1 begincodespacerange <0000> <FFFF> endcodespacerange\n\
    2 beginbfrange <0020> <00FF> <0020> <0400> <04FF> <0400> endbfrange\n\
    endcmap CMapName currentdict /CMap defineresource pop end end";
const FIRST_PAGE: u32 = 100;

/// Object 1 is the catalog, 2 the page tree, 4 the font `/F`; pages begin at 100 with their content behind them.
#[derive(Default)]
pub struct PdfFile {
    pub objects: BTreeMap<u32, Vec<u8>>,
}

impl PdfFile {
    pub fn of_pages(texts: &[&str]) -> Self {
        let mut file = Self::default();
        file.object(1, "<< /Type /Catalog /Pages 2 0 R >>");
        for (number, object) in [4, 5, 7].into_iter().zip(UNICODE_FONT) {
            file.object(number, object);
        }
        file.stream(6, "", TO_UNICODE.as_bytes());
        let mut kids = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let page = FIRST_PAGE + 2 * u32::try_from(index).unwrap();
            file.page(page, &shown(text));
            kids.push(format!("{page} 0 R"));
        }
        file.object(
            2,
            &format!("<< /Type /Pages /Kids [ {} ] /Count {} >>", kids.join(" "), kids.len()),
        );
        file
    }

    /// A page whose content is in the object behind it.
    pub fn page(&mut self, number: u32, content: &str) {
        let next = number + 1;
        self.object(number, &format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [ 0 0 595 842 ] /Resources << /Font << /F 4 0 R >> >> /Contents {next} 0 R >>"));
        self.stream(next, "", content.as_bytes());
    }

    pub fn object(&mut self, number: u32, body: &str) {
        self.objects.insert(number, body.as_bytes().to_vec());
    }

    pub fn stream(&mut self, number: u32, dictionary: &str, content: &[u8]) {
        let mut body =
            format!("<< {dictionary} /Length {} >>\nstream\n", content.len()).into_bytes();
        body.extend_from_slice(content);
        body.extend_from_slice(b"\nendstream");
        self.objects.insert(number, body);
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec();
        let mut table = String::new();
        for (number, body) in &self.objects {
            table.push_str(&format!("{number} 1\n{:010} 00000 n \n", bytes.len()));
            writeln!(bytes, "{number} 0 obj").unwrap();
            bytes.extend_from_slice(body);
            bytes.extend_from_slice(b"\nendobj\n");
        }
        let at = bytes.len();
        let size = self.objects.keys().last().unwrap() + 1;
        writeln!(bytes, "xref\n0 1\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{at}\n%%EOF").unwrap();
        bytes
    }
}

/// The commands that show lines of text.
pub fn shown(text: &str) -> String {
    let mut commands = "BT /F 12 Tf 14 TL 50 780 Td\n".to_owned();
    for line in text.lines() {
        let codes: String = line.encode_utf16().map(|unit| format!("{unit:04X}")).collect();
        commands.push_str(&format!("<{codes}> Tj T*\n"));
    }
    commands + "ET\n"
}
