//! Which routes are open.
use super::*;

#[test]
fn the_public_list_is_this_and_no_more() {
    let expected = [
        "/config",
        "/config/",
        "/gradio_api/info",
        "/gradio_api/app_id",
        "/gradio_api/startup-events",
        "/gradio_api/queue/status",
        "/gradio_api/queue/data",
        "/gradio_api/heartbeat/{session_hash}",
        "/gradio_api/cancel",
        "/gradio_api/reset",
        "/api/auth/service-token",
        "/healthz/live",
        "/healthz/ready",
        "/metrics",
    ];
    assert_eq!(PUBLIC, expected);
}

#[test]
fn a_prefix_changes_nothing_about_who_may_call() {
    let prefix = Some("/api/agent/gradio");
    assert!(is_public("/config", None));
    assert!(is_public("/config", prefix));
    assert!(is_public("/api/agent/gradio/config", prefix));
    assert!(!is_public("/api/agent/gradio/config", None));
    assert!(!is_public("/gradio_api/queue/join", prefix));
    assert!(!is_public("/api/agent/gradio/gradio_api/queue/join", prefix));
    assert!(!is_public("/api/assistant/conversations", prefix));
    assert!(!is_public("", prefix));
}
