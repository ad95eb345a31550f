//! The operator's tool, run as an operator runs it.
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::cluster::Settings;
use crate::place;

/// No command takes longer, whatever is down.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Agentctl {
    env: Settings,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub code: i32,
    pub out: String,
    /// What went wrong, on standard error.
    pub err: String,
}

impl Agentctl {
    /// With the services' variables.
    pub fn new(env: Settings) -> Self {
        Self { env }
    }

    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut env = self.env.clone();
        env.insert(name.to_owned(), value.to_owned());
        Self { env }
    }

    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut env = self.env.clone();
        env.remove(name);
        Self { env }
    }

    pub async fn run(&self, arguments: &[&str]) -> Answer {
        let mut command = Command::new(place::program("agentctl"));
        command.args(arguments).env_clear().envs(&self.env).stdin(Stdio::null());
        let running = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output =
            tokio::time::timeout(PATIENCE, running).await.expect("agentctl hangs").unwrap();
        Answer {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// What it answers in JSON; it must end well.
    pub async fn json(&self, arguments: &[&str]) -> Value {
        let answer = self.run(&[arguments, &["--json"]].concat()).await;
        assert_eq!(answer.code, 0, "{arguments:?}: {answer:?}");
        serde_json::from_str(&answer.out).unwrap_or_else(|e| panic!("{e}: {answer:?}"))
    }
}

impl Answer {
    /// It must have ended well.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        self.out
    }

    /// It must have failed with one line, which comes back.
    #[track_caller]
    pub fn refused(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (1, ""), "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        self.err.trim().to_owned()
    }
}
