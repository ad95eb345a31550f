//! Brings a database to the schema in `/migrations`; safe with any number of starters.
use std::collections::HashMap;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use secrecy::{ExposeSecret, SecretString};
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::store::Error;
use crate::store::pool::{HotPool, RowPool, hot_rows, within};

const STATES: &str = "SELECT version, description, success, checksum FROM _sqlx_migrations";
const STATES_TABLE: &str = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";
const APPLIED: &str = "SELECT version, checksum FROM _sqlx_migrations WHERE success";

/// How a migration of this binary, or one that the database has, stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    pub version: i64,
    pub name: String,
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Applied,
    Pending,
    /// Applied in another form than this binary has.
    Changed,
    /// It began and did not end.
    Failed,
    /// Of a newer release.
    Unknown,
}

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

/// Every migration, by version.
pub async fn states(pool: &RowPool) -> Result<Vec<Migration>, Error> {
    let mut stored = stored(pool).await?;
    let mut migrations: Vec<Migration> = migrator()
        .iter()
        .map(|known| {
            let state = match stored.remove(&known.version) {
                None => State::Pending,
                Some(row) if !row.success => State::Failed,
                Some(row) if row.checksum.as_slice() == known.checksum.as_ref() => State::Applied,
                Some(_) => State::Changed,
            };
            Migration { version: known.version, name: known.description.to_string(), state }
        })
        .collect();
    migrations.extend(stored.into_iter().map(|(version, row)| {
        let state = if row.success { State::Unknown } else { State::Failed };
        Migration { version, name: row.name, state }
    }));
    migrations.sort_by_key(|migration| migration.version);
    Ok(migrations)
}

struct Stored {
    name: String,
    success: bool,
    checksum: Vec<u8>,
}

async fn stored(pool: &RowPool) -> Result<HashMap<i64, Stored>, Error> {
    let rows: Vec<(i64, String, bool, Vec<u8>)> = within(async {
        if !sqlx::query_scalar::<_, bool>(STATES_TABLE).fetch_one(pool).await? {
            return Ok(Vec::new());
        }
        Ok(sqlx::query_as(STATES).fetch_all(pool).await?)
    })
    .await?;
    let stored = rows
        .into_iter()
        .map(|(version, name, success, checksum)| (version, Stored { name, success, checksum }));
    Ok(stored.collect())
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
