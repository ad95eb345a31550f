//! What every job needs, made once at start.
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use documents::parent::Reader;
use shared::bus::{Bus, connect};
use shared::runtime::seal::Sealer;
use shared::runtime::shutdown::Shutdown;
use shared::store::pool::{self, HotPool};

use crate::attachments;
use crate::backend::{Backend, BackendConfig};
use crate::config::Config;
use crate::doubt::Doubt;
use crate::llm::{Llm, LlmConfig};
use crate::operator::Occupancy;
use crate::tools::Registry;

/// A caller waits so long for a database connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone)]
pub struct App(Arc<Parts>);

pub struct Parts {
    pub config: Config,
    pub bus: Bus,
    pub pool: HotPool,
    pub doubt: Doubt,
    pub sealer: Sealer,
    pub llm: Llm,
    pub backend: Backend,
    pub tools: Registry,
    pub reader: Reader,
    pub shutdown: Shutdown,
    pub occupancy: Occupancy,
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    pub async fn connect(
        config: Config,
        tools: Registry,
        shutdown: Shutdown,
    ) -> anyhow::Result<Self> {
        let sealer = Sealer::from_keys(&config.seal_key, &config.seal_keys_previous)
            .context("reading SEAL_KEY")?;
        let backend = Backend::new(BackendConfig::from(&config.backend))
            .context("reading the backend's configuration")?;
        let llm = Llm::new(LlmConfig::from(&config.model))
            .context("reading the model's configuration")?;
        let database = pool::Config {
            url: config.database_url.clone(),
            max_connections: config.database_pool,
            application_name: config.name.clone(),
            acquire_timeout: ACQUIRE_TIMEOUT,
        };
        let pool = pool::hot(&database).context("reading DATABASE_URL")?;
        let bus = connect::connect(connect::Config {
            urls: config.nats_urls.clone(),
            name: format!("worker/{}", config.name),
            inbox_prefix: "_INBOX_wk".to_owned(),
            nkey_seed: config.nats_nkey.clone(),
            credentials_file: config.nats_credentials.clone(),
            ca_file: config.nats_ca.clone(),
            ..connect::Config::default()
        })
        .await
        .context("connecting to NATS")?;
        let reader = Reader::of_this_program(attachments::SUBCOMMAND, config.documents.readers);
        let (doubt, occupancy) = (Doubt::default(), Occupancy::default());
        Ok(Self(Arc::new(Parts {
            config,
            bus,
            pool,
            doubt,
            sealer,
            llm,
            backend,
            tools,
            reader,
            shutdown,
            occupancy,
        })))
    }
}
