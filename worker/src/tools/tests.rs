//! The tools as the model sees them, their arguments, and the requests they make.
use agent::input::{Arguments, ToolOutcome};
use agent::tool::SideEffect;
use contract::error_code::ErrorCode;
use contract::job::Locale;
use contract::secret::UserToken;
use expect_test::{Expect, expect, expect_file};
use serde_json::{Value, json};
use shared::runtime::trace::Trace;

use super::{CallContext, Plan, Registry};
use crate::backend::paths::Paths;
use crate::backend::{Backend, BackendConfig};

fn registry() -> Registry {
    Registry::new(&[], &[]).unwrap()
}

#[test]
fn what_the_model_sees() {
    let specs = serde_json::to_string_pretty(registry().specs()).unwrap();
    expect_file!["tests/specs.json"].assert_eq(&format!("{specs}\n"));
    for noise in
        ["$schema", "$ref", "$defs", "\"title\"", "\"format\"", "\"null\"", "anyOf", "oneOf"]
    {
        assert!(!specs.contains(noise), "{noise}");
    }
}

#[test]
fn seventeen_tools_each_described() {
    let registry = registry();
    assert_eq!(registry.specs().len(), 17);
    for spec in registry.specs() {
        assert!(spec.description.len() > 30, "{}", spec.name);
        assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
        assert_eq!(spec.parameters["additionalProperties"], false, "{}", spec.name);
        for (name, property) in spec.parameters["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{} {name}", spec.name);
        }
        let reads = ["show_", "list_", "get_", "search_"]
            .iter()
            .any(|prefix| spec.name.starts_with(prefix));
        assert_eq!(spec.effect == SideEffect::Read, reads, "{}", spec.name);
    }
}

