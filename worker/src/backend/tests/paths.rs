//! Where operations live.
use agent::input::ToolOutcome;
use agent::tool::SideEffect;
use contract::error_code::ErrorCode;
use expect_test::{Expect, expect};

use super::mock::{Mock, get, ok, perform};
use crate::backend::Request;
use crate::backend::paths::{Paths, Route};

fn dashboard(id: &str) -> Request {
    Request { path: vec![("dashboard_id", id.to_owned())], ..get(Route::GetDashboard) }
}

#[tokio::test]
async fn an_id_stays_one_segment() {
    let mock = Mock::start(|_, _| ok()).await;
    let backend = mock.backend();
    let ids = [
        "42",
        "../x",
        "a/b?c",
        "a#b",
        "%2e%2e",
        "..",
        ".",
        "",
        "..%2f",
        "a b",
        "é🌍",
        "a\\b",
        ";x=1",
        "{task_id}",
    ];
    for id in ids {
        let outcome = perform(&backend, &dashboard(id), SideEffect::Read).await;
        let refused =
            matches!(outcome, ToolOutcome::Failed { code: ErrorCode::InvalidArguments, .. });
        assert_eq!(refused, ["..", ".", ""].contains(&id), "{id}");
    }
    let seen: Vec<String> = mock.calls().iter().map(|call| call.uri.to_string()).collect();
    expect![[r#"
        /api/dashboards/42
        /api/dashboards/..%2Fx
        /api/dashboards/a%2Fb%3Fc
        /api/dashboards/a%23b
        /api/dashboards/%252e%252e
        /api/dashboards/..%252f
        /api/dashboards/a%20b
        /api/dashboards/%C3%A9%F0%9F%8C%8D
        /api/dashboards/a%5Cb
        /api/dashboards/%3Bx%3D1
        /api/dashboards/%7Btask_id%7D"#]]
    .assert_eq(&seen.join("\n"));
}

#[tokio::test]
async fn queries_are_encoded() {
    let mock = Mock::start(|_, _| ok()).await;
    let query = vec![("search", "прод & x=1".to_owned()), ("page", "2".to_owned())];
    perform(&mock.backend(), &Request { query, ..get(Route::SearchDashboards) }, SideEffect::Read)
        .await;
    assert_eq!(
        mock.calls()[0].uri.to_string(),
        "/api/dashboards?search=%D0%BF%D1%80%D0%BE%D0%B4+%26+x%3D1&page=2"
    );
}

#[test]
fn overrides() {
    let paths =
        r#"{"get_dashboard": "/v2/d/{dashboard_id}?full=1", "list_tasks": "post /v2/jobs/find"}"#;
    let paths = Paths::new("http://backend/prefix/", Some(paths)).unwrap();
    let at = |request: &Request| {
        paths.locate(request).map(|(method, url)| format!("{method} {url}")).unwrap()
    };
    assert_eq!(at(&dashboard("4/2")), "GET http://backend/prefix/v2/d/4%2F2?full=1");
    assert_eq!(at(&get(Route::ListTasks)), "POST http://backend/prefix/v2/jobs/find");
    assert_eq!(at(&get(Route::ListEnvironments)), "GET http://backend/prefix/api/environments");
    let filtered = Request { query: vec![("env_id", "prod".to_owned())], ..dashboard("1") };
    assert_eq!(at(&filtered), "GET http://backend/prefix/v2/d/1?full=1&env_id=prod");
}

#[test]
fn wrong_overrides_are_all_named() {
    check(
        "http://b",
        Some(
            r#"{"get_dash": "/x", "get_dashboard": "/v2", "list_tasks": "/{id}", "run_backup": "x", "end_maintenance": "SEND /{maintenance_id}"}"#,
        ),
        expect![
            "BACKEND_PATHS: there is no operation `get_dash`; `get_dashboard`: the path lacks `{dashboard_id}`; `list_tasks`: nothing fills `{id}`; `run_backup`: `x` is no path; it begins with `/`; `end_maintenance`: `SEND` is no method"
        ],
    );
    check("http://b", Some("[]"), expect!["BACKEND_PATHS must be a JSON object of strings"]);
    check("backend", None, expect!["BACKEND_URL `backend` is not a URL"]);
    check(
        "ftp://b",
        None,
        expect!["BACKEND_URL `ftp://b` must be an http or https URL without a query"],
    );
}

#[test]
fn every_operation_has_a_name_and_a_path() {
    let paths = Paths::new("http://b", None).unwrap();
    let ids = ["dashboard_id", "task_id", "maintenance_id"].map(|name| (name, "7".to_owned()));
    let all = [
        Route::ListEnvironments,
        Route::CommitChanges,
        Route::GetTaskStatus,
        Route::EndMaintenance,
    ];
    for route in all {
        assert!(!route.name().is_empty());
        let (_, url) = paths.locate(&Request { path: ids.to_vec(), ..get(route) }).unwrap();
        assert!(!url.as_str().contains("%7B"), "{url}");
    }
}

#[track_caller]
fn check(base: &str, overrides: Option<&str>, expected: Expect) {
    expected.assert_eq(&Paths::new(base, overrides).unwrap_err().to_string());
}
