//! What the doctor says: a line per finding.
use serde::Serialize;

use crate::view::View;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
    Ok,
}

#[derive(Debug, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub what: String,
    /// A variable, or a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub findings: Vec<Finding>,
}

impl Report {
    pub fn error(&mut self, what: impl Into<String>, change: impl Into<String>) {
        self.add(Severity::Error, what.into(), Some(change.into()));
    }

    pub fn warning(&mut self, what: impl Into<String>, change: impl Into<String>) {
        self.add(Severity::Warning, what.into(), Some(change.into()));
    }

    pub fn ok(&mut self, what: impl Into<String>) {
        self.add(Severity::Ok, what.into(), None);
    }

    fn add(&mut self, severity: Severity, what: String, change: Option<String>) {
        self.findings.push(Finding { severity, what, change });
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

impl View for Report {
    fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warn",
                Severity::Ok => "ok",
            };
            let line = match &finding.change {
                Some(change) => format!("{severity:<5}  {}; {change}", finding.what),
                None => format!("{severity:<5}  {}", finding.what),
            };
            text.push_str(&line.split('\n').collect::<Vec<_>>().join(" "));
            text.push('\n');
        }
        match (self.count(Severity::Error), self.count(Severity::Warning)) {
            (0, 0) => text.push_str("nothing to change\n"),
            (errors, warnings) => {
                text.push_str(&format!("errors: {errors}, warnings: {warnings}\n"));
            }
        }
        text
    }
}
