//! JSON and tables.
use super::suffer;

const MOST: usize = 10 << 20;

#[tokio::test]
async fn json_without_end() {
    let arrays = "[".repeat(MOST);
    let text = suffer("arrays.json", arrays.as_bytes(), &["cut: Depth"]).await;
    assert!(text.contains("… (cut)") && text.len() < 100_000);
    let objects = "{\"a\":".repeat(MOST / 5);
    suffer("objects.json", objects.as_bytes(), &["cut: Depth"]).await;
    let closed = format!("{}{}", "[".repeat(MOST / 2), "]".repeat(MOST / 2));
    suffer("closed.json", closed.as_bytes(), &["cut: Depth"]).await;
    let string = format!("[\"{}\"]", "x".repeat(MOST - 4));
    let text = suffer("string.json", string.as_bytes(), &["whole"]).await;
    assert!(text.len() < 10_000);
    let number = format!("[{}]", "9".repeat(MOST - 2));
    suffer("number.json", number.as_bytes(), &["Corrupt", "cut: Broken"]).await;
    let open = format!("[\"{}", "\\".repeat(MOST - 2));
    suffer("open.json", open.as_bytes(), &["Corrupt", "cut: Broken"]).await;
    let keys = format!("{{{}\"a\":1}}", "\"a\":1,".repeat(MOST / 6 - 2));
    suffer("keys.json", keys.as_bytes(), &["cut: Text"]).await;
    let lines = "[[[[[[[[1]]]]]]]]\n".repeat(MOST / 18);
    suffer("lines.json", lines.as_bytes(), &["cut: Text"]).await;
    let blanks = format!("[{}1]", " ".repeat(MOST - 3));
    suffer("blanks.json", blanks.as_bytes(), &["whole"]).await;
    let escapes = format!("[{}1]", "\"\\u0414\\ud83d\\ude00\",".repeat(MOST / 22));
    suffer("escapes.json", escapes.as_bytes(), &["cut: Text"]).await;
}

#[tokio::test]
async fn tables_without_end() {
    suffer("delimiters.csv", ";".repeat(MOST).as_bytes(), &["OutOfMemory", "TooLarge"]).await;
    suffer("quotes.csv", "\"".repeat(MOST).as_bytes(), &["whole", "cut: Text", "TooLarge"]).await;
    suffer("one-line.csv", "x".repeat(MOST).as_bytes(), &["cut: Text"]).await;
    suffer("lines.csv", "\n".repeat(MOST).as_bytes(), &["whole"]).await;
    suffer("rows.csv", "a;b\n".repeat(MOST / 4).as_bytes(), &["cut: Text"]).await;
    let open = format!("a;b\n\"{}", "x\n".repeat(MOST / 2 - 8));
    suffer("open.csv", open.as_bytes(), &["cut: Text"]).await;
    let wide: Vec<u8> =
        "я;ю\n".repeat(MOST / 8).encode_utf16().flat_map(u16::to_le_bytes).collect();
    suffer("wide.csv", &wide, &["cut: Text"]).await;
    let legacy = encoding_rs::KOI8_R.encode(&"Итого;сумма\n".repeat(MOST / 12)).0.into_owned();
    let text = suffer("legacy.csv", &legacy, &["cut: Text"]).await;
    assert!(text.starts_with("Итого\tсумма\n"));
}
