//! Trace context in and out of headers.
use super::*;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_child_stays_in_its_trace() {
    let parent = Trace::from_parts(Some(PARENT), Some("vendor=1"));
    let child = parent.child();
    assert_eq!(child.trace_id(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
    assert_ne!(child.traceparent, parent.traceparent);
    assert_eq!(child.tracestate.as_deref(), Some("vendor=1"));
}

#[test]
fn a_child_of_nothing_starts_a_trace() {
    let trace = Trace::default().child();
    assert_eq!(trace.trace_id().map(str::len), Some(32));
}

#[test]
fn a_malformed_parent_is_dropped() {
    for text in [
        "",
        "00-abc-def-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        &PARENT.to_uppercase(),
        &format!("{PARENT}-x"),
    ] {
        assert_eq!(Trace::from_parts(Some(text), Some("a=b")), Trace::default(), "{text}");
    }
}

#[test]
fn headers_carry_a_trace_unchanged() {
    let trace = Trace::from_parts(Some(PARENT), Some("vendor=1"));
    let mut headers = HeaderMap::new();
    trace.write_to(&mut headers);
    assert_eq!(Trace::from_headers(&headers), trace);
}
