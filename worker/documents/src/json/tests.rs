use expect_test::{Expect, expect};

use super::*;
use crate::extracted::Piece;

fn print(text: &str, limits: &Limits) -> (String, Result<(), Stop>) {
    let mut shown = String::new();
    let mut emit = |piece| {
        if let Piece::Text(text) = piece {
            shown.push_str(&text);
        }
    };
    let mut out = Output::new(&mut emit, limits.text_bytes);
    let ended = read(text, limits, &mut out);
    out.flush();
    (shown, ended)
}

#[track_caller]
fn check(text: &str, expected: Expect) {
    let (mut shown, ended) = print(text, &Limits::default());
    match ended {
        Ok(()) => {}
        Err(stop) => shown.push_str(&format!("{stop:?}\n")),
    }
    expected.assert_eq(&shown);
}

#[test]
fn what_is_written_stays() {
    check(
        r#"{"b":1,"a":12345678901234567890.10e5,"a":"again","empty":[],"no":{},
            "list":[1,2,3],"long":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"],"deep":{"x":{"y":[true,null]}}}"#,
        expect![[r#"
            {
              "b": 1,
              "a": 12345678901234567890.10e5,
              "a": "again",
              "empty": [],
              "no": {},
              "list": [1, 2, 3],
              "long": [
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
              ],
              "deep": {
                "x": {
                  "y": [true, null]
                }
              }
            }
        "#]],
    );
}

#[test]
fn letters_are_shown_as_letters() {
    check(
        r#"["\u0418\u0442\u043e\u0433\u043e", "\ud83d\ude00", "a\nb \"c\" \u0000\u202e \ud800 \\u0418"]"#,
        expect![[r#"
            ["Итого", "😀", "a\nb \"c\" \u0000\u202e \ud800 \\u0418"]
        "#]],
    );
}

#[test]
fn lines_of_json() {
    check(
        "{\"a\": 1}\n{\"a\": 2}\n",
        expect![[r#"
            {"a": 1}
            {"a": 2}
        "#]],
    );
}

#[test]
fn broken_json_keeps_its_beginning() {
    check(
        r#"{"a": [1, 2], "b": {"c": 3,, "#,
        expect![[r#"
            {
              "a": [1, 2],
              "b": {
                "c": 3
                … (cut)
              }
            }
            Cut(Broken)
        "#]],
    );
    check(
        "hello",
        expect![[r#"
        Failed(Corrupt)
    "#]],
    );
    check(
        "  ",
        expect![[r#"
        Failed(Corrupt)
    "#]],
    );
}

#[test]
fn depth_is_cut_not_followed() {
    let limits = Limits { depth: 3, ..Limits::default() };
    let (shown, ended) = print(&"[".repeat(200_000), &limits);
    assert!(matches!(ended, Err(Stop::Cut(Why::Depth))));
    expect![[r#"
        [
          [
            [
              … (cut)
            ]
          ]
        ]
    "#]]
    .assert_eq(&shown);
}

#[test]
fn a_cut_falls_between_values_and_leaves_json() {
    let items: Vec<String> =
        (0..1_000).map(|i| format!("{{\"id\": {i}, \"text\": \"{}\"}}", "я".repeat(60))).collect();
    let text = format!("{{\"items\": [{}]}}", items.join(","));
    for text_bytes in (4_000..9_000).step_by(171) {
        let limits = Limits { text_bytes, ..Limits::default() };
        let (shown, ended) = print(&text, &limits);
        assert!(matches!(ended, Err(Stop::Cut(Why::Text))), "{ended:?}");
        assert!(shown.len() <= text_bytes && shown.len() + 3_000 > text_bytes, "{}", shown.len());
        let mended = shown.replace("… (cut)", "");
        let mended = mended.trim_end().replace(|c: char| c.is_whitespace(), "");
        assert!(mended.ends_with("}]}"), "{mended}");
        serde_json::from_str::<serde_json::Value>(&mended).unwrap();
    }
}

#[test]
fn a_long_string_is_shortened() {
    let (shown, ended) = print(&format!("[\"{}\", 1]", "x".repeat(50_000)), &Limits::default());
    assert!(ended.is_ok());
    assert!(shown.len() < 3_000 && shown.contains("… (cut, 50000 bytes)\",\n  1\n]"), "{shown}");
}
