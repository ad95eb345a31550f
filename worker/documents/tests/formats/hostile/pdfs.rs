//! PDFs that go round in circles, deep down, or on and on.
use super::{deflated, suffer};
use crate::pdf_file::{PdfFile, shown};

const PAGE: &str = "<< /Type /Page /Parent 2 0 R /MediaBox [ 0 0 595 842 ] /Resources << /Font << /F 4 0 R >> /XObject << /X 200 0 R >> >> /Contents 101 0 R >>";

fn one_page() -> PdfFile {
    PdfFile::of_pages(&["the text"])
}

/// Whatever comes out, nothing is worse than this.
const ANY: [&str; 11] = [
    "whole",
    "NoText",
    "Corrupt",
    "Crashed",
    "TimedOut",
    "OutOfMemory",
    "cut: Text",
    "cut: Pages",
    "cut: Time",
    "cut: Memory",
    "cut: Broken",
];

#[tokio::test]
async fn circles() {
    let mut file = one_page();
    file.object(2, "<< /Type /Pages /Kids [ 2 0 R 100 0 R ] /Count 2 >>");
    suffer("kids.pdf", &file.bytes(), &ANY).await;
    let mut file = one_page();
    file.object(2, "<< /Type /Pages /Kids [ 100 0 R ] /Count 1 /Parent 3 0 R >>");
    file.object(3, "<< /Type /Pages /Kids [ 2 0 R ] /Count 1 /Parent 2 0 R >>");
    suffer("parents.pdf", &file.bytes(), &["whole"]).await;
    let mut file = one_page();
    file.object(100, "<< /Type /Page /Parent 2 0 R /MediaBox [ 0 0 595 842 ] /Resources 300 0 R /Contents 101 0 R >>");
    file.object(300, "301 0 R");
    file.object(301, "300 0 R");
    suffer("references.pdf", &file.bytes(), &ANY).await;
    let mut file = one_page();
    file.object(100, "<< /Type /Page /Parent 2 0 R /MediaBox [ 0 0 595 842 ] /Resources << /Font << /F 4 0 R >> >> /Contents [ 101 0 R 300 0 R ] >>");
    file.object(300, "[ 300 0 R 300 0 R ]");
    suffer("contents.pdf", &file.bytes(), &ANY).await;
    let mut file = one_page();
    file.object(4, "<< /Type /Font /Subtype /Type0 /BaseFont /T /Encoding /Identity-H /DescendantFonts [ 4 0 R ] /ToUnicode 6 0 R >>");
    suffer("font.pdf", &file.bytes(), &ANY).await;
    let mut file = one_page();
    file.stream(6, "", b"/CMapName /Self def 6 usecmap begincmap endcmap");
    suffer("cmap.pdf", &file.bytes(), &ANY).await;
    let mut file = one_page();
    file.object(100, PAGE);
    file.stream(101, "", b"/X Do");
    file.stream(200, "/Type /XObject /Subtype /Form /BBox [ 0 0 9 9 ] /Resources << /XObject << /X 200 0 R >> >>", b"/X Do");
    suffer("form.pdf", &file.bytes(), &ANY).await;
    let mut bytes = one_page().bytes();
    let at = bytes.windows(9).rposition(|window| window == b"startxref").unwrap();
    let table = String::from_utf8(bytes[at..].to_vec()).unwrap();
    let table = table.lines().nth(1).unwrap().to_owned();
    let trailer = bytes.windows(8).rposition(|window| window == b"/Root 1 ").unwrap();
    bytes.splice(trailer..trailer, format!("/Prev {table} ").into_bytes());
    suffer("previous.pdf", &bytes, &ANY).await;
}

/// Each of 24 forms draws the next twice.
#[tokio::test]
async fn forms_that_multiply() {
    let mut file = one_page();
    file.object(100, PAGE);
    file.stream(101, "", format!("{} /X Do", shown("before it")).as_bytes());
    for form in 200..224_u32 {
        let next = form + 1;
        file.stream(form, &format!("/Type /XObject /Subtype /Form /BBox [ 0 0 9 9 ] /Resources << /XObject << /X {next} 0 R /Y {next} 0 R >> >>"), b"/X Do /Y Do");
    }
    file.stream(224, "/Type /XObject /Subtype /Form /BBox [ 0 0 9 9 ]", b"q Q");
    suffer("forms.pdf", &file.bytes(), &ANY).await;
}

