//! Typed environment variables; reports every bad one at once.
use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;

/// What is wrong with one variable. Never shows its value: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct Problem {
    pub name: String,
    pub problem: String,
}

type Lookup = Box<dyn Fn(&str) -> Option<String> + Send>;

/// A variable that is set to the empty string counts as not set. Any `NAME` may also come from the file that
/// `NAME_FILE` names, as orchestrators mount secrets.
pub struct Env {
    lookup: Lookup,
    problems: RefCell<Vec<Problem>>,
}

impl Env {
    /// The variables of this process.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads variables")]
    pub fn process() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String> + Send + 'static) -> Self {
        Self { lookup: Box::new(lookup), problems: RefCell::new(Vec::new()) }
    }

    pub fn string(&self, name: &str, default: &str) -> String {
        self.optional(name).unwrap_or_else(|| default.to_owned())
    }

    /// Gives an empty string, and a problem, when it is not set.
    pub fn required(&self, name: &str) -> String {
        self.optional(name).unwrap_or_else(|| {
            self.report(name, "is required");
            String::new()
        })
    }

    pub fn optional(&self, name: &str) -> Option<String> {
        let file = format!("{name}_FILE");
        match (self.value(name), self.value(&file)) {
            (Some(_), Some(_)) => {
                self.report(&file, format!("is set together with {name}"));
                None
            }
            (value, None) => value,
            (None, Some(path)) => match std::fs::read_to_string(path) {
                Ok(text) => some_text(&text),
                Err(error) => {
                    self.report(&file, format!("can't be read: {}", error.kind()));
                    None
                }
            },
        }
    }

    fn value(&self, name: &str) -> Option<String> {
        (self.lookup)(name).and_then(|value| some_text(&value))
    }

    pub fn secret(&self, name: &str) -> SecretString {
        SecretString::from(self.required(name))
    }

    pub fn optional_secret(&self, name: &str) -> Option<SecretString> {
        self.optional(name).map(SecretString::from)
    }

    pub fn number<T>(&self, name: &str, default: T) -> T
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        self.parsed(name).unwrap_or(default)
    }

    pub fn seconds(&self, name: &str, default: Duration) -> Duration {
        self.parsed(name).map_or(default, Duration::from_secs)
    }

    pub fn millis(&self, name: &str, default: Duration) -> Duration {
        self.parsed(name).map_or(default, Duration::from_millis)
    }

    /// `true`, `1`, `yes`, `on` and their opposites.
    pub fn switch(&self, name: &str, default: bool) -> bool {
        let Some(text) = self.optional(name) else { return default };
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => true,
            "false" | "0" | "no" | "off" => false,
            _ => {
                self.report(name, "must be true or false");
                default
            }
        }
    }

    /// Comma-separated; empty when not set.
    pub fn list(&self, name: &str) -> Vec<String> {
        let text = self.optional(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    /// A problem that the caller found in a value it got from here.
    pub fn report(&self, name: &str, problem: impl fmt::Display) {
        let problem = Problem { name: name.to_owned(), problem: problem.to_string() };
        self.problems.borrow_mut().push(problem);
    }

    /// Every problem seen so far, in the order of the questions.
    pub fn finish(self) -> Result<(), Vec<Problem>> {
        let problems = self.problems.into_inner();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn parsed<T>(&self, name: &str) -> Option<T>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        let text = self.optional(name)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.report(name, error);
                None
            }
        }
    }
}

fn some_text(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
