use std::error::Error;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

use super::LockManagerBuilder;
use super::named_node::NamedNode;
use crate::node::{Credentials, CredentialsProvider, LockNode};

/// The masters, and the set that they form.
impl LockManagerBuilder {
    /// Adds masters of any kind, such as [`MemoryNode`](crate::MemoryNode).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_core::{LockManager, MemoryNode};
    ///
    /// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// let locks = LockManager::builder().nodes(nodes.clone()).connect().await?;
    /// nodes[0].set_down(true);
    /// let guard = locks.lock("stock:42").acquire().await?; // two of three are a majority
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn nodes(mut self, nodes: impl IntoIterator<Item: LockNode>) -> Self {
        self.nodes.extend(nodes.into_iter().map(|node| Ok(NamedNode::other(node))));
        self
    }

    /// Sets the prefix of all keys. With an empty prefix, lock keys are named as a plain Redlock names them, and the two kinds of
    /// clients exclude each other.
    ///
    /// Up to 512 bytes without control characters and braces. Defaults to `lock:`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .prefix("shop:") // the lock "stock:42" has the key shop:stock:42
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Divides the locks into shards by a fixed hash of their names. Each shard is a set of its own, with its own members, record,
    /// fences and quarantine, and may be on other servers; all slots of a resource with [permits](crate::LockManager::permits) are in one.
    ///
    /// On a Redis Cluster, the shards are spread over its servers: see [`redis_cluster`](Self::redis_cluster). On other masters, all shards
    /// are on all masters, and there is little to gain; for servers of its own for each shard, see [`set`](Self::set).
    ///
    /// 1, 2, 4, 8, 16, 32 or 64; defaults to 1. **It cannot be changed**: each set records the number, and a client with another one is
    /// refused with [`Refusal::OtherSet`](crate::masters::Refusal::OtherSet). For another number, use another
    /// [`prefix`](Self::prefix), when nobody holds a lock under the former one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_core::{LockManager, MemoryNode};
    ///
    /// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// let locks = LockManager::builder().nodes(nodes.clone()).shards(16).connect().await?;
    /// let set = locks.lock_all(["stock:1", "stock:2", "stock:3"]).acquire().await?; // in whatever shards they are
    /// # drop(set);
    /// let refused = LockManager::builder().nodes(nodes).shards(4).connect().await;
    /// assert!(refused.unwrap_err().to_string().contains("shards is 4 here, but 16"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// Sets the name of this set of masters. A client with another name is refused, so addresses that lead to another set
    /// are noticed.
    ///
    /// Defaults to an empty name.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .set_name("locks of the shop")
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn set_name(mut self, name: impl Into<String>) -> Self {
        self.config.set_name = name.into();
        self
    }

    /// Asks `provider` for user and password at each connect to a master: for passwords that change, and tokens that expire.
    ///
    /// It is called before each connection is made, and never by a timer. It has a second to answer, so cache what takes longer to get. Its
    /// future may be dropped at any `.await`. A provider that fails, takes longer or panics, and
    /// a login that is refused, are a [`NodeError::Credentials`](crate::NodeError::Credentials) of the master, which is connected to again
    /// after a randomized pause of 50 ms to 2 s; [`connect`](Self::connect) waits for that, too. The text of the provider's error is shown in
    /// logs and in [`health`](crate::LockManager::health); the password never is.
    ///
    /// For masters named with `redis`, `redis_cluster`, `sentinel` or `postgres`, whose URLs have neither user nor password then. At a Sentinel, it is
    /// for the login to the master. A connection lives on when its password changes, as far as the server lets it; so a rotation is no
    /// outage as long as new connections get the new password.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io;
    ///
    /// use lock_core::{Credentials, LockManager};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .credentials(|| async {
    ///         let password = std::fs::read_to_string("/run/secrets/redis")?;
    ///         io::Result::Ok(Credentials::new("app", password.trim_end()))
    ///     })
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn credentials<F, Fut, E>(mut self, provider: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.credentials = Some(CredentialsProvider::new(provider));
        self
    }

    /// Sets the configuration of TLS for all masters: for roots that the system does not trust, for a certificate of the client, or for
    /// another provider of cryptography.
    ///
    /// For masters named with `redis`, `redis_cluster`, `sentinel` or `postgres`, whose URLs ask for TLS: `rediss://`, or
    /// `sslmode=require`. One that does not is refused, rather than connected to without TLS. It is used for every server of a cluster, and for those of
    /// a Sentinel that have `rediss://`.
    ///
    /// Defaults to trusting what the system trusts, or the file that the variable `SSL_CERT_FILE` names.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "redis", doc = "```no_run")]
    #[cfg_attr(not(feature = "redis"), doc = "```ignore")]
    /// use lock_core::LockManager;
    /// use lock_core::rustls::pki_types::pem::PemObject as _;
    /// use lock_core::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    /// use lock_core::rustls::{ClientConfig, RootCertStore};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut roots = RootCertStore::empty();
    /// roots.add(CertificateDer::from_pem_file("ca.pem")?)?;
    /// let client = CertificateDer::pem_file_iter("client.pem")?.collect::<Result<_, _>>()?;
    /// let key = PrivateKeyDer::from_pem_file("client.key")?;
    /// let config = ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(client, key)?;
    ///
    /// let locks = LockManager::builder()
    ///     .redis_cluster(["rediss://app:secret@redis-1:6380,redis-2:6380,redis-3:6380"])
    ///     .tls(config)
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(mut self, config: impl Into<Arc<ClientConfig>>) -> Self {
        self.tls = Some(config.into());
        self
    }

