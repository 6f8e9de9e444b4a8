//! How a node is created: from the URL of a server, from its sentinels, or from a factory of connections.

use std::future::Future;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};

use super::address::Server;
use super::node::RedisNode;
use super::sentinel::Sentinels;
use super::source::{Master, Source};
use crate::node::{InvalidUrl, NodeFuture};

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
