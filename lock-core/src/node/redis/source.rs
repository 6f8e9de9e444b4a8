//! What the connections of a node come from.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, Stream};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};
use tokio::time::timeout;
#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

use super::address::Server;
use super::classify::factory_error;
use super::connect::Connected;
use super::seeds::Seeds;
use super::sentinel::Sentinels;
use crate::node::{Credentials, NodeError, NodeFuture};

/// A response timeout that never fires.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long the servers that lead to a master are given to say which it is. Less than connecting may take, for it is connected to
/// afterwards.
pub(super) const LEADING_TIMEOUT: Duration = Duration::from_millis(500);

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
            Self::Cluster(seeds) => Some(seeds.seeds.iter().any(Server::has_login)),
        }
    }

    /// Secures the connections by another configuration of TLS. False if none is to be secure.
    #[cfg(feature = "tls")]
    pub(super) fn set_tls(&mut self, config: &Arc<ClientConfig>) -> bool {
        let servers: Vec<&mut Server> = match self {
            Self::Master(Master::Server(server)) => vec![server],
            Self::Master(Master::Sentinels(sentinels)) => {
                sentinels.sentinels.iter_mut().chain([&mut sentinels.login]).collect()
            }
            Self::Master(Master::Factory(_)) => Vec::new(),
            Self::Cluster(seeds) => seeds.seeds.iter_mut().collect(),
        };
        let mut tls = servers.into_iter().filter_map(|server| server.tls.as_mut()).peekable();
        let is_any = tls.peek().is_some();
        tls.for_each(|tls| tls.set_config(config));
        is_any
    }

    /// Whether another server may take the place of the master, which lacks what did not reach it.
    pub(super) fn is_elected(&self) -> bool {
        matches!(self, Self::Master(Master::Sentinels(_)) | Self::Cluster(_))
    }
}

impl Master {
    /// Connects by a configuration that is for one connection, and logs in, as it says itself or with these credentials.
    pub(super) async fn connect(
        &self,
        credentials: Option<&Credentials>,
        config: AsyncConnectionConfig,
    ) -> Result<Connected, NodeError> {
        match self {
            Self::Server(server) => server.connect(credentials, config).await,
            Self::Sentinels(sentinels) => sentinels.connect(credentials, config).await,
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

/// Asks servers that lead to a master, all at once. Their answers come with their names.
pub(super) fn ask_all<'a, T, Fut>(
    servers: &'a [Server],
    ask: impl Fn(&'a Server) -> Fut,
) -> impl Stream<Item = (&'a str, Result<T, NodeError>)> + Unpin
where
    Fut: Future<Output = Result<T, NodeError>>,
{
    let asked = servers.iter().map(|server| {
        let answer = timeout(LEADING_TIMEOUT, ask(server));
        let no_answer = || NodeError::Unreachable { reason: "no answer".into() };
        async move { (&*server.name, answer.await.unwrap_or_else(|_| Err(no_answer()))) }
    });
    asked.collect::<FuturesUnordered<_>>()
}

/// What more than half of this many servers say. One of them may have been cut off, and name a former master.
pub(super) fn majority<T: PartialEq>(said: &[T], servers: usize) -> Option<&T> {
    said.iter().find(|one| said.iter().filter(|other| other == one).count() > servers / 2)
}

/// What all say that answer: one of them may be cut off with a master that another one has replaced.
pub(super) fn unanimous<T: PartialEq>(said: &[T]) -> Option<&T> {
    said.first().filter(|first| said.iter().all(|other| other == *first))
}
