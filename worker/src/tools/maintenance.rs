//! Maintenance windows.
use agent::tool::SideEffect;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::id::{Id, check_text};
use super::{Area, Plan, Tool};
use crate::backend::paths::Route;

/// Lists maintenance windows with their ids, environments, messages and times.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListMaintenanceEvents {
    /// Only those in progress.
    #[serde(default)]
    active_only: Option<bool>,
}

impl Tool for ListMaintenanceEvents {
    const NAME: &'static str = "list_maintenance_events";
    const AREA: Area = Area::Maintenance;
    const TITLE: (&'static str, &'static str) =
        ("List maintenance windows", "Показать технические работы");
    const EFFECT: SideEffect = SideEffect::Read;

    fn plan(self) -> Plan {
        Plan::get(Route::ListMaintenanceEvents).with("active_only", self.active_only)
    }
}

/// Starts a maintenance window in an environment: users of its dashboards see the message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartMaintenance {
    /// Id of the environment.
    environment_id: Id,
    /// What users are told.
    #[schemars(length(min = 1, max = 2_000))]
    message: String,
    /// Planned length in minutes.
    #[serde(default = "an_hour")]
    #[schemars(range(min = 1, max = 10_080))]
    duration_minutes: u32,
}

fn an_hour() -> u32 {
    60
}

impl Tool for StartMaintenance {
    const NAME: &'static str = "start_maintenance";
    const AREA: Area = Area::Maintenance;
    const TITLE: (&'static str, &'static str) =
        ("Start a maintenance window", "Начать технические работы");
    const EFFECT: SideEffect = SideEffect::Once;

    fn check(&self) -> Result<(), String> {
        self.environment_id.check("environment_id")?;
        check_text(&self.message, "message")
    }

    fn plan(self) -> Plan {
        let body = json!({
            "environment_id": self.environment_id.to_string(),
            "message": self.message,
            "duration_minutes": self.duration_minutes,
        });
        Plan::post(Route::StartMaintenance, body)
    }
}

/// Ends a maintenance window that is in progress.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndMaintenance {
    /// Id of the maintenance window, as the list shows it.
    maintenance_id: Id,
}

impl Tool for EndMaintenance {
    const NAME: &'static str = "end_maintenance";
    const AREA: Area = Area::Maintenance;
    const TITLE: (&'static str, &'static str) =
        ("End a maintenance window", "Завершить технические работы");
    const EFFECT: SideEffect = SideEffect::Once;

    fn check(&self) -> Result<(), String> {
        self.maintenance_id.check("maintenance_id")
    }

    fn plan(self) -> Plan {
        Plan::post(Route::EndMaintenance, json!({})).at("maintenance_id", self.maintenance_id)
    }
}
