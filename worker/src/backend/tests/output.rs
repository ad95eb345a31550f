//! Large results.
use agent::input::ToolOutcome;
use contract::limits::TOOL_OUTPUT_BYTES;
use serde_json::{Value, json};

use super::mock::{Mock, answer, once, read};
use crate::backend::output::fit;

#[test]
fn small_results_stay_as_they_are() {
    let value = json!({"items": [1, "два", null]});
    assert_eq!(fit(value.clone()), value);
}

#[test]
fn long_lists_keep_their_beginning() {
    let item =
        |n: usize| json!({"id": n, "title": format!("Дашборд {n}"), "note": "x".repeat(100)});
    let all: Vec<Value> = (0..5_000).map(item).collect();
    let fitted = fit(json!({"items": all, "total": 5_000}));
    assert!(size(&fitted) <= TOOL_OUTPUT_BYTES);
    assert_eq!((&fitted["truncated"], &fitted["total"]), (&json!(true), &json!(5_000)));
    let kept = fitted["items"].as_array().unwrap();
    assert!(kept.len() > 200, "{}", kept.len());
    assert_eq!(kept[0], item(0));
}

#[test]
fn bare_lists_and_texts_get_a_place_for_the_mark() {
    let fitted = fit(Value::from(vec!["y".repeat(1_000); 1_000]));
    assert!(size(&fitted) <= TOOL_OUTPUT_BYTES);
    assert!(fitted["items"].as_array().unwrap().len() > 20);
    let fitted = fit(Value::String("Привет 🌍 ".repeat(20_000)));
    assert!(size(&fitted) <= TOOL_OUTPUT_BYTES);
    assert!(fitted["items"].as_str().unwrap().ends_with('…'));
    assert_eq!(fitted["truncated"], true);
}

#[test]
fn hostile_shapes_fit_as_well() {
    let wide: Value = Value::Object(
        (0..50_000).map(|n| (format!("key {n} {}", "k".repeat(50)), json!(n))).collect(),
    );
    let huge_keys: Value =
        Value::Object((0..40).map(|n| (format!("{n}{}", "k".repeat(9_000)), json!(n))).collect());
    let mut deep = json!("end");
    for _ in 0..100 {
        deep = json!([deep, "x".repeat(2_000)]);
    }
    for value in [wide, huge_keys, deep] {
        let fitted = fit(value);
        assert!(size(&fitted) <= TOOL_OUTPUT_BYTES, "{}", size(&fitted));
        assert_eq!(fitted["truncated"], true);
    }
}

#[tokio::test]
async fn a_huge_answer_is_not_read_to_its_end() {
    let body = json!({"items": vec!["слово ".repeat(1_000); 1_000]}).to_string();
    assert!(body.len() > 8_000_000);
    let mock = Mock::start(move |_, _| answer(200, body.clone())).await;
    let outcome = read(&mock.backend()).await;
    let ToolOutcome::Ok(value) = outcome else { panic!("{outcome:?}") };
    assert_eq!(value["truncated"], true);
    assert!(value["beginning"].as_str().unwrap().starts_with(r#"{"items":["слово"#));
    assert!(size(&value) <= TOOL_OUTPUT_BYTES);
}

#[tokio::test]
async fn a_large_answer_stays_json() {
    let body = json!({"items": vec!["слово ".repeat(10); 5_000]}).to_string();
    let mock = Mock::start(move |_, _| answer(200, body.clone())).await;
    let outcome = once(&mock.backend()).await;
    let ToolOutcome::Ok(value) = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        (&value["truncated"], &value["items"][0]),
        (&json!(true), &json!("слово ".repeat(10)))
    );
    assert!(size(&value) <= TOOL_OUTPUT_BYTES);
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}
