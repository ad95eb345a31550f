//! Asks NATS, the workers and Postgres. Decides nothing; every wait is bounded.
use anyhow::Context as _;
use shared::bus::jobs::listing;
use shared::bus::survey::{self, Clock, Survey};
use shared::bus::{Bus, connect, topology, workers};
use shared::runtime::clock;
use shared::store::overview::{self, Scope};
use shared::store::{migrate, pool};

use crate::doctor::facts::{DatabaseFacts, Facts, JetStreamFacts, Known, NatsFacts};
use crate::doctor::secrets::Secret;
use crate::doctor::settings::Settings;
use crate::fleet;

pub struct Sources {
    pub nats: connect::Config,
    pub database: pool::Config,
    pub settings: Settings,
    pub secrets: Vec<Secret>,
}

pub async fn gather(sources: Sources) -> Facts {
    let Sources { nats, database, settings, secrets } = sources;
    let (nats, database) =
        tokio::join!(nats_facts(nats, &settings.topology), database_facts(&database));
    Facts { now: clock::now(), settings, secrets, nats: known(nats), database: known(database) }
}

async fn nats_facts(
    config: connect::Config,
    options: &topology::Options,
) -> anyhow::Result<NatsFacts> {
    let bus = fleet::nats(config).await?;
    let workers = async { workers::reports(&bus).await.context("asking the workers") };
    let (jetstream, workers) = tokio::join!(jetstream_facts(&bus, options), workers);
    let server = survey::server(&bus);
    Ok(NatsFacts { server, jetstream: known(jetstream), workers: known(workers) })
}

async fn jetstream_facts(bus: &Bus, options: &topology::Options) -> anyhow::Result<JetStreamFacts> {
    let survey = survey::survey(bus).await.context("asking JetStream")?;
    let mismatches = topology::verify(bus, options).await?;
    let jobs = if has_jobs(&survey) {
        listing::list(bus).await.context("reading the jobs")?
    } else {
        Vec::new()
    };
    Ok(JetStreamFacts { mismatches, survey, jobs })
}

fn has_jobs(survey: &Survey) -> bool {
    let jobs = contract::subject::STREAM_JOBS;
    survey.streams.iter().any(|stream| stream.name == jobs)
}

async fn database_facts(config: &pool::Config) -> anyhow::Result<DatabaseFacts> {
    let rows = fleet::database(config).await?;
    // The first connection takes its time; a clock is read over one that is there.
    let asked_at = clock::now();
    let server = overview::database(&rows).await.context("asking Postgres")?;
    let clock = Clock { at: server.now, asked_at, heard_at: clock::now() };
    let migrations = migrate::states(&rows).await.context("reading the applied migrations");
    let leases = overview::leases(&rows, &Scope::default()).await.context("reading the leases");
    let (migrations, leases) = (known(migrations), known(leases));
    Ok(DatabaseFacts { server, clock, migrations, leases })
}

fn known<T>(found: anyhow::Result<T>) -> Known<T> {
    found.map_err(|error| format!("{error:#}"))
}
