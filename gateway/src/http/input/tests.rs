//! Complaints about fields.
use serde_json::json;

use super::*;

#[test]
fn known_fields_are_read() {
    let mut fields = query(&[("a", "x"), ("n", "7"), ("f", "true")]);
    assert_eq!(fields.text("a").as_deref(), Some("x"));
    assert_eq!(fields.number("n", 1..=10), Some(7));
    assert!(fields.flag("f"));
    assert!(!fields.flag("g"));
    assert!(fields.finish().is_ok());
}

#[test]
fn every_complaint_is_made_at_once() {
    let mut fields = query(&[("n", "0"), ("f", "maybe"), ("odd", "1"), ("a", "1"), ("a", "2")]);
    fields.number("n", 1..=10);
    fields.flag("f");
    fields.text("a");
    fields.required_text("must");
    let complaints: Vec<_> = complaints(fields).into_iter().map(|c| (c.loc, c.kind)).collect();
    let at = |name: &str| ["query".to_owned(), name.to_owned()];
    assert_eq!(
        complaints,
        [
            (at("n"), "int_range"),
            (at("f"), "bool_parsing"),
            (at("a"), "repeated"),
            (at("must"), "missing"),
            (at("odd"), "extra_forbidden"),
        ]
    );
}

#[test]
fn a_body_may_know_more_than_we_do() {
    let Value::Object(object) = json!({ "title": "x", "color": "red" }) else { panic!() };
    let mut fields = Fields::of_object(object);
    assert_eq!(fields.text("title").as_deref(), Some("x"));
    assert!(fields.finish().is_ok());
}

#[test]
fn a_body_field_of_another_type_is_a_complaint() {
    let Value::Object(object) = json!({ "title": 7, "content": ["x"] }) else { panic!() };
    let mut fields = Fields::of_object(object);
    assert_eq!(fields.text("title"), None);
    assert_eq!(fields.required_text("content"), "");
    let kinds: Vec<_> = complaints(fields).into_iter().map(|complaint| complaint.kind).collect();
    assert_eq!(kinds, ["string_type", "string_type"]);
}

fn complaints(fields: Fields) -> Vec<BadParameter> {
    match fields.finish() {
        Err(ApiError::Parameters(complaints)) => complaints,
        other => panic!("{other:?}"),
    }
}

fn query(pairs: &[(&str, &str)]) -> Fields {
    let value = |text: &str| Value::String(text.to_owned());
    let values = pairs.iter().map(|(name, text)| ((*name).to_owned(), value(text))).collect();
    Fields { values, problems: Vec::new(), place: Place::Query }
}
