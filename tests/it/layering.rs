//! The arrows of the layout: which package and which module may use which.
use crate::house::{Source, is_allowed, is_caught, nobody_breaks, sources};

const OURS: [&str; 9] = [
    "contract",
    "shared",
    "gradio",
    "agent",
    "documents",
    "gateway",
    "worker",
    "agentctl",
    "tests",
];

/// Manifest, and the packages of ours that it may depend on.
const PACKAGES: [(&str, &[&str]); 9] = [
    ("shared/contract/Cargo.toml", &[]),
    ("gateway/gradio/Cargo.toml", &["contract"]),
    ("worker/agent/Cargo.toml", &["contract"]),
    ("worker/documents/Cargo.toml", &["contract"]),
    ("shared/Cargo.toml", &["contract"]),
    ("gateway/Cargo.toml", &["contract", "shared", "gradio"]),
    ("worker/Cargo.toml", &["contract", "shared", "agent", "documents"]),
    ("agentctl/Cargo.toml", &["contract", "shared"]),
    (
        "tests/Cargo.toml",
        &["contract", "shared", "gradio", "agent", "documents", "gateway", "worker"],
    ),
];

/// The pure packages may use these of other people's, and no more.
const PURE: [(&str, &[&str]); 3] = [
    (
        "shared/contract/Cargo.toml",
        &["serde", "serde_json", "thiserror", "uuid", "unicode-segmentation"],
    ),
    ("gateway/gradio/Cargo.toml", &["serde", "serde_json", "thiserror"]),
    ("worker/agent/Cargo.toml", &["serde", "serde_json", "thiserror"]),
];

/// Dependencies of a manifest; development ones left out.
fn dependencies(source: &Source) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in source.text.lines() {
        if line.starts_with('[') {
            inside = line.trim() == "[dependencies]";
        } else if inside && let Some((name, _)) = line.split_once(['.', '=', ' ']) {
            found.push(name.trim().to_owned());
        }
    }
    found
}

fn packages(source: &Source) -> Vec<String> {
    let Some((_, allowed)) = PACKAGES.iter().find(|(path, _)| *path == source.path) else {
        return Vec::new();
    };
    let pure = PURE.iter().find(|(path, _)| *path == source.path);
    let mut breaches = Vec::new();
    for name in dependencies(source) {
        let ours = OURS.contains(&name.as_str());
        if ours && !allowed.contains(&name.as_str()) {
            breaches.push(format!("{}: must not depend on {name}", source.path));
        }
        if !ours && pure.is_some_and(|(_, others)| !others.contains(&name.as_str())) {
            breaches.push(format!("{}: a pure package must not depend on {name}", source.path));
        }
    }
    breaches
}

#[test]
fn packages_point_one_way() {
    is_caught(packages, "worker/agent/Cargo.toml", "[dependencies]\ntokio.workspace = true\n");
    is_caught(packages, "gateway/Cargo.toml", "[dependencies]\nworker.workspace = true\n");
    is_caught(packages, "agentctl/Cargo.toml", "[dependencies]\nworker.workspace = true\n");
    is_caught(packages, "shared/Cargo.toml", "[dependencies]\nagent = { path = \"x\" }\n");
    is_allowed(
        packages,
        "worker/agent/Cargo.toml",
        "[dependencies]\nserde.workspace = true\n[dev-dependencies]\nexpect-test.workspace = true\n",
    );
    nobody_breaks(packages);
}

#[test]
fn every_package_is_known_here() {
    let manifests = sources().into_iter().filter(|source| source.path.ends_with("Cargo.toml"));
    for manifest in manifests {
        assert!(
            PACKAGES.iter().any(|(path, _)| *path == manifest.path),
            "{} has no arrows",
            manifest.path
        );
    }
}

