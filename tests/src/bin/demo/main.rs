//! The whole system on this machine: NATS, Postgres, backend, model, two workers, one gateway, the page.
//!
//! `make demo` runs it. Servers named in the environment (`NATS_URL`, `DATABASE_URL`, `BACKEND_URL`,
//! `OPENAI_BASE_URL`) are used; the others are started on loopback ports (`GATEWAY_PORT` and so on, see
//! [`ports`]). Data stays in `.demo/`. Ctrl-C stops everything.
#![expect(clippy::disallowed_methods, reason = "tasks of the demo end with its process")]
mod fleet;
mod notes;
mod page;
mod ports;

use std::process::ExitCode;

use tests::place;

#[tokio::main]
async fn main() -> ExitCode {
    let home = place::repository().join(".demo");
    if let Err(problem) = std::fs::create_dir_all(&home) {
        eprintln!("demo: {} can't be made: {problem}", home.display());
        return ExitCode::FAILURE;
    }
    let lock = std::fs::File::create(home.join("lock"));
    if lock.as_ref().is_ok_and(|lock| lock.try_lock().is_err()) {
        eprintln!("demo: another demo runs in {}; stop it first", home.display());
        return ExitCode::FAILURE;
    }
    let stop = tokio::spawn(place::until_told_to_stop());
    let starting = fleet::Fleet::start(&home);
    let started = tokio::select! {
        started = starting => started,
        _ = place::until_told_to_stop() => return ExitCode::SUCCESS,
    };
    let mut fleet = match started {
        Ok(fleet) => fleet,
        Err(problem) => {
            eprintln!("\ndemo: {problem}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(problem) = notes::write(&home, &fleet) {
        eprintln!("demo: {problem}");
    }
    notes::print(&fleet);
    let ended = tokio::select! {
        _ = stop => None,
        ended = fleet.watch() => Some(ended),
    };
    println!("\nstopping");
    fleet.stop();
    match ended {
        None => ExitCode::SUCCESS,
        Some(problem) => {
            eprintln!("demo: {problem}");
            ExitCode::FAILURE
        }
    }
}
