use expect_test::{Expect, expect};

use super::*;
use crate::extracted::Piece;

#[track_caller]
fn check(text: &str, expected: Expect) {
    let mut shown = String::new();
    let mut emit = |piece| {
        if let Piece::Text(text) = piece {
            shown.push_str(&text.replace('\t', "→"));
        }
    };
    let mut out = Output::new(&mut emit, 1_000);
    read(text, &mut out).unwrap();
    out.flush();
    expected.assert_eq(&shown);
}

#[test]
fn semicolons_with_decimal_commas() {
    check(
        "Дата;Сумма\n01.02.2026;1200,50\n02.02.2026;300,00\n",
        expect![[r#"
            Дата→Сумма
            01.02.2026→1200,50
            02.02.2026→300,00
        "#]],
    );
}

#[test]
fn quotes_hold_delimiters_and_lines() {
    check(
        "name,note\r\n\"a, b\",\"first;;;\nsecond\"\r\n\"say \"\"hi\"\"\",x\r\n",
        expect![[r#"
            name→note
            a, b→first;;; ↵ second
            say "hi"→x
        "#]],
    );
}

#[test]
fn ragged_rows_are_kept() {
    check(
        "a\tb\tc\n1\t2\n\n1\t2\t3\t4\n",
        expect![[r#"
            a→b→c
            1→2
            1→2→3→4
        "#]],
    );
}

#[test]
fn the_file_may_name_its_delimiter() {
    check(
        "sep=|\r\na|b,c,d\n",
        expect![[r#"
        a→b,c,d
    "#]],
    );
}

#[test]
fn one_column_is_a_table_too() {
    check(
        "one\ntwo words\n",
        expect![[r#"
        one
        two words
    "#]],
    );
}

#[test]
fn an_open_quote_loses_nothing() {
    check(
        "a,b\n\"open,1\nx,2\n",
        expect![[r#"
        a→b
        open,1 ↵ x,2
    "#]],
    );
}
