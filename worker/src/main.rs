//! `worker`: config, connect, verify, consume, drain.
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use shared::bus::topology;
use shared::runtime::env::{Env, Problem};
use shared::runtime::probe;
use shared::runtime::shutdown::Shutdown;
use shared::runtime::telemetry;
use shared::store::{migrate, turns};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use worker::app::App;
use worker::attachments;
use worker::config::Config;
use worker::operator::Operator;
use worker::tools::Registry;
use worker::{consumer, health, llm, metrics};

/// `EX_USAGE` of sysexits.
const BAD_CONFIGURATION: u8 = 64;
/// After the hand-over: calls settle, jobs are given back. What is still open then is closed by the exit.
const EXIT_GRACE: Duration = Duration::from_secs(8);
/// What the runtime can't stop, e.g. a name that is being looked up, is left behind.
const RUNTIME_GRACE: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    // Before anything else: what the child has done until then, its limits would not cover.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == attachments::SUBCOMMAND) {
        return documents::child::main();
    }
    if std::env::args().nth(1).as_deref() == Some("probe") {
        return probed();
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (config, tools) = match load() {
        Ok(loaded) => loaded,
        Err(problems) => {
            for problem in problems {
                eprintln!("worker: {problem}");
            }
            return ExitCode::from(BAD_CONFIGURATION);
        }
    };
    let telemetry = telemetry::init("worker");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = runtime.context("starting the runtime").and_then(|runtime| {
        let result = runtime.block_on(run(config, tools));
        runtime.shutdown_timeout(RUNTIME_GRACE);
        result
    });
    let code = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = format!("{error:#}"), "The worker stops");
            ExitCode::FAILURE
        }
    };
    telemetry.finish();
    code
}

/// `worker probe`: 0 if the worker of this container is ready, for health checks.
fn probed() -> ExitCode {
    let listen = Env::process().optional("WORKER_HEALTH_LISTEN");
    match listen.context("WORKER_HEALTH_LISTEN is not set").and_then(|it| probe::ready(&it)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn load() -> Result<(Config, Registry), Vec<Problem>> {
    let config = Config::load(Env::process())?;
    let tools = Registry::new(&config.confirm_tools, &config.idempotent_tools)?;
    Ok((config, tools))
}

async fn run(config: Config, tools: Registry) -> anyhow::Result<()> {
    let shutdown = Shutdown::new();
    shutdown.on_signals();
    let (name, slots, timing) = (config.name.clone(), config.slots, config.timing);
    let stop = shutdown.token();
    let Some((app, mut operator)) =
        stop.run_until_cancelled(Box::pin(start(config, tools, shutdown))).await.transpose()?
    else {
        info!("Worker {name} was stopped before it was ready");
        return Ok(());
    };
    info!(worker.name = %name, worker.slots = slots, "Worker {name} is ready with {slots} slots");
    let hand_over = CancellationToken::new();
    let (watching, stopping) = (app.clone(), app.shutdown.token());
    app.shutdown.spawn("database watch", async move {
        let _ = stopping.run_until_cancelled(watching.doubt.watch(&watching.pool)).await;
    });
    app.shutdown.spawn("consumer", consumer::run(app.clone(), hand_over.clone()));
    let work = async {
        stop.cancelled().await;
        drain(&app, &hand_over, timing.drain).await
    };
    let handed_over = operator.during(work).await;
    operator.farewell(handed_over).await;
    app.bus.close().await;
    info!("Worker {name} has stopped");
    Ok(())
}

async fn start(
    config: Config,
    tools: Registry,
    shutdown: Shutdown,
) -> anyhow::Result<(App, Operator)> {
    let health_listen = config.health_listen.clone();
    let app = App::connect(config, tools, shutdown).await?;
    metrics::register(&app);
    verify(&app).await;
    warm(&app).await;
    let operator = Operator::listen(&app).await;
    if let Some(address) = health_listen {
        health::serve(app.clone(), address).await?;
    }
    Ok((app, operator))
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
async fn verify(app: &App) {
    let options = topology::Options {
        replicas: app.config.nats_replicas,
        ack_wait: app.config.timing.ack_wait,
    };
    loop {
        let problem = match topology::verify(&app.bus, &options).await {
            Ok(mismatches) if mismatches.is_empty() => match migrate::verify_hot(&app.pool).await {
                Ok(()) => return,
                Err(error) => format!("{error:#}"),
            },
            Ok(mismatches) => {
                mismatches.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
            Err(error) => format!("{error:#}"),
        };
        warn!(problem, "Not ready: run `gateway migrate`");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// How many jobs were given back. A further signal cuts each of the two waits short.
async fn drain(app: &App, hand_over: &CancellationToken, grace: Duration) -> u64 {
    info!("Draining: no new jobs");
    if app.shutdown.wait(grace).await {
        return 0;
    }
    warn!("Turns are still running; giving their jobs back");
    let running = app.occupancy.count();
    hand_over.cancel();
    app.shutdown.wait(EXIT_GRACE).await;
    running
}
