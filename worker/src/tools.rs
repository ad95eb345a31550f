//! The tools: one type each, whose doc comments are what the model reads and whose fields are the arguments' schema.
//!
//! [`schema`] derives and checks schemas, [`id`] holds the types that arguments share; every other module is an area.
pub mod capabilities;
pub mod dashboards;
pub mod environments;
pub mod git;
pub mod health;
pub mod id;
pub mod maintenance;
pub mod migration;
pub mod schema;
pub mod tasks;

use agent::approval;
use agent::input::{Arguments, ToolOutcome};
use agent::tool::{SideEffect, ToolSpec};
use contract::error_code::ErrorCode;
use contract::job::Locale;
use contract::secret::UserToken;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use shared::runtime::env::Problem;
use shared::runtime::trace::Trace;

use crate::backend::paths::Route;
use crate::backend::{Backend, Identity, Request};

/// Longer arguments are refused: they must fit into an event.
const ARGUMENTS_BYTES: usize = 128 * 1024;

/// What a tool is: its arguments are the type's fields.
pub trait Tool: DeserializeOwned + JsonSchema {
    const NAME: &'static str;
    const AREA: Area;
    /// What it does, for people; English and Russian.
    const TITLE: (&'static str, &'static str);
    const EFFECT: SideEffect;

    /// What a schema can't say.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn plan(self) -> Plan;
}

/// What a call does.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    Backend(Request),
    /// Answered here, from the registry.
    Capabilities {
        area: Option<Area>,
    },
}

impl Plan {
    pub fn get(route: Route) -> Self {
        Self::Backend(Request { route, path: Vec::new(), query: Vec::new(), body: None })
    }

    pub fn post(route: Route, body: Value) -> Self {
        Self::Backend(Request { route, path: Vec::new(), query: Vec::new(), body: Some(body) })
    }

    /// A placeholder of the path.
    #[must_use]
    pub fn at(mut self, name: &'static str, value: impl ToString) -> Self {
        if let Self::Backend(request) = &mut self {
            request.path.push((name, value.to_string()));
        }
        self
    }

    /// A query parameter, if there is a value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        if let (Self::Backend(request), Some(value)) = (&mut self, value) {
            request.query.push((name, value.to_string()));
        }
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    Dashboards,
    Git,
    Migration,
    Health,
    Maintenance,
    Environments,
    Tasks,
    Help,
}

/// What a call needs besides its arguments.
#[derive(Clone, Copy)]
pub struct CallContext<'a> {
    pub backend: &'a Backend,
    /// The user's own token; without one every call to the backend ends as if it had expired.
    pub token: Option<&'a UserToken>,
    pub idempotency_key: &'a str,
    pub trace: &'a Trace,
    pub locale: Locale,
}

/// Every tool there is.
pub struct Registry {
    specs: Vec<ToolSpec>,
    entries: Vec<Entry>,
    confirm: Vec<String>,
}

struct Entry {
    name: &'static str,
    area: Area,
    title: (&'static str, &'static str),
    read: fn(Value) -> Result<Plan, String>,
}

impl Registry {
    /// `confirm` are tools that ask besides the three that always do; of `idempotent` ones the backend makes a call
    /// once per key. A name that is no tool's is an error, and so is a promise about a tool that only reads.
    pub fn new(confirm: &[String], idempotent: &[String]) -> Result<Self, Vec<Problem>> {
        let mut registry =
            Self { specs: Vec::new(), entries: Vec::new(), confirm: confirm.to_vec() };
        registry.add_all();
        let mut problems = Vec::new();
        let mut report = |list: &str, problem: String| {
            problems.push(Problem { name: list.to_owned(), problem });
        };
        for name in confirm {
            if registry.spec(name).is_none() {
                report("CONFIRM_TOOLS", format!("there is no tool `{name}`"));
            }
        }
        for name in idempotent {
            let spec = registry.specs.iter_mut().find(|spec| spec.name == *name);
            match spec.as_ref().map(|spec| spec.effect) {
                None => report("IDEMPOTENT_TOOLS", format!("there is no tool `{name}`")),
                Some(SideEffect::Read) => {
                    report("IDEMPOTENT_TOOLS", format!("`{name}` changes nothing: leave it out"));
                }
                Some(SideEffect::Once | SideEffect::Idempotent) => {}
            }
            if let Some(spec) = spec {
                spec.effect = SideEffect::Idempotent;
            }
        }
        if problems.is_empty() { Ok(registry) } else { Err(problems) }
    }