/// A module (`foo.rs` and `foo/`), and the modules of its crate that it must not use.
const MODULES: [(&str, &[&str]); 20] = [
    ("shared/src/bus", &["store"]),
    ("shared/src/store", &["bus"]),
    ("shared/src/runtime", &["bus", "store"]),
    ("gateway/src/config", &["app", "http", "submissions"]),
    ("gateway/src/auth", &["http", "submissions"]),
    ("gateway/src/error", &["app", "http", "submissions", "auth"]),
    ("gateway/src/submissions", &["http"]),
    ("worker/src/config", &["app", "consumer", "job", "driver", "tools", "backend", "llm"]),
    ("worker/src/job", &["consumer", "operator"]),
    ("worker/src/driver", &["consumer", "job", "operator"]),
    ("worker/src/operator", &["consumer", "job", "driver", "tools", "backend", "llm"]),
    ("worker/src/context", &["consumer", "job", "driver"]),
    ("worker/src/tools", &["consumer", "job", "driver", "llm", "app"]),
    ("worker/src/backend", &["consumer", "job", "driver", "llm", "tools", "app"]),
    ("worker/src/llm", &["consumer", "job", "driver", "tools", "backend", "app"]),
    (
        "worker/src/documents",
        &["consumer", "job", "driver", "llm", "tools", "backend", "app", "config"],
    ),
    ("worker/src/lease", &["consumer", "job", "driver", "llm", "tools", "backend", "app"]),
    ("worker/src/doubt", &["consumer", "job", "driver", "llm", "tools", "backend", "app"]),
    // What the doctor finds follows from its facts alone.
    ("agentctl/src/doctor/rules", &["fleet", "config", "doctor::gather"]),
    ("worker/src/backoff", &["consumer", "job", "driver", "llm", "tools", "backend", "app"]),
];

fn modules(source: &Source) -> Vec<String> {
    let mut breaches = Vec::new();
    for (module, forbidden) in MODULES {
        let inside =
            source.path == format!("{module}.rs") || source.is_under(&format!("{module}/"));
        if !inside || source.is_test() {
            continue;
        }
        for (number, line) in source.code() {
            for name in forbidden {
                let path = format!("crate::{name}");
                let used = line.split(&path).skip(1).any(|rest| {
                    rest.starts_with([':', ';', ',', '}', ')', ' ', '>']) || rest.is_empty()
                });
                if used {
                    breaches
                        .push(format!("{}:{number}: {module} must not use {path}", source.path));
                }
            }
        }
    }
    breaches
}

#[test]
fn modules_point_one_way() {
    is_caught(modules, "shared/src/bus/jobs.rs", "use crate::store::lease;\n");
    is_caught(modules, "worker/src/tools/deploy.rs", "let x = crate::driver::run();\n");
    is_caught(modules, "gateway/src/auth.rs", "use crate::http::PUBLIC;\n");
    is_allowed(modules, "worker/src/tools/deploy.rs", "use crate::backend::Backend;\n");
    nobody_breaks(modules);
}

/// Pure packages know no clock, no randomness, no sockets, no tasks.
fn purity(source: &Source) -> Vec<String> {
    let pure = ["shared/contract/src/", "gateway/gradio/src/", "worker/agent/src/"];
    if !pure.iter().any(|folder| source.is_under(folder)) || source.is_test() {
        return Vec::new();
    }
    let words = [
        "async ",
        ".await",
        "SystemTime",
        "Instant::now",
        "new_v4",
        "now_v7",
        "std::env",
        "std::net",
        "std::fs",
        "std::thread",
    ];
    let guilty =
        source.code().into_iter().filter(|(_, line)| words.iter().any(|word| line.contains(word)));
    guilty
        .map(|(number, line)| format!("{}:{number}: not pure: {}", source.path, line.trim()))
        .collect()
}

#[test]
fn pure_packages_are_pure() {
    is_caught(purity, "worker/agent/src/run.rs", "let now = std::time::SystemTime::now();\n");
    is_caught(purity, "gateway/gradio/src/session.rs", "pub async fn f() {}\n");
    nobody_breaks(purity);
}
