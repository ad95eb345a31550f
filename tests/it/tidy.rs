//! House rules about single files. Each is shown to catch a breach, then held against the repository.
use crate::house::{Source, is_allowed, is_caught, nobody_breaks};

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 70;
/// Functions that are one table: a line per row.
const TABLES: [&str; 1] = ["shared/contract/src/error_code.rs"];

fn is_rust(source: &Source) -> bool {
    source.path.ends_with(".rs")
}

/// Breaches of lines that contain one of `words`.
fn lines_with(source: &Source, words: &[&str], rule: &str) -> Vec<String> {
    let guilty =
        source.code().into_iter().filter(|(_, line)| words.iter().any(|word| line.contains(word)));
    guilty
        .map(|(number, line)| format!("{}:{number}: {rule}: {}", source.path, line.trim()))
        .collect()
}

fn sizes(source: &Source) -> Vec<String> {
    if !is_rust(source) {
        return Vec::new();
    }
    let lines = source.text.lines().count();
    let mut breaches = Vec::new();
    if lines > FILE_LINES {
        breaches.push(format!("{}: {lines} lines, at most {FILE_LINES}", source.path));
    }
    for (start, length) in functions(&source.text) {
        if length > FUNCTION_LINES && !TABLES.contains(&source.path.as_str()) {
            breaches.push(format!(
                "{}:{start}: a function of {length} lines, at most {FUNCTION_LINES}",
                source.path
            ));
        }
    }
    breaches
}

/// First line and length of every function, by the indentation that rustfmt gives.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let head = ["pub ", "pub(crate) ", "pub(super) ", "const ", "async "]
            .iter()
            .fold(code, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
        if !head.starts_with("fn ") {
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        let end = lines[index..]
            .iter()
            .position(|line| *line == format!("{indent}}}") || line.ends_with(';'));
        if let Some(end) = end.filter(|end| !lines[index + end].ends_with(';')) {
            found.push((index + 1, end + 1));
        } else if let Some(end) =
            lines[index..].iter().position(|line| *line == format!("{indent}}}"))
        {
            let body_opens = lines[index..index + end].iter().any(|line| line.ends_with('{'));
            if body_opens {
                found.push((index + 1, end + 1));
            }
        }
    }
    found
}

#[test]
fn files_and_functions_stay_small() {
    is_caught(sizes, "worker/src/a.rs", &"// line\n".repeat(501));
    let long = format!("//! x\nfn f() {{\n{}}}\n", "    g();\n".repeat(70));
    is_caught(sizes, "worker/src/a.rs", &long);
    is_allowed(sizes, "worker/src/a.rs", "//! x\nfn f() {\n    g();\n}\n");
    nobody_breaks(sizes);
}

fn first_line(source: &Source) -> Vec<String> {
    // A file called `tests.rs` says it with its name.
    let unit_tests = source.is_test() && !source.is_under("tests/");
    if is_rust(source) && !unit_tests && !source.text.starts_with("//! ") {
        return vec![format!(
            "{}:1: the first line says with `//!` what the file is for",
            source.path
        )];
    }
    Vec::new()
}

#[test]
fn every_file_says_what_it_is_for() {
    is_caught(first_line, "worker/src/a.rs", "use std::fmt;\n");
    nobody_breaks(first_line);
}

fn names(source: &Source) -> Vec<String> {
    let name = source.path.rsplit('/').next().unwrap_or_default();
    let banned = ["mod.rs", "utils.rs", "util.rs", "helpers.rs", "common.rs", "misc.rs"];
    if banned.contains(&name) {
        return vec![format!("{}: no file is called {name}", source.path)];
    }
    let migration = name.ends_with(".sql") && source.is_under("migrations/");
    let numbered = name.len() > 5
        && name[..4].bytes().all(|b| b.is_ascii_digit())
        && name[4..].starts_with('_');
    if migration && !numbered {
        return vec![format!("{}: a migration is called NNNN_name.sql", source.path)];
    }
    Vec::new()
}

#[test]
fn file_names_say_something() {
    is_caught(names, "worker/src/utils.rs", "");
    is_caught(names, "worker/src/tools/mod.rs", "");
    is_caught(names, "migrations/first.sql", "");
    is_allowed(names, "migrations/0001_first.sql", "");
    nobody_breaks(names);
}

fn subjects(source: &Source) -> Vec<String> {
    let home = source.path == "shared/contract/src/subject.rs";
    if !is_rust(source) || home || source.is_test() {
        return Vec::new();
    }
    lines_with(
        source,
        &["\"agent.v1", "\"agent.", "\"AGENT_"],
        "NATS names live in contract/src/subject.rs",
    )
}

