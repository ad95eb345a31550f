//! Where dashboards live.
use agent::tool::SideEffect;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Area, Plan, Tool};
use crate::backend::paths::Route;

/// Lists all environments with their ids and kinds (production, staging, development). Use it to turn a name the
/// user says, such as "prod" or «прод», into an environment id.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListEnvironments {}

impl Tool for ListEnvironments {
    const NAME: &'static str = "list_environments";
    const AREA: Area = Area::Environments;
    const TITLE: (&'static str, &'static str) = ("List the environments", "Показать окружения");
    const EFFECT: SideEffect = SideEffect::Read;

    fn plan(self) -> Plan {
        Plan::get(Route::ListEnvironments)
    }
}
