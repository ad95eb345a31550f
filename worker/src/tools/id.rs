//! Types that arguments share.
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An id as the backend shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Id(#[schemars(length(min = 1, max = 128))] String);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim())
    }
}

impl Id {
    /// An id that can be part of a path.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let id = self.0.trim();
        if matches!(id, "" | "." | "..") || id.chars().any(char::is_control) {
            return Err(format!("`{name}` is not an id"));
        }
        Ok(())
    }
}

pub fn check_all(ids: &[Id], name: &str) -> Result<(), String> {
    ids.iter().try_for_each(|id| id.check(name))
}

/// A text that people will read.
pub fn check_text(text: &str, name: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err(format!("`{name}` must not be blank")) } else { Ok(()) }
}
