//! Postgres, typed. Every statement of the system is below this module or in `/migrations`.
//!
//! Two clients, split by purpose: [`pool::RowPool`] (sqlx) for rows that people list, used by the gateway;
//! [`pool::HotPool`] (deadpool, tokio-postgres) for the worker's hot path, where one story is one statement.
//! Ids and times come from the caller; only leases live by the database's own clock, since workers must agree on it.
pub mod attachments;
pub mod audit;
pub mod confirmations;
pub mod conversations;
pub mod journal;
pub mod lease;
pub mod messages;
pub mod migrate;
pub mod overview;
pub mod paging;
pub mod pool;
pub mod requeue;
pub mod sanitize;
pub mod turns;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

/// What went wrong between us and Postgres. Users never see its text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no database connection to be had")]
    Pool(#[source] Box<deadpool_postgres::PoolError>),
    #[error("database statement failed")]
    Hot(#[from] tokio_postgres::Error),
    #[error("database statement failed")]
    Row(#[source] Box<sqlx::Error>),
    #[error("the database did not answer in time")]
    TimedOut,
    #[error("stored {what} can't be read")]
    Corrupt { what: &'static str },
}

impl Error {
    /// Whether the database is out of reach, or too busy, for the moment; else the same statement fails again.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Pool(error) => match &**error {
                PoolError::Backend(error) => is_outage(error.code().map(SqlState::code)),
                PoolError::Timeout(_)
                | PoolError::Closed
                | PoolError::NoRuntimeSpecified
                | PoolError::PostCreateHook(_) => true,
            },
            Self::Hot(error) => is_outage(error.code().map(SqlState::code)),
            Self::Row(error) => match error.as_database_error() {
                Some(error) => is_outage(error.code().as_deref()),
                None => true,
            },
            Self::TimedOut => true,
            Self::Corrupt { what: _ } => false,
        }
    }
}

/// By SQLSTATE; without one the connection failed, not the statement.
fn is_outage(code: Option<&str>) -> bool {
    /// Connection, rollback for concurrency, resources, not in a state for it, operator, system.
    const CLASSES: [&str; 6] = ["08", "40", "53", "55", "57", "58"];
    /// A primary that became a standby.
    const READ_ONLY: &str = "25006";
    code.is_none_or(|code| code == READ_ONLY || CLASSES.iter().any(|class| code.starts_with(class)))
}

impl From<deadpool_postgres::PoolError> for Error {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        Self::Pool(Box::new(error))
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Row(Box::new(error))
    }
}

impl From<tokio_postgres::Error> for CommitError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Why a write under a lease did not happen. Nothing was written in either case.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The lease has another epoch, or was released: somebody else may own the conversation.
    #[error("the lease of this conversation is no longer held")]
    Fenced,
    #[error(transparent)]
    Store(#[from] Error),
}
