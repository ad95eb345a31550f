//! The two connection pools, and the deadline of every statement.
mod tls;

use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::Context;
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, QueueMode, RecyclingMethod, Runtime, Timeouts,
};
use secrecy::{ExposeSecret, SecretString};
use sqlx::Executor;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row};

use crate::runtime::telemetry::metrics;
use crate::store::Error;

pub type RowPool = sqlx::PgPool;
pub type HotPool = deadpool_postgres::Pool;

/// What a connection is told once. A statement that waits for a lock longer than this meets a defect, not a queue.
const SESSION: &str = "SET TIME ZONE 'UTC'; SET statement_timeout = '10s'; SET lock_timeout = '5s'; \
    SET idle_in_transaction_session_timeout = '10s'";
/// Lists have optional filters: a plan made for the filters at hand beats one made for all.
const ROW_SESSION: &str = "SET plan_cache_mode = force_custom_plan";

/// Given to a connection before each use: a cancelled future may have left a transaction open. `BEGIN` first,
/// since the server logs a warning for a `ROLLBACK` without one. In an aborted transaction this fails, and
/// the connection is replaced.
const RESET: &str = "BEGIN; ROLLBACK";
const RESET_HOT: &str = "BEGIN; ROLLBACK; SELECT pg_advisory_unlock_all()";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than `statement_timeout`: only a network that has gone quiet gets this far.
const DEADLINE: Duration = Duration::from_secs(12);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
pub struct Config {
    pub url: SecretString,
    pub max_connections: u32,
    /// Shown in `pg_stat_activity`.
    pub application_name: String,
    /// How long a caller waits for a connection.
    pub acquire_timeout: Duration,
}

/// Opens no connection yet.
pub fn rows(config: &Config) -> anyhow::Result<RowPool> {
    let options = PgConnectOptions::from_str(config.url.expose_secret())
        .context("parsing the database URL")?;
    let pool = PgPoolOptions::new()
        .max_connections(config.max_connections)
        .acquire_timeout(config.acquire_timeout)
        .idle_timeout(Duration::from_secs(600))
        .test_before_acquire(false)
        .before_acquire(|connection, _| {
            Box::pin(async move {
                connection.execute(sqlx::raw_sql(RESET)).await?;
                Ok(true)
            })
        })
        .after_connect(|connection, _| {
            Box::pin(async move {
                connection.execute(sqlx::raw_sql(SESSION)).await?;
                connection.execute(sqlx::raw_sql(ROW_SESSION)).await?;
                Ok(())
            })
        })
        .connect_lazy_with(options.application_name(&config.application_name));
    Ok(pool)
}

/// Opens no connection yet. The process needs its TLS provider installed.
pub fn hot(config: &Config) -> anyhow::Result<HotPool> {
    let translated = tls::translate(config.url.expose_secret());
    let mut options =
        tokio_postgres::Config::from_str(&translated.url).context("parsing the database URL")?;
    options.application_name(&config.application_name);
    options.connect_timeout(CONNECT_TIMEOUT);
    options.keepalives_idle(KEEPALIVE_IDLE);
    options.tcp_user_timeout(DEADLINE);
    let manager = manager(options, translated.root_certificates.as_deref())?;
    HotPool::builder(manager)
        .max_size(
            usize::try_from(config.max_connections).context("reading the number of connections")?,
        )
        // The connection that was used last has its plans in its cache.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .timeouts(Timeouts {
            wait: Some(config.acquire_timeout),
            create: Some(CONNECT_TIMEOUT),
            recycle: Some(config.acquire_timeout),
        })
        .post_create(Hook::async_fn(|client, _| {
            Box::pin(async move { client.batch_execute(SESSION).await.map_err(HookError::Backend) })
        }))
        .build()
        .context("building the connection pool")
}

fn manager(
    options: tokio_postgres::Config,
    root_certificates: Option<&str>,
) -> anyhow::Result<Manager> {
    let recycling =
        ManagerConfig { recycling_method: RecyclingMethod::Custom(RESET_HOT.to_owned()) };
    let mode = options.get_ssl_mode();
    if mode == SslMode::Disable {
        return Ok(Manager::from_config(options, NoTls, recycling));
    }
    match tls::connector(root_certificates)? {
        Some(connector) => Ok(Manager::from_config(options, connector, recycling)),
        None if mode == SslMode::Prefer => Ok(Manager::from_config(options, NoTls, recycling)),
        None => anyhow::bail!(
            "the database URL asks for TLS, but the system has no certificates: set sslrootcert"
        ),
    }
}

/// Whether the database answers.
pub async fn ping(pool: &HotPool) -> Result<(), Error> {
    hot_row(pool, "SELECT 1", &[]).await.map(drop)
}

/// Drops the connections that nobody uses: after a silence they are most likely dead, and each one tried would
/// cost a deadline.
pub fn forget_idle(pool: &HotPool) {
    drop(pool.retain(|_, _| false));
}

/// A connection of one's own; what it is waited for is measured.
pub(super) async fn connection(pool: &HotPool) -> Result<deadpool_postgres::Client, Error> {
    let asked = Instant::now();
    let client = pool.get().await;
    metrics::POOL_WAIT.record(asked.elapsed().as_secs_f64(), &[]);
    Ok(client?)
}

/// Runs a statement that gives exactly one row.
pub(super) async fn hot_row(
    pool: &HotPool,
    sql: &'static str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Row, Error> {
    let client = connection(pool).await?;
    within(async {
        let statement = client.prepare_cached(sql).await?;
        Ok(client.query_one(&statement, params).await?)
    })
    .await
}

pub(super) async fn hot_rows(
    pool: &HotPool,
    sql: &'static str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Error> {
    let client = connection(pool).await?;
    within(async {
        let statement = client.prepare_cached(sql).await?;
        Ok(client.query(&statement, params).await?)
    })
    .await
}

/// Every network wait has a deadline.
pub(super) async fn within<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(DEADLINE, work).await.unwrap_or(Err(Error::TimedOut))
}