    fn add_all(&mut self) {
        self.add::<capabilities::ShowCapabilities>();
        self.add::<environments::ListEnvironments>();
        self.add::<dashboards::SearchDashboards>();
        self.add::<dashboards::GetDashboard>();
        self.add::<health::GetHealthSummary>();
        self.add::<tasks::ListTasks>();
        self.add::<tasks::GetTaskStatus>();
        self.add::<git::ListBranches>();
        self.add::<git::CreateBranch>();
        self.add::<git::CommitChanges>();
        self.add::<git::DeployDashboard>();
        self.add::<migration::ExecuteMigration>();
        self.add::<tasks::RunValidation>();
        self.add::<tasks::RunBackup>();
        self.add::<maintenance::ListMaintenanceEvents>();
        self.add::<maintenance::StartMaintenance>();
        self.add::<maintenance::EndMaintenance>();
    }

    fn add<T: Tool>(&mut self) {
        let (description, parameters) = schema::of::<T>();
        let name = T::NAME.to_owned();
        self.specs.push(ToolSpec { name, description, parameters, effect: T::EFFECT });
        self.entries.push(Entry { name: T::NAME, area: T::AREA, title: T::TITLE, read: read::<T> });
    }

    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    pub fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.specs.iter().find(|spec| spec.name == name)
    }

    /// A tool's name, for labels of which there are few.
    pub fn known_name(&self, name: &str) -> &'static str {
        self.entry(name).map_or("unknown", |entry| entry.name)
    }

    /// Whether a call of this tool waits for the user.
    pub fn danger(&self, name: &str) -> bool {
        approval::is_dangerous(name, &self.confirm)
    }

    /// A call as the model wrote it. Nothing is guessed: what doesn't fit is refused, and the reason is for the model.
    pub fn check(&self, name: &str, raw: &str) -> Arguments {
        let text = raw.trim();
        let parsed = if text.is_empty() {
            Ok(Value::Object(Map::new()))
        } else {
            serde_json::from_str(text)
        };
        let Ok(value) = parsed else { return Arguments::Unparsable { raw_len: raw.len() } };
        let empty = || Value::Object(Map::new());
        if raw.len() > ARGUMENTS_BYTES {
            let problem = format!("the arguments have more than {ARGUMENTS_BYTES} bytes");
            return Arguments::Invalid { value: empty(), problem };
        }
        let (Some(spec), Some(entry)) = (self.spec(name), self.entry(name)) else {
            return Arguments::UnknownTool { value };
        };
        let fitted = schema::fit(&spec.parameters, value.clone());
        match fitted.and_then(|fitted| (entry.read)(fitted.clone()).map(|_| fitted)) {
            Ok(value) => {
                Arguments::Valid { value, danger: self.danger(name), side_effect: spec.effect }
            }
            Err(problem) => Arguments::Invalid { value, problem },
        }
    }

    /// Makes a call. The arguments are checked once more: they may come from an older version's checkpoint.
    pub async fn call(
        &self,
        context: &CallContext<'_>,
        name: &str,
        arguments: &Value,
    ) -> ToolOutcome {
        let (Some(spec), Some(entry)) = (self.spec(name), self.entry(name)) else {
            return invalid(format!("there is no tool `{name}`"));
        };
        let plan = schema::fit(&spec.parameters, arguments.clone())
            .and_then(|fitted| (entry.read)(fitted));
        match plan {
            Err(problem) => invalid(problem),
            Ok(Plan::Capabilities { area }) => {
                ToolOutcome::Ok(self.capabilities(context.locale, area))
            }
            Ok(Plan::Backend(request)) => {
                let identity = Identity {
                    token: context.token,
                    idempotency_key: context.idempotency_key,
                    trace: context.trace,
                    locale: context.locale,
                };
                context.backend.call(&identity, &request, spec.effect).await
            }
        }
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

fn read<T: Tool>(arguments: Value) -> Result<Plan, String> {
    let tool: T = serde_json::from_value(arguments).map_err(|error| error.to_string())?;
    tool.check()?;
    Ok(tool.plan())
}

fn invalid(text: String) -> ToolOutcome {
    ToolOutcome::Failed { code: ErrorCode::InvalidArguments, text }
}

#[cfg(test)]
mod tests;
