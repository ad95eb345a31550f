//! Moving dashboards between environments.
use agent::tool::SideEffect;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::id::{Id, check_all};
use super::{Area, Plan, Tool};
use crate::backend::paths::Route;

/// Migrates dashboards from one environment to another. The user is asked before it happens. It runs in the
/// background: the result names a job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecuteMigration {
    /// Id of the environment the dashboards come from.
    source_env_id: Id,
    /// Id of the environment they go to.
    target_env_id: Id,
    /// Ids of the dashboards.
    #[schemars(length(min = 1, max = 500))]
    dashboard_ids: Vec<Id>,
    /// Whether database connections of the target are replaced by those of the source.
    #[serde(default)]
    replace_db: bool,
}

impl Tool for ExecuteMigration {
    const NAME: &'static str = "execute_migration";
    const AREA: Area = Area::Migration;
    const TITLE: (&'static str, &'static str) =
        ("Migrate dashboards to another environment", "Перенести дашборды в другое окружение");
    const EFFECT: SideEffect = SideEffect::Once;

    fn check(&self) -> Result<(), String> {
        self.source_env_id.check("source_env_id")?;
        self.target_env_id.check("target_env_id")?;
        check_all(&self.dashboard_ids, "dashboard_ids")?;
        if self.source_env_id.to_string() == self.target_env_id.to_string() {
            return Err("`source_env_id` and `target_env_id` must be two environments".to_owned());
        }
        Ok(())
    }

    fn plan(self) -> Plan {
        let ids: Vec<String> = self.dashboard_ids.iter().map(Id::to_string).collect();
        let body = json!({
            "source_env_id": self.source_env_id.to_string(),
            "target_env_id": self.target_env_id.to_string(),
            "dashboard_ids": ids,
            "replace_db": self.replace_db,
        });
        Plan::post(Route::ExecuteMigration, body)
    }
}
