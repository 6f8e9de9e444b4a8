//! What the connections of a node come from.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};

use super::classify::factory_error;
use super::connect::{Connected, Server};
use super::seeds::Seeds;
use super::sentinel::Sentinels;
use crate::node::{Credentials, NodeError, NodeFuture};

/// A response timeout that never fires.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// One master for all locks, or a cluster, where each shard has its own.
#[derive(Clone)]
pub(super) enum Source {
    Master(Master),
    Cluster(Seeds),
}

/// What leads to one master.
#[derive(Clone)]
pub(super) enum Master {
    Server(Box<Server>),
    Sentinels(Box<Sentinels>),
    Factory(Arc<Factory>),
}

/// Opens a connection by a configuration, which is for this one.
pub(super) type Factory = dyn Fn(AsyncConnectionConfig) -> NodeFuture<RedisResult<MultiplexedConnection>> + Send + Sync;

impl Source {
    /// Whether it names a login to the master; nothing if it asks for none.
    pub(super) fn has_login(&self) -> Option<bool> {
        match self {
            Self::Master(Master::Server(server)) => Some(server.has_login()),
            Self::Master(Master::Sentinels(sentinels)) => Some(sentinels.login.has_login()),
            Self::Master(Master::Factory(_)) => None,
            Self::Cluster(seeds) => Some(seeds.servers().any(Server::has_login)),
        }
    }

    /// Whether another server may take the place of the master, which lacks what did not reach it.
    pub(super) fn is_elected(&self) -> bool {
        matches!(self, Self::Master(Master::Sentinels(_)) | Self::Cluster(_))
    }
}

impl Master {
    /// The same, with another login.
    pub(super) fn logging_in(&self, credentials: &Credentials) -> Self {
        match self {
            Self::Server(server) => Self::Server(Box::new(server.logging_in(credentials))),
            Self::Sentinels(sentinels) => Self::Sentinels(Box::new(sentinels.logging_in(credentials))),
            Self::Factory(factory) => Self::Factory(Arc::clone(factory)),
        }
    }

    pub(super) async fn connect(&self, config: AsyncConnectionConfig) -> Result<Connected, NodeError> {
        match self {
            Self::Server(server) => server.connect(config).await,
            Self::Sentinels(sentinels) => sentinels.connect(config).await,
            Self::Factory(factory) => {
                let mut connection = factory(config).await.map_err(|error| factory_error(&error))?;
                // The default is half a second. The engine has timeouts of its own, and a stall must show as a stall.
                connection.set_response_timeout(NEVER);
                // redis-rs has spawned its driver already.
                Ok(Connected { connection, driver: Box::pin(pending()) })
            }
        }
    }
}
