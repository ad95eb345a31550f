//! The way to NATS and Postgres: bounded, and clear about what can't be reached.
use anyhow::Context as _;
use shared::bus::{Bus, connect};
use shared::store::overview;
use shared::store::pool::{self, RowPool};

pub async fn nats(config: connect::Config) -> anyhow::Result<Bus> {
    connect::connect(config).await
}

pub async fn database(config: &pool::Config) -> anyhow::Result<RowPool> {
    let rows = pool::rows(config).context("reading DATABASE_URL")?;
    overview::database(&rows).await.context("connecting to Postgres")?;
    Ok(rows)
}
