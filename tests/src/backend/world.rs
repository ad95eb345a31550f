//! What the backend holds, in memory, and what each operation does to it.
use std::collections::HashMap;

use serde_json::{Value, json};

use super::data;
use super::operation::Operation;

pub struct World {
    environments: Vec<Value>,
    dashboards: Vec<Value>,
    tasks: Vec<Value>,
    maintenance: Vec<Value>,
    branches: HashMap<String, Vec<Value>>,
    made: u32,
}

impl Default for World {
    fn default() -> Self {
        Self {
            environments: data::environments(),
            dashboards: data::dashboards(),
            tasks: data::tasks(),
            maintenance: data::maintenance(),
            branches: HashMap::new(),
            made: 0,
        }
    }
}

pub type Answer = (u16, Value);

/// One call, without its identities.
pub struct Request {
    pub operation: Operation,
    pub id: String,
    pub query: HashMap<String, String>,
    pub body: Value,
}

fn refusal(status: u16, detail: impl Into<String>) -> Answer {
    (status, json!({"detail": detail.into()}))
}

impl World {
    pub fn perform(&mut self, request: &Request) -> Answer {
        match request.operation {
            Operation::ListEnvironments => (200, list(&self.environments)),
            Operation::SearchDashboards => self.search(&request.query),
            Operation::GetDashboard => {
                self.with_dashboard(&request.id, |dashboard| (200, dashboard.clone()))
            }
            Operation::HealthSummary => self.health(&request.query),
            Operation::ListTasks => (200, list(&self.tasks)),
            Operation::GetTask => self.task(&request.id),
            Operation::StartTask => self.start_task(&request.body),
            Operation::ListBranches => {
                self.with_branches(&request.id, |branches| (200, list(branches)))
            }
            Operation::CreateBranch => self.create_branch(&request.id, &request.body),
            Operation::Commit => self.commit(&request.id, &request.body),
            Operation::Deploy => self.deploy(&request.id, &request.body),
            Operation::Migrate => self.migrate(&request.body),
            Operation::ListMaintenance => {
                let only_active =
                    request.query.get("active_only").is_some_and(|value| value == "true");
                let shown =
                    self.maintenance.iter().filter(|event| !only_active || event["active"] == true);
                (200, list(&shown.cloned().collect::<Vec<_>>()))
            }
            Operation::StartMaintenance => self.start_maintenance(&request.body),
            Operation::EndMaintenance => self.end_maintenance(&request.id),
        }
    }