#[test]
fn danger_can_be_added_never_removed() {
    let dangerous = |registry: &Registry| {
        let names = registry.specs().iter().filter(|spec| registry.danger(&spec.name));
        names.map(|spec| spec.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(dangerous(&registry()), ["commit_changes", "deploy_dashboard", "execute_migration"]);
    let more = Registry::new(&["start_maintenance".to_owned()], &[]).unwrap();
    assert_eq!(dangerous(&more).len(), 4);
}

#[test]
fn idempotent_by_configuration() {
    let registry = Registry::new(&[], &["deploy_dashboard".to_owned()]).unwrap();
    assert_eq!(registry.spec("deploy_dashboard").unwrap().effect, SideEffect::Idempotent);
    assert_eq!(registry.spec("commit_changes").unwrap().effect, SideEffect::Once);
}

#[test]
fn wrong_names_in_the_configuration() {
    let names = ["dd".to_owned(), "list_tasks".to_owned(), "run_backup".to_owned()];
    let problems = Registry::new(&["rm".to_owned()], &names).err().unwrap();
    assert_eq!(
        problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "CONFIRM_TOOLS: there is no tool `rm`",
            "IDEMPOTENT_TOOLS: there is no tool `dd`",
            "IDEMPOTENT_TOOLS: `list_tasks` changes nothing: leave it out"
        ]
    );
}

#[test]
fn arguments_that_fit() {
    check("list_tasks", "", expect!["{}"]);
    check("list_tasks", "  {} ", expect!["{}"]);
    check("list_tasks", r#"{"page":2,"page_size":null}"#, expect![[r#"{"page":2}"#]]);
    check(
        "list_tasks",
        r#"{"page":"2","page_size":50.0}"#,
        expect![[r#"{"page":2,"page_size":50}"#]],
    );
    check("get_dashboard", r#"{"dashboard_id":42}"#, expect![[r#"{"dashboard_id":"42"}"#]]);
    check(
        "deploy_dashboard",
        r#"{"dashboard_id":"42","environment_id":"prod"}"#,
        expect![[r#"dangerous {"dashboard_id":"42","environment_id":"prod"}"#]],
    );
    check("show_capabilities", r#"{"area":"git"}"#, expect![[r#"{"area":"git"}"#]]);
}

#[test]
fn arguments_that_do_not() {
    check("get_dashboard", "", expect!["`dashboard_id` is missing"]);
    check("get_dashboard", r#"{"dashboard_id":null}"#, expect!["`dashboard_id` must be a string"]);
    check(
        "get_dashboard",
        r#"{"dashboard_id":""}"#,
        expect!["`dashboard_id` must have at least 1 characters"],
    );
    check("get_dashboard", r#"{"dashboard_id":".."}"#, expect!["`dashboard_id` is not an id"]);
    check(
        "get_dashboard",
        r#"{"dashboard_id":"4","force":true}"#,
        expect!["`force` is no argument; there are: dashboard_id, env_id"],
    );
    check(
        "list_tasks",
        r#"{"page":0,"page_size":101}"#,
        expect!["`page` must be at least 1; `page_size` must be at most 100"],
    );
    check("list_tasks", r#"{"page":"two"}"#, expect!["`page` must be an integer"]);
    check("list_tasks", r#"{"page":1.5}"#, expect!["`page` must be an integer"]);
    check("list_tasks", "[]", expect!["the arguments must be an object"]);
    check("list_tasks", "null", expect!["the arguments must be an object"]);
    check(
        "show_capabilities",
        r#"{"area":"kitchen"}"#,
        expect![[
            r#"`area` must be one of "dashboards", "git", "migration", "health", "maintenance", "environments", "tasks", "help""#
        ]],
    );
    check(
        "execute_migration",
        r#"{"source_env_id":"dev","target_env_id":"dev","dashboard_ids":[1]}"#,
        expect!["`source_env_id` and `target_env_id` must be two environments"],
    );
    check(
        "execute_migration",
        r#"{"source_env_id":"dev","target_env_id":"prod","dashboard_ids":[]}"#,
        expect!["`dashboard_ids` must have at least 1 items"],
    );
    check(
        "execute_migration",
        r#"{"source_env_id":"dev","target_env_id":"prod","dashboard_ids":[{}],"replace_db":"yes"}"#,
        expect!["`dashboard_ids[0]` must be a string; `replace_db` must be a boolean"],
    );
    check("run_validation", "{}", expect!["`environment_id` or `dashboard_ids` is needed"]);
    check(
        "create_branch",
        r#"{"dashboard_id":"1","name":"a..b"}"#,
        expect!["`name` is not a branch name that git takes"],
    );
    check(
        "commit_changes",
        r#"{"dashboard_id":"1","message":"  ","files":[]}"#,
        expect!["`message` must not be blank"],
    );
    check(
        "commit_changes",
        r#"{"dashboard_id":"1","message":"m","files":["../../etc/passwd"]}"#,
        expect!["`files` holds a path that is not inside the repository"],
    );
    check(
        "start_maintenance",
        r#"{"environment_id":"prod","message":"m","duration_minutes":-5}"#,
        expect!["`duration_minutes` must be at least 1"],
    );
}

#[test]
fn no_arguments_at_all() {
    let whole = r#"{"dashboard_id":"42","environment_id":"prod"}"#;
    for cut in 1..whole.len() {
        check("deploy_dashboard", &whole[..cut], expect!["unparsable"]);
    }
    check("deploy_dashboard", &format!("{whole}{whole}"), expect!["unparsable"]);
    check("deploy_dashboard", "environment_id=prod", expect!["unparsable"]);
    check("rm_rf", r#"{"a":1}"#, expect![[r#"unknown tool {"a":1}"#]]);
    let huge = format!(r#"{{"dashboard_id":"{}"}}"#, "x".repeat(200_000));
    check("get_dashboard", &huge, expect!["the arguments have more than 131072 bytes"]);
}

#[track_caller]
fn check(name: &str, raw: &str, expected: Expect) {
    let said = match registry().check(name, raw) {
        Arguments::Valid { value, danger: true, side_effect: _ } => format!("dangerous {value}"),
        Arguments::Valid { value, danger: false, side_effect: _ } => value.to_string(),
        Arguments::Invalid { value: _, problem } => problem,
        Arguments::Unparsable { raw_len } => {
            assert_eq!(raw_len, raw.len());
            "unparsable".to_owned()
        }
        Arguments::UnknownTool { value } => format!("unknown tool {value}"),
    };
    expected.assert_eq(&said);
}

#[test]
fn requests() {
    let full = [
        ("list_environments", json!({})),
        (
            "search_dashboards",
            json!({"env_id": "prod", "search": "продажи", "page": 2, "page_size": 5}),
        ),
        ("search_dashboards", json!({"search": " "})),
        ("get_dashboard", json!({"dashboard_id": "42", "env_id": "prod"})),
        ("get_health_summary", json!({"environment_id": "prod"})),
        ("list_tasks", json!({"page": 1})),
        ("get_task_status", json!({"task_id": "task-1"})),
        ("list_branches", json!({"dashboard_id": "42"})),
        ("create_branch", json!({"dashboard_id": "42", "name": "fix", "from_branch": "main"})),
        ("create_branch", json!({"dashboard_id": "42", "name": "fix"})),
        ("commit_changes", json!({"dashboard_id": "42", "message": "m", "files": ["a.yaml"]})),
        ("deploy_dashboard", json!({"dashboard_id": "42", "environment_id": "prod"})),
        (
            "execute_migration",
            json!({"source_env_id": "dev", "target_env_id": "prod", "dashboard_ids": ["1", "2"], "replace_db": true}),
        ),
        ("run_validation", json!({"dashboard_ids": ["42"]})),
        ("run_backup", json!({"environment_id": "prod"})),
        ("list_maintenance_events", json!({"active_only": true})),
        ("start_maintenance", json!({"environment_id": "prod", "message": "m"})),
        ("end_maintenance", json!({"maintenance_id": "maint-1"})),
    ];
    let paths = Paths::new("http://b", None).unwrap();
    let registry = registry();
    let line = |(name, arguments): &(&str, Value)| {
        let plan = (registry.entry(name).unwrap().read)(arguments.clone()).unwrap();
        let Plan::Backend(request) = plan else { panic!("{plan:?}") };
        assert_eq!(request.route.name(), *name);
        let (method, url) = paths.locate(&request).unwrap();
        let body = request.body.map(|body| format!(" {body}")).unwrap_or_default();
        format!("{method} {}{body}\n", url.as_str().trim_start_matches("http://b"))
    };
    expect![[r#"
        GET /api/environments
        GET /api/dashboards?env_id=prod&search=%D0%BF%D1%80%D0%BE%D0%B4%D0%B0%D0%B6%D0%B8&page=2&page_size=5
        GET /api/dashboards
        GET /api/dashboards/42?env_id=prod
        GET /api/health/summary?environment_id=prod
        GET /api/tasks?page=1
        GET /api/tasks/task-1
        GET /api/git/repositories/42/branches
        POST /api/git/repositories/42/branches {"name":"fix","from_branch":"main"}
        POST /api/git/repositories/42/branches {"name":"fix"}
        POST /api/git/repositories/42/commit {"message":"m","files":["a.yaml"]}
        POST /api/git/repositories/42/deploy {"environment_id":"prod"}
        POST /api/migrations {"source_env_id":"dev","target_env_id":"prod","dashboard_ids":["1","2"],"replace_db":true}
        POST /api/tasks {"plugin_id":"validation","params":{"dashboard_ids":["42"]}}
        POST /api/tasks {"plugin_id":"backup","params":{"environment_id":"prod"}}
        GET /api/maintenance/events?active_only=true
        POST /api/maintenance/start {"environment_id":"prod","message":"m","duration_minutes":60}
        POST /api/maintenance/maint-1/end {}
    "#]]
    .assert_eq(&full.iter().map(line).collect::<String>());
}

#[tokio::test]
async fn capabilities_are_told_without_the_backend() {
    let registry = Registry::new(&["run_backup".to_owned()], &[]).unwrap();
    let en = call(&registry, Locale::En, "show_capabilities", json!({})).await;
    let ToolOutcome::Ok(en) = en else { panic!("{en:?}") };
    assert_eq!(en["capabilities"].as_array().unwrap().len(), 17);
    let ru = call(&registry, Locale::Ru, "show_capabilities", json!({"area": "tasks"})).await;
    let ToolOutcome::Ok(ru) = ru else { panic!("{ru:?}") };
    expect![[r#"
        [
          {
            "tool": "list_tasks",
            "title": "Показать фоновые задачи",
            "changes_something": false,
            "needs_confirmation": false
          },
          {
            "tool": "get_task_status",
            "title": "Показать состояние задачи",
            "changes_something": false,
            "needs_confirmation": false
          },
          {
            "tool": "run_validation",
            "title": "Запустить валидацию дашбордов",
            "changes_something": true,
            "needs_confirmation": false
          },
          {
            "tool": "run_backup",
            "title": "Запустить резервное копирование",
            "changes_something": true,
            "needs_confirmation": true
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&ru["capabilities"]).unwrap());
}

#[tokio::test]
async fn bad_arguments_never_reach_the_backend() {
    // Nobody listens there: a request would end as UNAVAILABLE.
    for (name, arguments) in [
        ("deploy_dashboard", json!({"dashboard_id": "1"})),
        ("rm_rf", json!({})),
        ("list_tasks", json!(7)),
    ] {
        let outcome = call(&registry(), Locale::En, name, arguments).await;
        let ToolOutcome::Failed { code: ErrorCode::InvalidArguments, .. } = outcome else {
            panic!("{outcome:?}")
        };
    }
    let outcome = call(&registry(), Locale::En, "list_tasks", json!({})).await;
    let ToolOutcome::Failed { code: ErrorCode::Unavailable, .. } = outcome else {
        panic!("{outcome:?}")
    };
}

async fn call(registry: &Registry, locale: Locale, name: &str, arguments: Value) -> ToolOutcome {
    shared::runtime::tls::install_provider();
    let backend = Backend::new(BackendConfig {
        base_url: "http://127.0.0.1:9".to_owned(),
        paths: None,
        token_url: "http://127.0.0.1:9/token".to_owned(),
        client_id: "agent".to_owned(),
        client_secret: secrecy::SecretString::from("secret"),
        call_timeout: std::time::Duration::from_secs(5),
    })
    .unwrap();
    let (token, trace) = (UserToken::new("opaque".to_owned()), Trace::default());
    let context = CallContext {
        backend: &backend,
        token: Some(&token),
        idempotency_key: "k",
        trace: &trace,
        locale,
    };
    registry.call(&context, name, &arguments).await
}
