//! Where every operation lives: the one table, and its overrides.
//!
//! `BACKEND_PATHS` is a JSON object from an operation's name to a path, with or without a method before it:
//! `{"list_tasks": "/v2/jobs", "end_maintenance": "PUT /v2/maintenance/{maintenance_id}/closed"}`. A path keeps all
//! placeholders of the one it replaces.
use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use reqwest::{Method, Url};

use super::Request;

/// An operation of the backend; named like the tool that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    ListEnvironments,
    SearchDashboards,
    GetDashboard,
    GetHealthSummary,
    ListTasks,
    GetTaskStatus,
    ListBranches,
    CreateBranch,
    CommitChanges,
    DeployDashboard,
    ExecuteMigration,
    RunValidation,
    RunBackup,
    ListMaintenanceEvents,
    StartMaintenance,
    EndMaintenance,
}

const PATHS: [(Route, &str, &str); 16] = [
    (Route::ListEnvironments, "list_environments", "GET /api/environments"),
    (Route::SearchDashboards, "search_dashboards", "GET /api/dashboards"),
    (Route::GetDashboard, "get_dashboard", "GET /api/dashboards/{dashboard_id}"),
    (Route::GetHealthSummary, "get_health_summary", "GET /api/health/summary"),
    (Route::ListTasks, "list_tasks", "GET /api/tasks"),
    (Route::GetTaskStatus, "get_task_status", "GET /api/tasks/{task_id}"),
    (Route::ListBranches, "list_branches", "GET /api/git/repositories/{dashboard_id}/branches"),
    (Route::CreateBranch, "create_branch", "POST /api/git/repositories/{dashboard_id}/branches"),
    (Route::CommitChanges, "commit_changes", "POST /api/git/repositories/{dashboard_id}/commit"),
    (
        Route::DeployDashboard,
        "deploy_dashboard",
        "POST /api/git/repositories/{dashboard_id}/deploy",
    ),
    (Route::ExecuteMigration, "execute_migration", "POST /api/migrations"),
    (Route::RunValidation, "run_validation", "POST /api/tasks"),
    (Route::RunBackup, "run_backup", "POST /api/tasks"),
    (Route::ListMaintenanceEvents, "list_maintenance_events", "GET /api/maintenance/events"),
    (Route::StartMaintenance, "start_maintenance", "POST /api/maintenance/start"),
    (Route::EndMaintenance, "end_maintenance", "POST /api/maintenance/{maintenance_id}/end"),
];

impl Route {
    pub fn name(self) -> &'static str {
        PATHS.iter().find(|(route, ..)| *route == self).map_or("", |(_, name, _)| name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    method: Method,
    template: String,
}

/// The table with its overrides, on a base URL.
#[derive(Clone, Debug)]
pub struct Paths {
    base: String,
    places: Vec<(Route, Place)>,
}

/// Arguments that give no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPath {
    #[error("`{name}` must not be empty, `.` or `..`")]
    Segment { name: &'static str },
    #[error("the operation has no path")]
    Unknown,
}

impl Paths {
    /// Names every wrong override at once.
    pub fn new(base_url: &str, overrides: Option<&str>) -> anyhow::Result<Self> {
        let base = base_url.trim_end_matches('/').to_owned();
        let url =
            Url::parse(&base).with_context(|| format!("BACKEND_URL `{base}` is not a URL"))?;
        if !matches!(url.scheme(), "http" | "https")
            || url.query().is_some()
            || url.fragment().is_some()
        {
            bail!("BACKEND_URL `{base}` must be an http or https URL without a query");
        }
        let overrides = read_overrides(overrides)?;
        let mut problems: Vec<String> = overrides
            .keys()
            .filter(|name| PATHS.iter().all(|(_, known, _)| known != name))
            .map(|name| format!("there is no operation `{name}`"))
            .collect();
        let mut places = Vec::new();
        for (route, name, default) in PATHS {
            match place(default, overrides.get(name).map(String::as_str)) {
                Ok(place) => places.push((route, place)),
                Err(problem) => problems.push(format!("`{name}`: {problem}")),
            }
        }
        if !problems.is_empty() {
            bail!("BACKEND_PATHS: {}", problems.join("; "));
        }
        Ok(Self { base, places })
    }

    /// Method and URL of a request.
    pub fn locate(&self, request: &Request) -> Result<(Method, Url), NoPath> {
        let (_, place) =
            self.places.iter().find(|(route, _)| *route == request.route).ok_or(NoPath::Unknown)?;
        let mut path = place.template.clone();
        for (name, value) in &request.path {
            if matches!(value.as_str(), "" | "." | "..") {
                return Err(NoPath::Segment { name });
            }
            path = path.replace(&format!("{{{name}}}"), &encode(value));
        }
        let mut url = Url::parse(&format!("{}{path}", self.base)).map_err(|_| NoPath::Unknown)?;
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        Ok((place.method.clone(), url))
    }
}

fn read_overrides(text: Option<&str>) -> anyhow::Result<BTreeMap<String, String>> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
        return Ok(BTreeMap::new());
    };
    serde_json::from_str(text).context("BACKEND_PATHS must be a JSON object of strings")
}

fn place(default: &str, replacement: Option<&str>) -> Result<Place, String> {
    let default_method = default.split_once(' ').map_or("GET", |(method, _)| method);
    let text = replacement.unwrap_or(default).trim();
    let (method, template) = text.split_once(' ').unwrap_or((default_method, text));
    let known = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let method = known
        .into_iter()
        .find(|known| known.as_str().eq_ignore_ascii_case(method))
        .ok_or_else(|| format!("`{method}` is no method"))?;
    let template = template.trim();
    if !template.starts_with('/') || template.contains([' ', '#', '\\']) || template.contains("..")
    {
        return Err(format!("`{template}` is no path; it begins with `/`"));
    }
    let (wanted, given) = (placeholders(default), placeholders(template));
    if let Some(missing) = wanted.iter().find(|name| !given.contains(name)) {
        return Err(format!("the path lacks `{{{missing}}}`"));
    }
    if let Some(extra) = given.iter().find(|name| !wanted.contains(name)) {
        return Err(format!("nothing fills `{{{extra}}}`"));
    }
    Ok(Place { method, template: template.to_owned() })
}

fn placeholders(template: &str) -> Vec<&str> {
    template.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect()
}

/// One path segment: whatever the value holds, it stays one.
fn encode(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
