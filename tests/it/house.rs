//! What the house rules look at: every source file of the repository, or files a test makes up.
use std::path::Path;

use tests::place;

pub struct Source {
    /// Relative to the repository, with `/`.
    pub path: String,
    pub text: String,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    pub fn is_under(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }

    /// Tests may do what the rest may not.
    pub fn is_test(&self) -> bool {
        self.is_under("tests/") || self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// Lines with their numbers, comments left out, up to the tests at the end.
    pub fn code(&self) -> Vec<(usize, &str)> {
        let end = self.text.find("#[cfg(test)]").unwrap_or(self.text.len());
        let lines = self.text[..end].lines().enumerate().map(|(index, line)| (index + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//")).collect()
    }
}

/// Every Rust file and manifest.
pub fn sources() -> Vec<Source> {
    let root = place::repository();
    let mut found = Vec::new();
    for folder in ["shared", "gateway", "worker", "agentctl", "tests", "migrations"] {
        collect(&root, &root.join(folder), &mut found);
    }
    assert!(found.len() > 50, "the repository has more files than {}", found.len());
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "target" | "node_modules") {
                collect(root, &path, found);
            }
        } else if matches!(path.extension().and_then(|e| e.to_str()), Some("rs" | "toml" | "sql")) {
            let text = std::fs::read_to_string(&path).unwrap();
            let relative = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            found.push(Source::new(&relative, &text));
        }
    }
}

/// A rule names each breach as `path:line: what`.
pub type Rule = fn(&Source) -> Vec<String>;

#[track_caller]
pub fn nobody_breaks(rule: Rule) {
    let breaches: Vec<String> = sources().iter().flat_map(rule).collect();
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[track_caller]
pub fn is_caught(rule: Rule, path: &str, text: &str) {
    assert!(!rule(&Source::new(path, text)).is_empty(), "not caught in {path}: {text}");
}

#[track_caller]
pub fn is_allowed(rule: Rule, path: &str, text: &str) {
    let breaches = rule(&Source::new(path, text));
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}
