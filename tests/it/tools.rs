//! Tools: chosen, shown, checked, called under two identities.
use std::time::{Duration, Instant};

use serde_json::json;
use tests::backend::FaultKind;
use tests::cluster::Cluster;
use tests::llm::reply::Reply;
use tests::transcript;

fn search() -> Reply {
    Reply::call("search_dashboards", json!({"search": "sales"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_story_of_the_specification_in_russian() {
    let cluster = Cluster::start().await;
    cluster.model.follow_demo_rules();
    let turn = cluster.client("alice").say("c1", "покажи дашборды с проблемами валидации").await;
    let types = turn.types();
    let count = |kind: &str| types.iter().filter(|t| *t == kind).count();
    assert_eq!((count("tool_start"), count("tool_end")), (2, 2), "{types:?}");
    assert_eq!(turn.status(), Some("completed"));
    assert!(turn.text().contains("42") && turn.text().contains("Обзор продаж"), "{}", turn.text());
    assert!(turn.text().contains("модель по сценарию"), "{}", turn.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_shown_with_its_input_and_output() {
    let cluster = Cluster::start().await;
    cluster.model.on("sales", [search(), Reply::text("Two.")]);
    let turn = cluster.client("alice").say("c1", "show sales dashboards").await;
    let expected = "tool_start search_dashboards {\"search\":\"sales\"}\ntool_end search_dashboards\ntokens \"Two.\"\nturn_end completed\nplain \"Two.\"";
    assert_eq!(transcript::of(&turn), expected);
    let (start, end) = (turn.one("tool_start"), turn.one("tool_end"));
    assert_eq!(start["tool_call_id"], end["tool_call_id"]);
    assert!(end["output"].to_string().contains("Sales overview"), "{end}");
    let call = &cluster.backend.calls()[0];
    assert_eq!((call.service.as_str(), call.user.as_str()), ("agent", "alice"));
    assert!(call.query.contains("search=sales"), "{call:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_tools_of_one_step_run_together() {
    let cluster = Cluster::start().await;
    cluster.backend.fault("*", FaultKind::DelayMs(700), None);
    let both =
        search().and_call("get_health_summary", json!({})).and_call("list_environments", json!({}));
    cluster.model.on("sales", [both, Reply::text("Ok.")]);
    let started = Instant::now();
    let turn = cluster.client("alice").say("c1", "sales dashboards health environments").await;
    assert_eq!(turn.all("tool_end").len(), 3);
    assert!(started.elapsed() < Duration::from_millis(1_900), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_tool_is_shown_and_explained() {
    let cluster = Cluster::start().await;
    cluster.backend.fault("search_dashboards", FaultKind::Status(500), None);
    cluster.model.on("sales", [search(), Reply::text("The search is down. Try later.")]);
    let turn = cluster.client("alice").say("c1", "sales dashboards").await;
    let error = turn.one("tool_error");
    assert_eq!(error["tool"], "search_dashboards");
    assert!(!error["error"].as_str().unwrap().is_empty());
    assert_eq!((turn.status(), turn.text()), (Some("completed"), "The search is down. Try later."));
    assert_eq!(turn.all("tool_end").len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_cannot_be_reached_is_a_tool_error() {
    let cluster = Cluster::start().await;
    cluster.backend.fault("search_dashboards", FaultKind::CutBefore, None);
    cluster.model.on("sales", [search(), Reply::text("No luck.")]);
    let turn = cluster.client("alice").say("c1", "sales dashboards").await;
    assert_eq!(turn.all("tool_error").len(), 1);
    let shown = turn.one("tool_error").to_string();
    assert!(!shown.contains("127.0.0.1"), "a host leaked: {shown}");
    assert_eq!(turn.text(), "No luck.");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_fit_never_reach_the_backend() {
    let cluster = Cluster::start().await;
    let wrong = Reply::call("get_dashboard", json!({"nonsense": true}));
    cluster.model.on("dashboard", [wrong, Reply::text("Which one?")]);
    let turn = cluster.client("alice").say("c1", "show the dashboard").await;
    assert_eq!(turn.one("tool_error")["code"], "INVALID_ARGUMENTS");
    assert_eq!(cluster.backend.calls().len(), 0);
    assert_eq!(turn.text(), "Which one?");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_does_not_exist_is_told_to_the_model() {
    let cluster = Cluster::start().await;
    cluster.model.on("hello", [Reply::call("drop_database", json!({})), Reply::text("I can't.")]);
    let turn = cluster.client("alice").say("c1", "hello").await;
    assert_eq!(turn.text(), "I can't.");
    assert_eq!(cluster.backend.calls().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_output_is_asked_for_once_more() {
    let cluster = Cluster::start().await;
    let broken =
        || Reply::text("").and_call_with_id("call_x", "get_dashboard", "{\"dashboard_id\": 4");
    cluster.model.on(
        "dashboard 42",
        [
            broken(),
            Reply::call("get_dashboard", json!({"dashboard_id": "42"})),
            Reply::text("Sales."),
        ],
    );
    let turn = cluster.client("alice").say("c1", "show dashboard 42").await;
    assert_eq!(turn.text(), "Sales.");
    assert_eq!(cluster.backend.calls_of("get_dashboard").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_may_not_do_through_the_agent_what_he_may_not_do() {
    let cluster = Cluster::start().await;
    let branch = Reply::call("create_branch", json!({"dashboard_id": "42", "name": "x"}));
    cluster.model.on("branch", [branch, Reply::text("You may not.")]);
    let turn = cluster.client("bob").say("c1", "create a branch for dashboard 42").await;
    assert_eq!(turn.one("tool_error")["code"], "FORBIDDEN", "{:#?}", turn.values);
    assert_eq!(cluster.backend.effects().len(), 0);
    assert_eq!(turn.text(), "You may not.");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_work_ends_with_its_task_id() {
    let cluster = Cluster::start().await;
    let start = Reply::call("run_backup", json!({"environment_id": "prod"}));
    cluster.model.on("back up", [start, Reply::text("Started.")]);
    let turn = cluster.client("alice").say("c1", "back up prod").await;
    assert!(turn.one("tool_end")["output"].to_string().contains("task-101"), "{:#?}", turn.values);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_tool_reports_that_it_is_alive() {
    let cluster = Cluster::builder()
        .worker_env("TOOL_PROGRESS_AFTER_MS", "300")
        .worker_env("TOOL_PROGRESS_EVERY_MS", "200")
        .start()
        .await;
    cluster.backend.fault("search_dashboards", FaultKind::DelayMs(1_500), None);
    cluster.model.on("sales", [search(), Reply::text("Ok.")]);
    let turn = cluster.client("alice").say("c1", "sales dashboards").await;
    assert!(turn.all("tool_progress").len() >= 3, "{:?}", turn.types());
    assert_eq!(turn.all("tool_end").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_whose_answer_was_lost_is_not_repeated() {
    let cluster = Cluster::start().await;
    cluster.backend.fault("create_branch", FaultKind::CutAfter, Some(1));
    let branch = Reply::call("create_branch", json!({"dashboard_id": "42", "name": "x"}));
    cluster.model.on("branch", [branch, Reply::text("Nobody knows.")]);
    let turn = cluster.client("alice").say("c1", "create a branch for dashboard 42").await;
    let error = turn.one("tool_error");
    assert_eq!(error["code"], "OUTCOME_UNKNOWN", "{error}");
    assert_eq!(cluster.backend.effects_of("create_branch").len(), 1);
    assert_eq!(cluster.backend.calls_of("create_branch").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_to_other_hosts_are_not_followed() {
    let cluster = Cluster::start().await;
    let elsewhere = tests::backend::Backend::start(tests::token::SECRET).await;
    let location = format!("{}/api/dashboards", elsewhere.url().replace("127.0.0.1", "localhost"));
    cluster.backend.fault("search_dashboards", FaultKind::RedirectTo(location), None);
    cluster.model.on("sales", [search(), Reply::text("No.")]);
    let turn = cluster.client("alice").say("c1", "sales dashboards").await;
    assert_eq!(turn.all("tool_error").len(), 1);
    assert_eq!((elsewhere.calls().len(), elsewhere.refused().len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_service_token_serves_many_calls() {
    let cluster = Cluster::start().await;
    for round in 0..4 {
        cluster.model.on("sales", [search(), Reply::text("Ok.")]);
        cluster.client("alice").say(&format!("c{round}"), "sales dashboards").await;
    }
    assert_eq!(cluster.backend.calls().len(), 4);
    assert_eq!(cluster.backend.service_tokens_issued(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_tools_that_fit_the_query_are_offered() {
    let cluster = Cluster::start().await;
    cluster.client("alice").say("c1", "начни обслуживание prod").await;
    let tools = cluster.model.requests()[0]["tools"].clone();
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().filter_map(|t| t["function"]["name"].as_str()).collect();
    for name in
        ["show_capabilities", "start_maintenance", "end_maintenance", "list_maintenance_events"]
    {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(!names.contains(&"execute_migration"), "{names:?}");
}
