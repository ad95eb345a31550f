//! Branches, commits and deployments of a dashboard's repository.
use agent::tool::SideEffect;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::id::{Id, check_text};
use super::{Area, Plan, Tool};
use crate::backend::paths::Route;

/// Lists the git branches of a dashboard's repository.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListBranches {
    /// Id of the dashboard.
    dashboard_id: Id,
}

impl Tool for ListBranches {
    const NAME: &'static str = "list_branches";
    const AREA: Area = Area::Git;
    const TITLE: (&'static str, &'static str) =
        ("List the branches of a dashboard", "Показать ветки дашборда");
    const EFFECT: SideEffect = SideEffect::Read;

    fn check(&self) -> Result<(), String> {
        self.dashboard_id.check("dashboard_id")
    }

    fn plan(self) -> Plan {
        Plan::get(Route::ListBranches).at("dashboard_id", self.dashboard_id)
    }
}

/// Creates a git branch in a dashboard's repository.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateBranch {
    /// Id of the dashboard.
    dashboard_id: Id,
    /// Name of the new branch, e.g. `fix-filters`.
    #[schemars(length(min = 1, max = 200))]
    name: String,
    /// The branch it starts from; the main branch when left out.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    from_branch: Option<String>,
}

impl Tool for CreateBranch {
    const NAME: &'static str = "create_branch";
    const AREA: Area = Area::Git;
    const TITLE: (&'static str, &'static str) = ("Create a branch", "Создать ветку");
    const EFFECT: SideEffect = SideEffect::Once;

    fn check(&self) -> Result<(), String> {
        self.dashboard_id.check("dashboard_id")?;
        check_branch(&self.name, "name")?;
        self.from_branch.iter().try_for_each(|name| check_branch(name, "from_branch"))
    }

    fn plan(self) -> Plan {
        let mut body = json!({ "name": self.name });
        if let (Some(from), Value::Object(object)) = (self.from_branch, &mut body) {
            object.insert("from_branch".to_owned(), from.into());
        }
        Plan::post(Route::CreateBranch, body).at("dashboard_id", self.dashboard_id)
    }
}

/// Commits the changes of a dashboard to its repository. The user is asked before it happens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitChanges {
    /// Id of the dashboard.
    dashboard_id: Id,
    /// Commit message: what changed and why.
    #[schemars(length(min = 1, max = 2_000))]
    message: String,
    /// Paths of the files to commit, inside the repository. Leave it out to commit all changed files.
    #[serde(default)]
    #[schemars(length(max = 500), inner(length(min = 1, max = 1_000)))]
    files: Vec<String>,
}

impl Tool for CommitChanges {
    const NAME: &'static str = "commit_changes";
    const AREA: Area = Area::Git;
    const TITLE: (&'static str, &'static str) = ("Commit changes", "Закоммитить изменения");
    const EFFECT: SideEffect = SideEffect::Once;

    fn check(&self) -> Result<(), String> {
        self.dashboard_id.check("dashboard_id")?;
        check_text(&self.message, "message")?;
        self.files.iter().try_for_each(|path| check_path(path))
    }

    fn plan(self) -> Plan {
        let body = json!({ "message": self.message, "files": self.files });
        Plan::post(Route::CommitChanges, body).at("dashboard_id", self.dashboard_id)
    }
}

/// Deploys a dashboard to an environment. The user is asked before it happens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeployDashboard {
    /// Id of the dashboard.
    dashboard_id: Id,
    /// Id of the environment it goes to.
    environment_id: Id,
}

impl Tool for DeployDashboard {
    const NAME: &'static str = "deploy_dashboard";
    const AREA: Area = Area::Git;
    const TITLE: (&'static str, &'static str) = ("Deploy a dashboard", "Задеплоить дашборд");
    const EFFECT: SideEffect = SideEffect::Once;

    fn check(&self) -> Result<(), String> {
        self.dashboard_id.check("dashboard_id")?;
        self.environment_id.check("environment_id")
    }

    fn plan(self) -> Plan {
        let body = json!({ "environment_id": self.environment_id.to_string() });
        Plan::post(Route::DeployDashboard, body).at("dashboard_id", self.dashboard_id)
    }
}

/// What git refuses anyway, said before anything is sent.
fn check_branch(name: &str, argument: &str) -> Result<(), String> {
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    let bad = name.contains(forbidden)
        || name.contains("..")
        || name.contains("@{")
        || name.contains("//")
        || name.starts_with(['-', '/', '.'])
        || name.ends_with(['/', '.']);
    if bad { Err(format!("`{argument}` is not a branch name that git takes")) } else { Ok(()) }
}

fn check_path(path: &str) -> Result<(), String> {
    let outside = path.starts_with(['/', '\\']) || path.split(['/', '\\']).any(|part| part == "..");
    if outside || path.chars().any(char::is_control) {
        return Err("`files` holds a path that is not inside the repository".to_owned());
    }
    Ok(())
}
