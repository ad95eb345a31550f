//! How the dashboards are.
use agent::tool::SideEffect;
use schemars::JsonSchema;
use serde::Deserialize;

use super::id::Id;
use super::{Area, Plan, Tool};
use crate::backend::paths::Route;

/// Sums up the health of dashboards: how many passed validation, which have problems and what these are. The right
/// tool for "which dashboards have validation problems".
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetHealthSummary {
    /// Only this environment; leave it out for all.
    #[serde(default)]
    environment_id: Option<Id>,
}

impl Tool for GetHealthSummary {
    const NAME: &'static str = "get_health_summary";
    const AREA: Area = Area::Health;
    const TITLE: (&'static str, &'static str) =
        ("Sum up the health of dashboards", "Показать сводку состояния дашбордов");
    const EFFECT: SideEffect = SideEffect::Read;

    fn check(&self) -> Result<(), String> {
        self.environment_id.iter().try_for_each(|id| id.check("environment_id"))
    }

    fn plan(self) -> Plan {
        Plan::get(Route::GetHealthSummary).with("environment_id", self.environment_id)
    }
}
