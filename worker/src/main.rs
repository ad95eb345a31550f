//! `worker`: config, connect, verify, consume, drain.
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use shared::bus::topology;
use shared::runtime::env::Env;
use shared::runtime::shutdown::Shutdown;
use shared::runtime::telemetry;
use shared::store::{migrate, turns};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use worker::app::App;
use worker::config::Config;
use worker::{consumer, health, llm};

/// `EX_USAGE` of sysexits.
const BAD_CONFIGURATION: u8 = 64;
/// After the drain: what is still open is closed by the exit.
const EXIT_GRACE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = match Config::load(Env::process()) {
        Ok(config) => config,
        Err(problems) => {
            for problem in problems {
                eprintln!("worker: {problem}");
            }
            return ExitCode::from(BAD_CONFIGURATION);
        }
    };
    telemetry::init("worker");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result =
        runtime.context("starting the runtime").and_then(|runtime| runtime.block_on(run(config)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = format!("{error:#}"), "The worker stops");
            ExitCode::FAILURE
        }
    }
}

async fn run(config: Config) -> anyhow::Result<()> {
    let shutdown = Shutdown::new();
    shutdown.on_signals();
    let (name, slots, timing) = (config.name.clone(), config.slots, config.timing);
    let health_listen = config.health_listen.clone();
    let app = App::connect(config, shutdown.clone()).await?;
    verify(&app).await?;
    warm(&app).await;
    if let Some(address) = health_listen {
        health::serve(app.clone(), address).await?;
    }
    info!(worker.name = %name, worker.slots = slots, "Worker {name} is ready with {slots} slots");
    let hand_over = CancellationToken::new();
    consumer::run(app.clone(), hand_over.clone()).await;
    drain(&app, &hand_over, timing.drain).await;
    info!("Worker {name} has stopped");
    Ok(())
}

/// What would make the first turns slow is done before the worker is ready.
async fn warm(app: &App) {
    llm::tokens::warm();
    let connections = app.config.slots.min(app.config.database_pool as usize);
    if let Err(error) = turns::warm(&app.pool, connections).await {
        warn!(error = format!("{error:#}"), "Database connections could not be warmed up");
    }
}

/// Streams and tables are made by the migration step; here they are only compared.
async fn verify(app: &App) -> anyhow::Result<()> {
    let options = topology::Options {
        replicas: app.config.nats_replicas,
        ack_wait: app.config.timing.ack_wait,
    };
    let stop = app.shutdown.token();
    loop {
        let problem = match topology::verify(&app.bus, &options).await {
            Ok(mismatches) if mismatches.is_empty() => match migrate::verify_hot(&app.pool).await {
                Ok(()) => return Ok(()),
                Err(error) => format!("{error:#}"),
            },
            Ok(mismatches) => {
                mismatches.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
            Err(error) => format!("{error:#}"),
        };
        warn!(problem, "Not ready: run `gateway migrate`");
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            () = stop.cancelled() => anyhow::bail!("stopped before it was ready: {problem}"),
        }
    }
}

async fn drain(app: &App, hand_over: &CancellationToken, grace: Duration) {
    info!("Draining: no new jobs");
    if !app.shutdown.wait(grace).await {
        warn!("Turns are still running after the grace; giving their jobs back");
        hand_over.cancel();
        app.shutdown.wait(EXIT_GRACE).await;
    }
    app.bus.close().await;
}
