//! Finding and reading dashboards.
use agent::tool::SideEffect;
use schemars::JsonSchema;
use serde::Deserialize;

use super::id::Id;
use super::{Area, Plan, Tool};
use crate::backend::paths::Route;

/// Searches dashboards by words in their titles and owners, and shows whether their last validation passed. Returns
/// one page; ask for the next with `page`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchDashboards {
    /// Only dashboards of this environment.
    #[serde(default)]
    env_id: Option<Id>,
    /// Words to look for. Leave it out to list all.
    #[serde(default)]
    #[schemars(length(max = 500))]
    search: Option<String>,
    /// Which page, from 1.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    page: Option<u32>,
    /// Dashboards on a page.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    page_size: Option<u32>,
}

impl Tool for SearchDashboards {
    const NAME: &'static str = "search_dashboards";
    const AREA: Area = Area::Dashboards;
    const TITLE: (&'static str, &'static str) = ("Search dashboards", "Найти дашборды");
    const EFFECT: SideEffect = SideEffect::Read;

    fn check(&self) -> Result<(), String> {
        self.env_id.iter().try_for_each(|id| id.check("env_id"))
    }

    fn plan(self) -> Plan {
        Plan::get(Route::SearchDashboards)
            .with("env_id", self.env_id)
            .with("search", self.search.filter(|search| !search.trim().is_empty()))
            .with("page", self.page)
            .with("page_size", self.page_size)
    }
}

/// Shows one dashboard in full, with the problems its validation found.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetDashboard {
    /// Id of the dashboard, as a search shows it.
    dashboard_id: Id,
    /// The environment to look in.
    #[serde(default)]
    env_id: Option<Id>,
}

impl Tool for GetDashboard {
    const NAME: &'static str = "get_dashboard";
    const AREA: Area = Area::Dashboards;
    const TITLE: (&'static str, &'static str) = ("Show a dashboard", "Показать дашборд");
    const EFFECT: SideEffect = SideEffect::Read;

    fn check(&self) -> Result<(), String> {
        self.dashboard_id.check("dashboard_id")?;
        self.env_id.iter().try_for_each(|id| id.check("env_id"))
    }

    fn plan(self) -> Plan {
        Plan::get(Route::GetDashboard)
            .at("dashboard_id", self.dashboard_id)
            .with("env_id", self.env_id)
    }
}
