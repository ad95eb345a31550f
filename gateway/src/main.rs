//! `gateway` serves; `gateway migrate` prepares NATS and Postgres for it.
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use gateway::app::App;
use gateway::config::{Config, MigrateConfig};
use gateway::metrics;
use shared::bus::{connect, topology};
use shared::runtime::env::{Env, Problem};
use shared::runtime::shutdown::Shutdown;
use shared::runtime::{probe, telemetry, tls};
use shared::store::migrate;
use tokio::net::TcpListener;

/// sysexits.h: the configuration can't be used.
const EXIT_USAGE: u8 = 64;
/// Where a gateway listens if nothing else is said.
const LISTEN: &str = "127.0.0.1:8080";

#[derive(Parser)]
#[command(name = "gateway", about = "The HTTP edge. Configured by environment variables.")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve requests (the default).
    Serve,
    /// Apply SQL migrations and declare the NATS streams; safe to repeat and to run several times at once.
    Migrate,
    /// Exit with 0 if a gateway is ready, the one of this container if none is named: for health checks.
    Probe {
        /// host:port
        address: Option<String>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    tls::install_provider();
    let telemetry = telemetry::init("gateway");
    let done = match Arguments::parse().command.unwrap_or(Command::Serve) {
        Command::Serve => match Config::load(Env::process()) {
            Ok(config) => serve(config).await,
            Err(problems) => return refuse(&problems),
        },
        Command::Probe { address } => {
            let own = || Env::process().string("GATEWAY_LISTEN", LISTEN);
            probe::ready(&address.unwrap_or_else(own))
        }
        Command::Migrate => match MigrateConfig::load(Env::process()) {
            Ok(config) => apply(config).await,
            Err(problems) => return refuse(&problems),
        },
    };
    let code = match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("Gave up: {error:#}");
            ExitCode::FAILURE
        }
    };
    let _ = tokio::task::spawn_blocking(|| telemetry.finish()).await;
    code
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let listen = config.listen;
    let app = App::connect(config, Shutdown::new()).await?;
    metrics::register(&app);
    app.stopping.on_signals();
    let listener =
        TcpListener::bind(listen).await.with_context(|| format!("listening on {listen}"))?;
    tracing::info!(address = %listener.local_addr()?, "Serving on {}", listener.local_addr()?);
    gateway::serve(app, listener).await;
    Ok(())
}

async fn apply(config: MigrateConfig) -> anyhow::Result<()> {
    migrate::run(&config.database_url).await.context("migrating the database")?;
    let bus = connect::connect(config.nats).await.context("connecting to NATS")?;
    topology::apply(&bus, &config.topology).await.context("declaring the NATS streams")?;
    tracing::info!("Database and NATS are ready");
    Ok(())
}

/// Says everything that is wrong at once, on stderr and in the log.
fn refuse(problems: &[Problem]) -> ExitCode {
    for problem in problems {
        tracing::error!(variable = problem.name, "Bad configuration: {problem}");
    }
    ExitCode::from(EXIT_USAGE)
}