#[tokio::test]
async fn depths() {
    for (name, open, close) in
        [("arrays", "[", "]"), ("objects", "<< /A ", ">>"), ("text", "(", ")")]
    {
        let mut file = one_page();
        file.object(300, &format!("{}{}", open.repeat(200_000), close.repeat(200_000)));
        suffer(&format!("deep-{name}.pdf"), &file.bytes(), &ANY).await;
        let mut file = one_page();
        file.stream(
            101,
            "",
            format!("{}{} Tj", open.repeat(200_000), close.repeat(200_000)).as_bytes(),
        );
        suffer(&format!("deep-{name}-on-page.pdf"), &file.bytes(), &ANY).await;
    }
    let mut file = one_page();
    file.object(2, "<< /Type /Pages /Kids [ 1000 0 R ] /Count 1 >>");
    for node in 1_000..60_000_u32 {
        let next = node + 1;
        file.object(
            node,
            &format!("<< /Type /Pages /Parent {} 0 R /Kids [ {next} 0 R ] /Count 1 >>", node - 1),
        );
    }
    suffer("deep-tree.pdf", &file.bytes(), &ANY).await;
}

#[tokio::test]
async fn streams_that_unpack_to_gigabytes() {
    for (name, filling) in
        [("zeros", "\0"), ("saves", "q "), ("text", "(x) Tj "), ("names", "/X Do ")]
    {
        let mut file = one_page();
        let content = deflated((shown("before").as_bytes(), b""), filling.as_bytes(), 512 << 20);
        file.stream(101, "/Filter /FlateDecode", &content);
        suffer(&format!("bomb-{name}.pdf"), &file.bytes(), &ANY).await;
    }
    let mut file = one_page();
    file.stream(6, "/Filter /FlateDecode", &deflated((b"", b""), b"<00> ", 512 << 20));
    suffer("bomb-cmap.pdf", &file.bytes(), &ANY).await;
    let mut file = one_page();
    let inner = deflated((b"", b""), b"\0", 512 << 20);
    let outer = deflated((&inner, b""), b"\0", 1 << 10);
    file.stream(101, "/Filter [ /FlateDecode /FlateDecode ]", &outer);
    suffer("bomb-twice.pdf", &file.bytes(), &ANY).await;
    let mut file = one_page();
    let objects = deflated((b"900 0 ", b""), b"[ ] ", 512 << 20);
    file.stream(300, "/Type /ObjStm /N 1 /First 6 /Filter /FlateDecode", &objects);
    suffer("bomb-objects.pdf", &file.bytes(), &ANY).await;
    let mut file = one_page();
    file.stream(300, "/Type /XObject /Subtype /Image /Width 60000 /Height 60000 /BitsPerComponent 1 /ColorSpace /DeviceGray /Filter /FlateDecode", &deflated((b"", b""), b"\0", 450 << 20));
    suffer("bomb-picture.pdf", &file.bytes(), &["whole"]).await;
}

#[tokio::test]
async fn claims() {
    let pages: Vec<&str> = std::iter::repeat_n("page", 20_000).collect();
    suffer("pages.pdf", &PdfFile::of_pages(&pages).bytes(), &["cut: Pages", "cut: Time"]).await;
    let mut file = one_page();
    file.object(2, "<< /Type /Pages /Kids [ 100 0 R ] /Count 2147483647 >>");
    suffer("count.pdf", &file.bytes(), &ANY).await;
    let mut file = one_page();
    let same = "100 0 R ".repeat(300_000);
    file.object(2, &format!("<< /Type /Pages /Kids [ {same} ] /Count 300000 >>"));
    suffer("same-page.pdf", &file.bytes(), &ANY).await;
    let mut file = one_page();
    file.stream(6, "", b"1 begincodespacerange <00000000> <FFFFFFFF> endcodespacerange 1 beginbfrange <00000000> <FFFFFFFF> <0000> endbfrange");
    suffer("range.pdf", &file.bytes(), &ANY).await;
    let mut file = one_page();
    file.object(5, "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Test /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /W [ 0 2000000000 5 ] /FontDescriptor 7 0 R >>");
    suffer("widths.pdf", &file.bytes(), &ANY).await;
    let mut file = one_page();
    file.stream(101, "/Filter /FlateDecode /DecodeParms << /Predictor 15 /Columns 2147483647 /Colors 255 /BitsPerComponent 255 >>", &deflated((b"", b""), b"\0", 1 << 20));
    suffer("predictor.pdf", &file.bytes(), &ANY).await;
    let mut bytes = one_page().bytes();
    let at = bytes.windows(6).rposition(|window| window == b"/Size ").unwrap();
    bytes.splice(at + 6..at + 6, b"9999999".iter().copied());
    suffer("size.pdf", &bytes, &ANY).await;
}
