//! What the connections of a node come from.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};
#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

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

    /// The same, by another configuration of TLS; nothing if no server of it is one with TLS.
    #[cfg(feature = "tls")]
    pub(super) fn with_tls(&self, config: &Arc<ClientConfig>) -> Option<Self> {
        match self {
            Self::Master(Master::Server(server)) => {
                let with = || Self::Master(Master::Server(Box::new(server.with_tls(config))));
                server.uses_tls().then(with)
            }
            Self::Master(Master::Sentinels(sentinels)) => {
                let with = || Self::Master(Master::Sentinels(Box::new(sentinels.with_tls(config))));
                sentinels.servers().any(Server::uses_tls).then(with)
            }
            Self::Master(Master::Factory(_)) => None,
            Self::Cluster(seeds) => {
                seeds.servers().any(Server::uses_tls).then(|| Self::Cluster(seeds.with_tls(config)))
            }
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
