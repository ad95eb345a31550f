//! Work that runs in the background: looking at it, and starting validations and backups.
use agent::tool::SideEffect;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::id::{Id, check_all};
use super::{Area, Plan, Tool};
use crate::backend::paths::Route;

/// Lists background tasks (validations, backups, migrations) with their states, newest first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListTasks {
    /// Which page, from 1.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    page: Option<u32>,
    /// Tasks on a page.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    page_size: Option<u32>,
}

impl Tool for ListTasks {
    const NAME: &'static str = "list_tasks";
    const AREA: Area = Area::Tasks;
    const TITLE: (&'static str, &'static str) =
        ("List background tasks", "Показать фоновые задачи");
    const EFFECT: SideEffect = SideEffect::Read;

    fn plan(self) -> Plan {
        Plan::get(Route::ListTasks).with("page", self.page).with("page_size", self.page_size)
    }
}

/// Shows the state, progress and result of one background task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetTaskStatus {
    /// Id of the task, as the tool that started it said.
    task_id: Id,
}

impl Tool for GetTaskStatus {
    const NAME: &'static str = "get_task_status";
    const AREA: Area = Area::Tasks;
    const TITLE: (&'static str, &'static str) =
        ("Show the state of a task", "Показать состояние задачи");
    const EFFECT: SideEffect = SideEffect::Read;

    fn check(&self) -> Result<(), String> {
        self.task_id.check("task_id")
    }

    fn plan(self) -> Plan {
        Plan::get(Route::GetTaskStatus).at("task_id", self.task_id)
    }
}

/// Starts a validation of dashboards: whether their charts, filters and datasets work. It runs in the background:
/// the result names a task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunValidation {
    /// Id of the environment; all its dashboards unless some are named.
    #[serde(default)]
    environment_id: Option<Id>,
    /// Ids of the dashboards.
    #[serde(default)]
    #[schemars(length(max = 500))]
    dashboard_ids: Vec<Id>,
}

impl Tool for RunValidation {
    const NAME: &'static str = "run_validation";
    const AREA: Area = Area::Tasks;
    const TITLE: (&'static str, &'static str) =
        ("Validate dashboards", "Запустить валидацию дашбордов");
    const EFFECT: SideEffect = SideEffect::Once;

    fn check(&self) -> Result<(), String> {
        if self.environment_id.is_none() && self.dashboard_ids.is_empty() {
            return Err("`environment_id` or `dashboard_ids` is needed".to_owned());
        }
        self.environment_id.iter().try_for_each(|id| id.check("environment_id"))?;
        check_all(&self.dashboard_ids, "dashboard_ids")
    }

    fn plan(self) -> Plan {
        start(Route::RunValidation, "validation", self.environment_id, &self.dashboard_ids)
    }
}

/// Starts a backup of an environment's dashboards. It runs in the background: the result names a task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunBackup {
    /// Id of the environment.
    environment_id: Id,
    /// Ids of the dashboards; all of the environment when left out.
    #[serde(default)]
    #[schemars(length(max = 500))]
    dashboard_ids: Vec<Id>,
}

impl Tool for RunBackup {
    const NAME: &'static str = "run_backup";
    const AREA: Area = Area::Tasks;
    const TITLE: (&'static str, &'static str) =
        ("Back up an environment", "Запустить резервное копирование");
    const EFFECT: SideEffect = SideEffect::Once;

    fn check(&self) -> Result<(), String> {
        self.environment_id.check("environment_id")?;
        check_all(&self.dashboard_ids, "dashboard_ids")
    }

    fn plan(self) -> Plan {
        start(Route::RunBackup, "backup", Some(self.environment_id), &self.dashboard_ids)
    }
}

fn start(route: Route, plugin: &str, environment: Option<Id>, dashboards: &[Id]) -> Plan {
    let mut params = Map::new();
    if let Some(environment) = environment {
        params.insert("environment_id".to_owned(), Value::String(environment.to_string()));
    }
    if !dashboards.is_empty() {
        let ids = dashboards.iter().map(|id| Value::String(id.to_string())).collect();
        params.insert("dashboard_ids".to_owned(), Value::Array(ids));
    }
    Plan::post(route, json!({ "plugin_id": plugin, "params": params }))
}
