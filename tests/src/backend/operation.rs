//! The closed list of what the backend can be asked, and the address of each.
use axum::http::Method;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    ListEnvironments,
    SearchDashboards,
    GetDashboard,
    HealthSummary,
    ListTasks,
    GetTask,
    StartTask,
    ListBranches,
    CreateBranch,
    Commit,
    Deploy,
    Migrate,
    ListMaintenance,
    StartMaintenance,
    EndMaintenance,
}

impl Operation {
    pub const fn name(self) -> &'static str {
        match self {
            Self::ListEnvironments => "list_environments",
            Self::SearchDashboards => "search_dashboards",
            Self::GetDashboard => "get_dashboard",
            Self::HealthSummary => "health_summary",
            Self::ListTasks => "list_tasks",
            Self::GetTask => "get_task",
            Self::StartTask => "start_task",
            Self::ListBranches => "list_branches",
            Self::CreateBranch => "create_branch",
            Self::Commit => "commit",
            Self::Deploy => "deploy",
            Self::Migrate => "migrate",
            Self::ListMaintenance => "list_maintenance",
            Self::StartMaintenance => "start_maintenance",
            Self::EndMaintenance => "end_maintenance",
        }
    }

    pub const fn changes_something(self) -> bool {
        match self {
            Self::ListEnvironments
            | Self::SearchDashboards
            | Self::GetDashboard
            | Self::HealthSummary
            | Self::ListTasks
            | Self::GetTask
            | Self::ListBranches
            | Self::ListMaintenance => false,
            Self::StartTask
            | Self::CreateBranch
            | Self::Commit
            | Self::Deploy
            | Self::Migrate
            | Self::StartMaintenance
            | Self::EndMaintenance => true,
        }
    }

    /// The operation of an address, and the id in its path.
    pub fn of(method: &Method, path: &str) -> Option<(Self, String)> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let none = String::new();
        let found = match (method.as_str(), parts.as_slice()) {
            ("GET", ["api", "environments"]) => (Self::ListEnvironments, none),
            ("GET", ["api", "dashboards"]) => (Self::SearchDashboards, none),
            ("GET", ["api", "dashboards", id]) => (Self::GetDashboard, (*id).to_owned()),
            ("GET", ["api", "health", "summary"]) => (Self::HealthSummary, none),
            ("GET", ["api", "tasks"]) => (Self::ListTasks, none),
            ("GET", ["api", "tasks", id]) => (Self::GetTask, (*id).to_owned()),
            ("POST", ["api", "tasks"]) => (Self::StartTask, none),
            ("GET", ["api", "git", "repositories", id, "branches"]) => {
                (Self::ListBranches, (*id).to_owned())
            }
            ("POST", ["api", "git", "repositories", id, "branches"]) => {
                (Self::CreateBranch, (*id).to_owned())
            }
            ("POST", ["api", "git", "repositories", id, "commit"]) => {
                (Self::Commit, (*id).to_owned())
            }
            ("POST", ["api", "git", "repositories", id, "deploy"]) => {
                (Self::Deploy, (*id).to_owned())
            }
            ("POST", ["api", "migrations"]) => (Self::Migrate, none),
            ("GET", ["api", "maintenance", "events"]) => (Self::ListMaintenance, none),
            ("POST", ["api", "maintenance", "start"]) => (Self::StartMaintenance, none),
            ("POST", ["api", "maintenance", id, "end"]) => (Self::EndMaintenance, (*id).to_owned()),
            _ => return None,
        };
        Some(found)
    }
}
