//! Where the connections of a node lead: to a server, or to the one that sentinels or a cluster name.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};

use super::classify::factory_error;
use super::cluster::Seeds;
use super::connect::{Connected, Server};
use super::sentinel::Sentinels;
use crate::node::{Credentials, NodeError, NodeFuture};

/// A response timeout that never fires.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What the connections of a node come from.
#[derive(Clone)]
pub(super) enum Source {
    Server(Server),
    Sentinels(Sentinels),
    Cluster(Seeds),
    Factory(Arc<Factory>),
}

/// Opens a connection by a configuration, which is for this one.
pub(super) type Factory = dyn Fn(AsyncConnectionConfig) -> NodeFuture<RedisResult<MultiplexedConnection>> + Send + Sync;

impl Source {
    /// Whether it names a login to the master; nothing if it asks for none.
    pub(super) fn has_login(&self) -> Option<bool> {
        match self {
            Self::Server(server) => Some(server.has_login()),
            Self::Sentinels(sentinels) => Some(sentinels.login.has_login()),
            Self::Cluster(seeds) => Some(seeds.servers().any(Server::has_login)),
            Self::Factory(_) => None,
        }
    }

    /// The same, with another login to the master.
    pub(super) fn logging_in(&self, credentials: &Credentials) -> Self {
        match self {
            Self::Server(server) => Self::Server(server.logging_in(credentials)),
            Self::Sentinels(sentinels) => Self::Sentinels(sentinels.logging_in(credentials)),
            Self::Cluster(seeds) => Self::Cluster(seeds.logging_in(credentials)),
            Self::Factory(factory) => Self::Factory(Arc::clone(factory)),
        }
    }

    /// The server that has a slot, if this is a cluster.
    pub(super) async fn owner(&self, slot: Option<u16>) -> Result<Option<Server>, NodeError> {
        match self {
            Self::Cluster(seeds) => seeds.owner(slot.unwrap_or_default()).await.map(Some),
            _ => Ok(None),
        }
    }

    pub(super) async fn connect(
        &self,
        owner: Option<&Server>,
        config: AsyncConnectionConfig,
    ) -> Result<Connected, NodeError> {
        match (self, owner) {
            (Self::Server(server), _) | (_, Some(server)) => server.connect(config).await,
            (Self::Sentinels(sentinels), _) => sentinels.connect(config).await,
            (Self::Cluster(seeds), None) => seeds.owner(0).await?.connect(config).await,
            (Self::Factory(factory), _) => {
                let mut connection = factory(config).await.map_err(|error| factory_error(&error))?;
                // The default is half a second. The engine has timeouts of its own, and a stall must show as a stall.
                connection.set_response_timeout(NEVER);
                // redis-rs has spawned its driver already.
                Ok(Connected { connection, driver: Box::pin(pending()) })
            }
        }
    }

    /// Whether another server may take the place of this one, which lacks what did not reach it.
    pub(super) fn is_elected(&self) -> bool {
        matches!(self, Self::Sentinels(_) | Self::Cluster(_))
    }
}
