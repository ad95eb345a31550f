//! What the doctor knows before it judges.
use shared::bus::jobs::listing::Entry;
use shared::bus::survey::{Clock, Server, Survey};
use shared::bus::topology::Mismatch;
use shared::bus::workers::Heard;
use shared::store::migrate::Migration;
use shared::store::overview::{Database, LeaseRow};
use time::OffsetDateTime;

use crate::doctor::secrets::Secret;
use crate::doctor::settings::Settings;

/// Where a question got no answer, the reason stands.
pub type Known<T> = Result<T, String>;

pub struct Facts {
    pub now: OffsetDateTime,
    pub settings: Settings,
    pub secrets: Vec<Secret>,
    pub nats: Known<NatsFacts>,
    pub database: Known<DatabaseFacts>,
}

pub struct NatsFacts {
    pub server: Server,
    pub jetstream: Known<JetStreamFacts>,
    pub workers: Known<Vec<Heard>>,
}

pub struct JetStreamFacts {
    pub mismatches: Vec<Mismatch>,
    pub survey: Survey,
    pub jobs: Vec<Entry>,
}

pub struct DatabaseFacts {
    pub server: Database,
    pub clock: Clock,
    pub migrations: Known<Vec<Migration>>,
    /// Of a database that is not migrated nothing can be read.
    pub leases: Known<Vec<LeaseRow>>,
}

impl Facts {
    pub fn jetstream(&self) -> Option<&JetStreamFacts> {
        self.nats.as_ref().ok()?.jetstream.as_ref().ok()
    }

    /// Those that answered.
    pub fn workers(&self) -> Option<&[Heard]> {
        self.nats.as_ref().ok()?.workers.as_deref().ok()
    }

    pub fn leases(&self) -> Option<&[LeaseRow]> {
        self.database.as_ref().ok()?.leases.as_deref().ok()
    }
}