#[test]
fn nats_names_have_one_home() {
    is_caught(subjects, "worker/src/a.rs", "let s = format!(\"agent.v1.ev.{id}\");\n");
    is_caught(subjects, "shared/src/bus/jobs.rs", "const S: &str = \"AGENT_JOBS\";\n");
    is_allowed(subjects, "shared/contract/src/subject.rs", "format!(\"agent.v1.ev.{id}\")\n");
    nobody_breaks(subjects);
}

fn sql(source: &Source) -> Vec<String> {
    if !is_rust(source) || source.is_under("shared/src/store") || source.is_test() {
        return Vec::new();
    }
    let words = [
        "sqlx::query",
        "tokio_postgres::",
        "deadpool_postgres::",
        "\"SELECT ",
        "\"INSERT ",
        "\"UPDATE ",
        "\"DELETE ",
    ];
    lines_with(source, &words, "SQL lives in shared/src/store")
}

#[test]
fn sql_has_one_home() {
    is_caught(sql, "gateway/src/a.rs", "let rows = sqlx::query(\"x\");\n");
    is_caught(sql, "worker/src/a.rs", "let text = \"SELECT 1\";\n");
    nobody_breaks(sql);
}

fn variables(source: &Source) -> Vec<String> {
    let homes = ["shared/src/runtime/env.rs", "tests/src/place.rs", "tests/it/tidy.rs"];
    if !is_rust(source) || homes.contains(&source.path.as_str()) {
        return Vec::new();
    }
    lines_with(
        source,
        &["env::var(", "env::var_os(", "env::vars("],
        "variables are read in runtime/env.rs",
    )
}

#[test]
fn variables_are_read_in_one_place() {
    is_caught(variables, "worker/src/a.rs", "let home = std::env::var(\"HOME\");\n");
    nobody_breaks(variables);
}

fn spawning(source: &Source) -> Vec<String> {
    if !is_rust(source) || source.path == "shared/src/runtime/shutdown.rs" || source.is_test() {
        return Vec::new();
    }
    let words = ["tokio::spawn(", "task::spawn(", "thread::spawn("];
    lines_with(source, &words, "spawning goes through runtime/shutdown.rs")
}

#[test]
fn tasks_are_spawned_in_one_place() {
    is_caught(spawning, "gateway/src/a.rs", "tokio::spawn(async {});\n");
    nobody_breaks(spawning);
}

fn identity_headers(source: &Source) -> Vec<String> {
    let home = source.path == "worker/src/backend.rs" || source.is_under("worker/src/backend/");
    if !is_rust(source) || home || source.is_test() {
        return Vec::new();
    }
    let words = ["X-User-JWT", "x-user-jwt", "Idempotency-Key", "idempotency-key"];
    lines_with(source, &words, "identity headers live in worker/src/backend")
}

#[test]
fn identity_headers_have_one_home() {
    is_caught(
        identity_headers,
        "worker/src/tools/deploy.rs",
        "request.header(\"X-User-JWT\", token)\n",
    );
    nobody_breaks(identity_headers);
}

fn hatches(source: &Source) -> Vec<String> {
    if !is_rust(source) {
        return Vec::new();
    }
    let allow = ["#[allow", "(", "#![allow", "("];
    let words = [allow[0..2].concat(), allow[2..4].concat()];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    lines_with(source, &words, "use #[expect(lint, reason)]")
}

#[test]
fn lints_are_expected_not_allowed() {
    is_caught(hatches, "worker/src/a.rs", &["#[allow", "(dead_code)]\n"].concat());
    nobody_breaks(hatches);
}

fn reexports(source: &Source) -> Vec<String> {
    if !is_rust(source) {
        return Vec::new();
    }
    let words = [["pub ", "use "].concat()];
    lines_with(source, &[words[0].as_str()], "one path per thing: no re-exports")
}

#[test]
fn nothing_is_reexported() {
    is_caught(reexports, "worker/src/a.rs", &["pub ", "use b::C;\n"].concat());
    nobody_breaks(reexports);
}

fn test_hygiene(source: &Source) -> Vec<String> {
    if !is_rust(source) {
        return Vec::new();
    }
    let attribute = |name: &str| ["#[", name].concat();
    let words = [attribute("ignore"), attribute("should_panic")];
    let guilty = source
        .text
        .lines()
        .enumerate()
        .filter(|(_, line)| words.iter().any(|word| line.trim().starts_with(word.as_str())));
    guilty.map(|(index, line)| format!("{}:{}: {line}", source.path, index + 1)).collect()
}

#[test]
fn no_test_is_ignored_or_should_panic() {
    is_caught(test_hygiene, "worker/src/a.rs", &["#[", "ignore]\nfn f() {}\n"].concat());
    nobody_breaks(test_hygiene);
}
