//! `agentctl doctor`: gathers facts, applies rules, says what to change.
mod facts;
mod gather;
mod report;
mod rules;
mod secrets;
mod settings;

use shared::runtime::env::Env;

use crate::args::Doctor;
use crate::doctor::gather::Sources;
use crate::doctor::report::Severity;
use crate::doctor::settings::Settings;
use crate::view::{self, Format};
use crate::{Failure, Outcome, config};

pub async fn examine(env: Env, how: &Doctor, format: Format) -> Result<Outcome, Failure> {
    let sources = Sources {
        nats: config::nats(&env),
        database: config::database(&env),
        settings: Settings::load(&env, how),
        secrets: secrets::check_all(&env),
    };
    env.finish()?;
    let facts = gather::gather(sources).await;
    let mut report = rules::apply(&facts);
    let is_fine = report.findings.iter().all(|finding| finding.severity == Severity::Ok);
    if !how.verbose {
        report.findings.retain(|finding| finding.severity != Severity::Ok);
    }
    view::print(&report, format);
    Ok(if is_fine { Outcome::Fine } else { Outcome::NotFine })
}

#[cfg(test)]
mod tests;
