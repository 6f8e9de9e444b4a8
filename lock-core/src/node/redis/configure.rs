//! How a node is created, and what can be set of it.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};
#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

use super::address::{Network, Server};
use super::node::RedisNode;
use super::replication::{InvalidReplication, Replication};
use super::seeds::Seeds;
use super::sentinel::Sentinels;
use super::source::{Master, Source};
use crate::node::credentials::{CredentialsProvider, Login};
use crate::node::{Credentials, InvalidSetting, InvalidUrl, NodeFuture};

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

    /// A node for the servers of a Redis Cluster that have the slots of its shards. Seeds as one URL: see
    /// [`LockManagerBuilder::redis_cluster`](crate::LockManagerBuilder::redis_cluster).
    pub(crate) fn from_cluster(url: &str, network: Option<&Network>) -> Result<Self, InvalidUrl> {
        let seeds = Seeds::new(url, network)?;
        Ok(Self::new(seeds.name.clone(), Source::Cluster(seeds)))
    }

    /// Lets a vote of this master count only when this many of its replicas have acknowledged it (`WAIT`), within this time. One that
    /// they have not is no vote, and what was set for it is released. The user needs `+wait`, and the default of
    /// [`node_timeout`](crate::LockManagerBuilder::node_timeout) grows by this time.
    ///
    /// [`LockManagerBuilder::replicated`](crate::LockManagerBuilder::replicated) says what this is good for, and what it is not.
    ///
    /// From 1 to 16 replicas, and from 1 ms to 250 ms. Defaults to none.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use lock_core::RedisNode;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = RedisNode::from_url("redis://10.0.0.1:6379")?.replicated(1, Duration::from_millis(50))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidReplication`] if one of them is out of range.
    pub fn replicated(mut self, replicas: u32, timeout: Duration) -> Result<Self, InvalidReplication> {
        self.0.terms.replication = Some(Replication::new(replicas, timeout)?);
        Ok(self)
    }

    /// Sets whether the server is used although its `maxmemory-policy` is one of `volatile-*`.
    ///
    /// [`LockManagerBuilder::tolerate_eviction`](crate::LockManagerBuilder::tolerate_eviction) says what that means, and does the same for
    /// all masters of a builder.
    #[must_use]
    pub fn tolerate_eviction(mut self, tolerate_eviction: bool) -> Self {
        self.0.terms.tolerates_eviction = tolerate_eviction;
        self
    }

    /// Asks `provider` for user and password at each connect. At a [Sentinel](Self::from_sentinel) it logs in to the master with them; to the sentinels
    /// with what their URLs have.
    ///
    /// [`LockManagerBuilder::credentials`](crate::LockManagerBuilder::credentials) says what the provider may do, and does the same for
    /// all masters of a builder.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io;
    ///
    /// use lock_core::{Credentials, RedisNode};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = RedisNode::from_url("rediss://redis-1.example")?.credentials(|| async {
    ///     let password = std::fs::read_to_string("/run/secrets/redis-1")?;
    ///     io::Result::Ok(Credentials::new("app", password.trim_end()))
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] if the URL has a user or a password, or the connections come from a factory.
    pub fn credentials<F, Fut, E>(self, provider: F) -> Result<Self, InvalidSetting>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.with_credentials(CredentialsProvider::new(provider))
    }

    /// Connects by this configuration of TLS. For a [Sentinel](Self::from_sentinel), it is for all of its servers that have `rediss://`.
    ///
    /// [`LockManagerBuilder::tls`](crate::LockManagerBuilder::tls), which has an example, does the same for all masters of a builder.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] if the URL does not begin with `rediss://`, or the connections come from a factory.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, config: impl Into<Arc<ClientConfig>>) -> Result<Self, InvalidSetting> {
        let uses_tls = self.0.source.set_tls(&config.into());
        if uses_tls { Ok(self) } else { Err(InvalidSetting::tls(&self.0.name)) }
    }

    pub(crate) fn with_credentials(mut self, provider: CredentialsProvider) -> Result<Self, InvalidSetting> {
        self.0.login = Login::by(provider, &self.0.name, self.0.source.has_login())?;
        Ok(self)
    }
}
