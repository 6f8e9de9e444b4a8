//! What the connections of a node come from: the URL of a server, its sentinels, the seeds of a cluster, or a factory.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Weak};
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
use super::link::Session;
use super::node::RedisNode;
use super::seeds::Seeds;
use super::sentinel::Sentinels;
use crate::mutex::Mutex;
use crate::node::{Credentials, InvalidUrl, NodeError, NodeFuture};

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

impl RedisNode {
    /// Creates a node for the server at a URL: `redis://[user:password@]host[:port][/database]`, the same with `rediss://`, or
    /// `unix:///path`. Does not connect: the first inspection does.
    ///
    /// `rediss://` is TLS, and needs the feature `tls`. The server's certificate must be valid for the host of the URL, and its
    /// issuer among those that the system trusts; or in the file that the variable `SSL_CERT_FILE` names; or in a configuration of your own,
    /// see `tls`. The cryptography is that of the `CryptoProvider` that the process has installed for rustls, otherwise of ring.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{LockNode as _, RedisNode};
    ///
    /// let node = RedisNode::from_url("redis://app:secret@10.0.0.1:6379/3")?;
    /// assert_eq!(node.name(), "10.0.0.1:6379/3");
    /// # Ok::<(), lock_core::masters::InvalidUrl>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`] if the URL does not parse; or if it asks for TLS, but the feature is off.
    pub fn from_url(url: &str) -> Result<Self, InvalidUrl> {
        let server = Server::parse(url)?;
        Ok(Self::new(server.name.clone(), Source::Master(Master::Server(Box::new(server)))))
    }

    /// Creates a node for the master that Redis Sentinel watches over under this name. The sentinels are asked for its address at
    /// every connect: see [`LockManagerBuilder::sentinel`](crate::LockManagerBuilder::sentinel), which says what they and
    /// the master may be written like.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`] if there is no sentinel, or one of them or the master does not parse.
    pub fn from_sentinel(sentinels: impl IntoIterator<Item: AsRef<str>>, master: &str) -> Result<Self, InvalidUrl> {
        let sentinels = Sentinels::new(sentinels, master)?;
        Ok(Self::new(format!("sentinel:{}", sentinels.master), Source::Master(Master::Sentinels(Box::new(sentinels)))))
    }

    /// Creates a node for a server that `factory` connects to: through a proxy, or a simulated network. `name` is the
    /// server's name in errors, logs and health. [`lock_core::redis`](crate::redis) is the version of redis-rs to use.
    ///
    /// The factory is called for every connection and reconnection. Each time it must return a new connection that nobody else
    /// uses, because the order of requests relies on it, and make it with the configuration that it is given: that has a push sender,
    /// through which the server wakes this process and says when it lost its data. Such a connection has to be one of **RESP3**:
    /// `?protocol=resp3` in the URL of a client, or `set_protocol` in its
    /// [`RedisConnectionInfo`](crate::redis::RedisConnectionInfo).
    ///
    /// The factory may change the configuration, but the connection must write at once what it is given: without a limit of concurrency
    /// (`set_concurrency_limit`), and with a pipeline buffer of at least 50, the default of redis-rs.
    ///
    /// A connection that is made without the configuration, as one of RESP2 has to be, carries requests alone: callers that wait
    /// poll, and a loss of data is noticed by the next inspection, half a minute later at most. A warning says so.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{LockNode as _, RedisNode, redis};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = redis::Client::open("redis://10.0.0.1:6379?protocol=resp3")?;
    /// let node = RedisNode::from_factory("redis-1", move |config| {
    ///     let client = client.clone();
    ///     async move { client.get_multiplexed_async_connection_with_config(&config).await }
    /// });
    /// assert_eq!(node.name(), "redis-1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_factory<F, Fut>(name: impl Into<String>, factory: F) -> Self
    where
        F: Fn(AsyncConnectionConfig) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = RedisResult<MultiplexedConnection>> + Send + 'static,
    {
        let factory = move |config| -> NodeFuture<_> { Box::pin(factory(config)) };
        Self::new(name.into(), Source::Master(Master::Factory(Arc::new(factory))))
    }
}

/// The connections of a node, which its shards share: at most one for each server that it has led to, however many shards are on it, unless
/// it is `replicated`.
#[derive(Default)]
pub(super) struct Connections(Mutex<BTreeMap<String, Arc<Present>>>);

/// The connection to a server, if there is one. Held locked while one is opened, so that there are never two.
type Present = tokio::sync::Mutex<Weak<Session>>;

impl Connections {
    /// The present connection to the server of this address if it is not lost, otherwise a new one.
    pub(super) async fn get_or_open(
        &self,
        address: &str,
        open: impl Future<Output = Result<Arc<Session>, NodeError>>,
    ) -> Result<Arc<Session>, NodeError> {
        let present = self.present(address);
        let mut present = present.lock().await;
        if let Some(session) = present.upgrade().filter(|session| !session.pushes.gone().is_cancelled()) {
            return Ok(session);
        }
        let session = open.await?;
        *present = Arc::downgrade(&session);
        Ok(session)
    }

    fn present(&self, address: &str) -> Arc<Present> {
        let mut all = self.0.lock();
        // Servers that nothing leads to any more are forgotten.
        all.retain(|other, present| other == address || Arc::strong_count(present) > 1 || is_used(present));
        Arc::clone(all.entry(address.to_owned()).or_default())
    }
}

/// Whether a link has the connection. One that is being opened is about to be used.
fn is_used(present: &Present) -> bool {
    present.try_lock().map_or(true, |session| session.strong_count() > 0)
}
