use std::{io, net::SocketAddr};

use lock_axum::ConnectError;

use crate::shop::ShopError;

/// Why a run or a service could not be carried out.
///
/// That a mode oversold is not an error; the [`Report`](crate::Report) says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A value of the configuration is out of range.
    #[error("{0}")]
    Config(String),
    /// The lock masters refused the configuration, or too few of them are reachable.
    #[error("cannot connect to the lock masters")]
    Connect(#[source] ConnectError),
    /// The masters are reachable, but too few of them grant locks.
    #[error("too few lock masters grant locks: {0}")]
    NoQuorum(String),
    /// The database could not be created, opened, read or written.
    #[error("the database failed")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The process records metrics elsewhere already.
    #[error("cannot record metrics")]
    Metrics(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The service could not listen on an address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause, as reported by the system.
        source: io::Error,
    },
    /// A thread or a runtime could not be started, or the server failed.
    #[error("an instance of the service failed")]
    Instance(#[source] io::Error),
    /// An instance did not start or stop in time.
    #[error("an instance of the service did not {0} in time")]
    Timeout(&'static str),
}

impl RunError {
    /// This build has no client for a store.
    #[cfg(not(all(feature = "postgres", feature = "zookeeper")))]
    pub(super) fn without(store: &str, feature: &str) -> Self {
        Self::Config(format!("this build has no client for {store}; run it with `--features {feature}`"))
    }
}

impl From<ShopError> for RunError {
    fn from(error: ShopError) -> Self {
        match error {
            ShopError::Sqlite(error) => Self::Database(error.into()),
            ShopError::Postgres(error) => Self::Database(error.into()),
            ShopError::Thread(error) => Self::Database(error.into()),
            other => Self::Database(other.into()),
        }
    }
}