    /// Sets the longest time to live that any lock of this manager may ask for. A master that joins the set, or lost its data,
    /// grants no locks for as long as the longest `max_ttl` that any client of the set had.
    ///
    /// From 100 ms to one day. Defaults to 60 s; for a ZooKeeper ensemble that is named by its address, to 30 s.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{LockError, LockManager, MemoryNode};
    /// let locks = LockManager::builder().nodes([MemoryNode::new()]).max_ttl(Duration::from_secs(20)).connect().await?;
    /// let too_long = locks.lock("report:daily").ttl(Duration::from_secs(30)).acquire().await;
    /// assert!(matches!(too_long, Err(LockError::InvalidOptions { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = Some(max_ttl);
        self
    }

    /// Sets how long a node is given to reply, from when the request is written to the connection.
    ///
    /// While a majority takes longer than that, all nodes are given as long as the majority takes, up to a quarter of the time to live and
    /// a second: undoing and repeating the work of slow nodes would make them slower still.
    ///
    /// From 1 ms to 10 s. Defaults to what the slowest kind of node in the set needs: for Redis, a twentieth of the time to live, but
    /// at least 5 ms and at most 50 ms; for PostgreSQL, a fifth, but at least 50 ms and at most 2 s; for ZooKeeper, 2 s.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .node_timeout(Duration::from_millis(200)) // the masters are on another continent
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.node_timeout = Some(node_timeout);
        self
    }

    /// Sets how long [`connect`](Self::connect) waits for masters that are starting, while no majority can be used: those to which the first
    /// connection is still being made, and those at which an attempt failed in a way that may pass. The latter are tried again: nobody
    /// listens at the address, a name is not known, the connection is closed or takes no more clients, no reply comes in time, Redis is
    /// loading its data (`LOADING`), PostgreSQL is starting up (`57P03`), a ZooKeeper ensemble has no leader, the sentinels do not agree, the replicas that
    /// [`replicated`](Self::replicated) waits for are not synchronized yet.
    ///
    /// It does not wait for what does not pass by itself: a refused login, a server of another kind, a master that must not be used or
    /// belongs to another set, one that refuses writes. A wrong host or port looks like a master that is starting, and is reported
    /// when the time is over.
    ///
    /// From 100 ms to 10 minutes. Defaults to 10 s.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{ConnectError, LockManager, MemoryNode};
    /// let node = MemoryNode::new();
    /// node.set_down(true);
    /// let builder = LockManager::builder().nodes([node]).connect_timeout(Duration::from_secs(1));
    /// assert!(matches!(builder.connect().await, Err(ConnectError::NotFormed { .. } | ConnectError::NoQuorum { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets whether this manager only looks at who the masters are: it forms no set, lets no master join, and changes nothing about the
    /// members. For tools that must form no set where there is none. (The tables of PostgreSQL and the
    /// directories of ZooKeeper are created by whoever connects.) Locks work as long as other managers keep the set in order; this
    /// one does not bring masters back that forgot.
    ///
    /// Defaults to `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .passive(true) // a tool that only looks
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn passive(mut self, passive: bool) -> Self {
        self.config.passive = passive;
        self
    }

    /// Sets whether a new set is formed although some of its masters do not answer, or a majority of its masters lost their data.
    /// All masters that answer then grant nothing for `max_ttl`, and a majority of the list has to answer.
    ///
    /// If the masters in the list were wiped, nothing can tell a new set from one whose masters are at addresses outside the list. So a
    /// person should decide this, once; do not put it into the settings of a service.
    ///
    /// Defaults to `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{LockManager, MemoryNode};
    /// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// nodes[2].set_down(true); // and it will not come back
    /// let builder = LockManager::builder().nodes(nodes).max_ttl(Duration::from_secs(10));
    /// let locks = builder.form_with_missing(true).connect().await?; // the two are in quarantine
    /// tokio::time::sleep(Duration::from_secs(30)).await;
    /// drop(locks.lock("stock:42").acquire().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn form_with_missing(mut self, form_with_missing: bool) -> Self {
        self.config.form_with_missing = form_with_missing;
        self
    }

    /// Sets whether the **only** master is trusted to have all its data after a restart, if its record survived and it says that
    /// every write is on disk before it is acknowledged (`appendonly yes`, `appendfsync always`). It then needs no quarantine.
    ///
    /// The server cannot know that, and these break the promise of one holder at a time:
    ///
    /// - it ran with `appendfsync everysec` before, lost its last second, and was switched to `always` at that restart;
    /// - it was started from a backup;
    /// - it is a standby that was promoted, which had not received everything.
    ///
    /// Only for a single master; with several, a restarted one sits out its quarantine while the others go on. Defaults to `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1"]) // the only one: appendonly yes, appendfsync always
    ///     .assume_durable(true)
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn assume_durable(mut self, assume_durable: bool) -> Self {
        self.config.assume_durable = assume_durable;
        self
    }
}
