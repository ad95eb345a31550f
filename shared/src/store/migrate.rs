//! Brings a database to the schema in `/migrations`; safe with any number of starters.
use std::collections::HashMap;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use secrecy::{ExposeSecret, SecretString};
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::store::pool::{HotPool, RowPool, hot_rows};

const APPLIED: &str = "SELECT version, checksum FROM _sqlx_migrations WHERE success";

/// Applies what is missing. Starters take turns by an advisory lock. A newer database is left alone.
pub async fn run(url: &SecretString) -> anyhow::Result<()> {
    let options =
        PgConnectOptions::from_str(url.expose_secret()).context("parsing the database URL")?;
    let options = options
        .application_name("migrate")
        .options([("statement_timeout", "0"), ("lock_timeout", "0")]);
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect_with(options)
        .await
        .context("connecting to Postgres")?;
    let encoding: String = sqlx::query_scalar("SHOW server_encoding")
        .fetch_one(&pool)
        .await
        .context("reading the encoding")?;
    ensure!(encoding == "UTF8", "the database has encoding {encoding}; it must be UTF8");
    migrator().run(&pool).await.context("applying migrations")?;
    pool.close().await;
    Ok(())
}

/// Fails if this binary needs a migration that the database doesn't have. A newer database is fine.
pub async fn verify(pool: &RowPool) -> anyhow::Result<()> {
    let applied: Vec<(i64, Vec<u8>)> =
        sqlx::query_as(APPLIED).fetch_all(pool).await.context("reading the applied migrations")?;
    compare(&applied.into_iter().collect())
}

/// `verify`, for a process that has the other pool.
pub async fn verify_hot(pool: &HotPool) -> anyhow::Result<()> {
    let rows = hot_rows(pool, APPLIED, &[]).await.context("reading the applied migrations")?;
    let applied: Result<HashMap<i64, Vec<u8>>, _> = rows
        .iter()
        .map(|row| Ok::<_, tokio_postgres::Error>((row.try_get(0)?, row.try_get(1)?)))
        .collect();
    compare(&applied.context("reading the applied migrations")?)
}

fn migrator() -> Migrator {
    let mut migrator = sqlx::migrate!("../migrations");
    migrator.set_ignore_missing(true);
    migrator
}

fn compare(applied: &HashMap<i64, Vec<u8>>) -> anyhow::Result<()> {
    for migration in migrator().iter() {
        match applied.get(&migration.version) {
            Some(checksum) if checksum.as_slice() == migration.checksum.as_ref() => {}
            Some(_) => bail!("migration {} was applied in another form", migration.version),
            None => bail!("migration {} is not applied", migration.version),
        }
    }
    Ok(())
}
