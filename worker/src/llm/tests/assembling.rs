//! Pieces of calls, put together.
use expect_test::{Expect, expect};
use serde_json::Value;

use crate::llm::assemble::Assembler;
use crate::llm::chunk::Chunk;

#[track_caller]
fn check(deltas: &[&str], expected: Expect) {
    let mut assembler = Assembler::default();
    for delta in deltas {
        let chunk = format!(r#"{{"choices":[{{"delta":{{"tool_calls":{delta}}}}}]}}"#);
        let chunk: Chunk =
            serde_json::from_value(serde_json::from_str::<Value>(&chunk).unwrap()).unwrap();
        chunk.calls.into_iter().for_each(|part| assembler.add(part));
    }
    let calls = assembler.finish();
    let line = |call: &crate::llm::assemble::Assembled| {
        let id = if call.id.len() == 37 { "<fresh>" } else { &call.id };
        format!("{} {} {}\n", call.name, id, call.arguments)
    };
    expected.assert_eq(&calls.iter().map(line).collect::<String>());
}

#[test]
fn interleaved_by_index() {
    check(
        &[
            r#"[{"index":1,"id":"b","function":{"name":"g","arguments":"{\"y\""}}]"#,
            r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]"#,
            r#"[{"index":1,"function":{"arguments":":2}"}},{"index":0,"function":{"arguments":":1}"}}]"#,
        ],
        expect![[r#"
            g b {"y":2}
            f a {"x":1}
        "#]],
    );
}

#[test]
fn name_repeated_before_any_argument() {
    check(
        &[
            r#"[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]"#,
            r#"[{"index":0,"function":{"name":"f","arguments":"{\"x\":1}"}}]"#,
        ],
        expect![[r#"
            f a {"x":1}
        "#]],
    );
}

#[test]
fn name_after_the_id() {
    check(
        &[
            r#"[{"index":0,"id":"a"}]"#,
            r#"[{"index":0,"function":{"name":"f"}}]"#,
            r#"[{"index":0,"function":{"arguments":"{}"}}]"#,
        ],
        expect![[r#"
            f a {}
        "#]],
    );
}

#[test]
fn a_single_object_in_place_of_a_list() {
    check(
        &[r#"{"id":5,"name":"f","arguments":{"x":1}}"#],
        expect![[r#"
        f 5 {"x":1}
    "#]],
    );
}

#[test]
fn nothing_that_is_a_call() {
    check(&["null", "7", r#""f""#, "[null,3]"], expect![""]);
}

#[test]
fn without_index_by_id() {
    check(
        &[
            r#"[{"id":"a","function":{"name":"f","arguments":"{\"x\""}}]"#,
            r#"[{"id":"b","function":{"name":"g","arguments":"{\"y\""}}]"#,
            r#"[{"id":"a","function":{"arguments":":1}"}}]"#,
            r#"[{"id":"b","function":{"arguments":":2}"}}]"#,
        ],
        expect![[r#"
            f a {"x":1}
            g b {"y":2}
        "#]],
    );
}
