//! What every handler shares: connections, keys, caches. Built once, by `main` or by a test.
use std::sync::Arc;

use anyhow::Context as _;
use shared::bus::{self, Bus};
use shared::runtime::seal::Sealer;
use shared::runtime::shutdown::Shutdown;
use shared::store::pool::{self, RowPool};

use crate::auth::Verifier;
use crate::config::Config;
use crate::http::health::Readiness;
use crate::load::Load;
use crate::metrics::Fleet;
use crate::ownership::Owners;

/// Handlers take `State(app): State<Arc<App>>`.
pub struct App {
    pub config: Config,
    pub bus: Bus,
    pub rows: RowPool,
    pub verifier: Verifier,
    pub sealer: Sealer,
    /// The process was told to stop: readiness says so, everything is served until `shutdown`.
    pub stopping: Shutdown,
    /// SSE streams watch its token; everything that must outlive a handler is spawned through it.
    pub shutdown: Shutdown,
    pub owners: Owners,
    pub readiness: Readiness,
    pub load: Arc<Load>,
    pub fleet: Fleet,
}

impl App {
    /// Connects; what is not there yet keeps `/healthz/ready` at 503.
    pub async fn connect(config: Config, shutdown: Shutdown) -> anyhow::Result<Arc<Self>> {
        let bus = bus::connect::connect(config.nats.clone()).await.context("connecting to NATS")?;
        let rows = pool::rows(&config.database).context("setting up the database pool")?;
        let verifier =
            Verifier::new(&config.jwt_secret, &config.jwt_secrets_previous, &config.tokens)?;
        let sealer = Sealer::from_keys(&config.seal_key, &config.seal_keys_previous)?;
        let (owners, readiness) = (Owners::default(), Readiness::default());
        let stopping = Shutdown::new();
        let load = Load::new(config.load);
        Ok(Arc::new(Self {
            config,
            bus,
            rows,
            verifier,
            sealer,
            stopping,
            shutdown,
            owners,
            readiness,
            load,
            fleet: Fleet::default(),
        }))
    }
}