    fn next(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}-{}", 100 + self.made)
    }

    fn search(&self, query: &HashMap<String, String>) -> Answer {
        let words = query.get("search").map(|search| search.to_lowercase()).unwrap_or_default();
        let environment = query.get("env_id").filter(|id| !id.is_empty());
        if let Some(id) = environment
            && !self.has_environment(id)
        {
            return refusal(404, format!("environment `{id}` does not exist"));
        }
        let fits = |dashboard: &&Value| {
            let text = dashboard.to_string().to_lowercase();
            words.split_whitespace().all(|word| text.contains(word))
                && environment.is_none_or(|id| dashboard["environment_id"] == id.as_str())
        };
        let all: Vec<Value> = self.dashboards.iter().filter(fits).cloned().collect();
        let number = |key: &str, default: usize| {
            query.get(key).and_then(|n| n.parse().ok()).unwrap_or(default)
        };
        let (page, size) = (number("page", 1).max(1), number("page_size", 20).clamp(1, 100));
        let items: Vec<&Value> = all.iter().skip((page - 1) * size).take(size).collect();
        (200, json!({"items": items, "total": all.len(), "page": page, "page_size": size}))
    }

    fn health(&self, query: &HashMap<String, String>) -> Answer {
        let environment = query.get("environment_id").filter(|id| !id.is_empty());
        let here = |dashboard: &&Value| {
            environment.is_none_or(|id| dashboard["environment_id"] == id.as_str())
        };
        let all: Vec<&Value> = self.dashboards.iter().filter(here).collect();
        let problem = |dashboard: &&&Value| dashboard["validation"]["status"] == "failed";
        let problems: Vec<Value> = all
            .iter()
            .filter(problem)
            .map(|d| json!({"dashboard_id": d["id"], "title": d["title"], "title_ru": d["title_ru"], "problems": d["validation"]["problems"]}))
            .collect();
        let healthy = all.len() - problems.len();
        (
            200,
            json!({"environment_id": environment, "total": all.len(), "healthy": healthy, "problems": problems}),
        )
    }

    fn task(&mut self, id: &str) -> Answer {
        let Some(task) = self.tasks.iter_mut().find(|task| task["id"] == id) else {
            return refusal(404, format!("task `{id}` does not exist"));
        };
        let seen = task.clone();
        if task["status"] == "running" {
            let progress = (task["progress"].as_u64().unwrap_or(0) + 35).min(100);
            task["progress"] = json!(progress);
            task["status"] = json!(if progress == 100 { "completed" } else { "running" });
        }
        (200, seen)
    }

    fn start_task(&mut self, body: &Value) -> Answer {
        let Some(plugin) = body["plugin_id"].as_str() else {
            return refusal(422, "plugin_id is required");
        };
        let plugin = plugin.to_owned();
        let id = self.next("task");
        let started = "2026-06-03T12:00:00Z";
        let params = body["params"].clone();
        self.tasks.push(json!({"id": id, "plugin_id": plugin, "params": params, "status": "running", "progress": 5, "started_at": started}));
        (202, json!({"task_id": id, "status": "running"}))
    }

    fn create_branch(&mut self, id: &str, body: &Value) -> Answer {
        let Some(name) = body["name"].as_str().map(str::to_owned) else {
            return refusal(422, "name is required");
        };
        let from = body["from_branch"].as_str().unwrap_or("main").to_owned();
        self.with_branches(id, |branches| {
            if branches.iter().any(|branch| branch["name"] == name.as_str()) {
                return refusal(409, format!("branch `{name}` already exists"));
            }
            let branch = json!({"name": name, "from_branch": from, "last_commit": "c0ffee1"});
            branches.push(branch.clone());
            (201, branch)
        })
    }

    fn commit(&mut self, id: &str, body: &Value) -> Answer {
        if body["message"].as_str().is_none_or(str::is_empty) {
            return refusal(422, "message is required");
        }
        let commit = self.next("commit");
        let message = body["message"].clone();
        self.with_branches(id, |_| {
            (201, json!({"commit": commit, "message": message, "status": "committed"}))
        })
    }

    fn deploy(&mut self, id: &str, body: &Value) -> Answer {
        let Some(environment) = body["environment_id"].as_str() else {
            return refusal(422, "environment_id is required");
        };
        if !self.has_environment(environment) {
            return refusal(404, format!("environment `{environment}` does not exist"));
        }
        let deployment = self.next("deployment");
        self.with_dashboard(id, |dashboard| {
            let status = json!({"deployment_id": deployment, "dashboard_id": dashboard["id"], "environment_id": environment, "status": "deployed"});
            (200, status)
        })
    }

    fn migrate(&mut self, body: &Value) -> Answer {
        for key in ["source_env_id", "target_env_id"] {
            if !body[key].as_str().is_some_and(|id| self.has_environment(id)) {
                return refusal(422, format!("{key} is not an environment"));
            }
        }
        if body["source_env_id"] == body["target_env_id"] {
            return refusal(400, "source and target are the same environment");
        }
        (202, json!({"job_id": self.next("migration"), "status": "queued"}))
    }

    fn start_maintenance(&mut self, body: &Value) -> Answer {
        let Some(environment) = body["environment_id"].as_str().map(str::to_owned) else {
            return refusal(422, "environment_id is required");
        };
        if !self.has_environment(&environment) {
            return refusal(404, format!("environment `{environment}` does not exist"));
        }
        let id = self.next("maint");
        let event = json!({"id": id, "environment_id": environment, "message": body["message"], "duration_minutes": body["duration_minutes"], "active": true});
        self.maintenance.push(event.clone());
        (201, event)
    }

    fn end_maintenance(&mut self, id: &str) -> Answer {
        let Some(event) = self.maintenance.iter_mut().find(|event| event["id"] == id) else {
            return refusal(404, format!("maintenance `{id}` does not exist"));
        };
        event["active"] = json!(false);
        (200, event.clone())
    }

    fn has_environment(&self, id: &str) -> bool {
        self.environments.iter().any(|environment| environment["id"] == id)
    }

    fn with_dashboard(&self, id: &str, answer: impl FnOnce(&Value) -> Answer) -> Answer {
        match self.dashboards.iter().find(|dashboard| is_numbered(dashboard, id)) {
            Some(dashboard) => answer(dashboard),
            None => refusal(404, format!("dashboard {id} does not exist")),
        }
    }

    fn with_branches(
        &mut self,
        id: &str,
        answer: impl FnOnce(&mut Vec<Value>) -> Answer,
    ) -> Answer {
        if !self.dashboards.iter().any(|dashboard| is_numbered(dashboard, id)) {
            return refusal(404, format!("dashboard {id} does not exist"));
        }
        let main = || vec![json!({"name": "main", "from_branch": null, "last_commit": "a1b2c3d"})];
        answer(self.branches.entry(id.to_owned()).or_insert_with(main))
    }
}

fn list(items: &[Value]) -> Value {
    json!({"items": items, "total": items.len()})
}

fn is_numbered(dashboard: &Value, id: &str) -> bool {
    id.parse().is_ok_and(|id: u64| dashboard["id"] == id)
}
