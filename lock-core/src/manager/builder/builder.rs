use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::try_join_all;
#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

use super::connect::check_masters;
use super::divide::{Divided, MAX_SHARDS};
use super::named_node::NamedNode;
use super::{ConfigError, ConnectError};
use crate::cluster::{Beside, Cluster, ShardSource};
use crate::delegation::{Adoptions, InvalidAudience};
use crate::engine::{Background, Engine};
use crate::lease::run_renewer;
use crate::limits::{MAX_TTL, MIN_TTL, OutOfRange};
use crate::manager::check_options::check_options;
use crate::manager::manager::{Inner, LockManager};
use crate::manager::shards::Shard;
use crate::node::{CredentialsProvider, LockNode, MemoryNode, whole_millis};
use crate::observer::{LockObserver, Reporter};
use crate::options::LockOptions;
use crate::quorum::MembershipConfig;
use crate::random::Random;
use crate::resource::check_prefix;
use crate::waiting::Turns;

/// The longest time to live that a lock may ask for, unless that is set.
const DEFAULT_MAX_TTL: Duration = Duration::from_secs(60);

/// Configures a [`LockManager`].
///
/// The number of masters and the name of the set must be the same for every client of the same masters and prefix; a client with
/// others is refused. The longest `max_ttl` of all clients applies to the set.
///
/// Clients may have different lists of masters for a while, when a master is replaced: a vote counts only if master and client
/// go by the same members of the set. A master in the list that is not a member does not vote.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// use lock_core::LockManager;
///
/// let locks = LockManager::builder()
///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
///     .prefix("shop:")
///     .ttl(Duration::from_secs(5))
///     .wait(Duration::from_secs(1))
///     .connect_lazy()?;
/// # Ok::<(), lock_core::ConfigError>(())
/// ```
#[must_use = "a builder does nothing before connect or connect_lazy"]
pub struct LockManagerBuilder {
    /// Errors are kept until the manager is built, so that calls can be chained.
    pub(super) nodes: Vec<Result<NamedNode, ConfigError>>,
    /// Those of shards that have masters of their own.
    pub(super) sets: Vec<Vec<Result<NamedNode, ConfigError>>>,
    pub(super) replication: Option<(u32, Duration)>,
    pub(super) tolerate_eviction: bool,
    pub(super) credentials: Option<CredentialsProvider>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) prefix: String,
    pub(super) shards: u32,
    /// Without the names of the nodes and the longest time to live.
    pub(super) config: MembershipConfig,
    pub(super) defaults: LockOptions,
    pub(super) ttl: Option<Duration>,
    pub(super) max_ttl: Option<Duration>,
    pub(super) max_waiters: usize,
    pub(super) max_buffered_bytes: usize,
    pub(super) audience: Option<String>,
    pub(super) node_timeout: Option<Duration>,
    pub(super) connect_timeout: Duration,
    pub(super) seed: Option<u64>,
    pub(super) observers: Vec<Arc<dyn LockObserver>>,
    pub(super) redact: bool,
}

impl Default for LockManagerBuilder {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            sets: Vec::new(),
            replication: None,
            tolerate_eviction: false,
            credentials: None,
            #[cfg(feature = "tls")]
            tls: None,
            prefix: "lock:".to_owned(),
            shards: 1,
            config: MembershipConfig::default(),
            defaults: LockOptions::default(),
            ttl: None,
            max_ttl: None,
            max_waiters: 1024,
            max_buffered_bytes: 64 * 1024 * 1024,
            audience: None,
            node_timeout: None,
            connect_timeout: Duration::from_secs(10),
            seed: None,
            observers: Vec::new(),
            redact: false,
        }
    }
}

impl LockManager {
    /// A builder without nodes.
    pub fn builder() -> LockManagerBuilder {
        LockManagerBuilder::default()
    }

    /// A manager over five in-memory masters: the same engine, without Redis. For development, tests and demos; the locks
    /// exclude nobody outside this process. Works outside a runtime.
    #[must_use]
    pub fn in_memory() -> Self {
        let node = |_| Arc::new(MemoryNode::new()) as Arc<dyn LockNode>;
        let builder = LockManagerBuilder::default();
        let divided = Divided::shared((0..5).map(node).collect(), 1, &builder.prefix, false);
        builder.assemble(divided)
    }
}

impl LockManagerBuilder {
    /// Builds the manager without connecting; it connects when it is first used. Works outside a runtime.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a setting is wrong. Problems that only a connection can show are reported when locks are acquired, by
    /// [`health`](LockManager::health), and in the log.
    pub fn connect_lazy(mut self) -> Result<LockManager, ConfigError> {
        let max_ttl = self.max_ttl.unwrap_or(DEFAULT_MAX_TTL);
        OutOfRange::check("max_ttl", max_ttl, MIN_TTL, MAX_TTL)?;
        self.defaults.ttl = self.ttl.unwrap_or(self.defaults.ttl.min(max_ttl));
        check_options(&self.defaults, max_ttl)?;
        if let Some(node_timeout) = self.node_timeout {
            OutOfRange::check("node_timeout", node_timeout, Duration::from_millis(1), Duration::from_secs(10))?;
        }
        let (shortest, longest) = (Duration::from_millis(100), Duration::from_secs(600));
        OutOfRange::check("connect_timeout", self.connect_timeout, shortest, longest)?;
        if self.max_waiters == 0 {
            return Err(ConfigError::NoWaiters);
        }
        if self.max_buffered_bytes == 0 {
            return Err(ConfigError::NoBufferedBytes);
        }
        self.audience.as_deref().map_or(Ok(()), InvalidAudience::check)?;
        for (field, name) in [("prefix", &self.prefix), ("set_name", &self.config.set_name)] {
            check_prefix(name).map_err(|reason| ConfigError::InvalidName { field, name: name.clone(), reason })?;
        }
        let divided = self.divide()?;
        if self.config.assume_durable {
            // Sets may differ.
            let sizes = (0..divided.count).map(|shard| (divided.find)(shard).nodes.len());
            if let Some(nodes) = sizes.max().filter(|nodes| *nodes > 1) {
                return Err(ConfigError::DurableSet { nodes });
            }
        }
        Ok(self.assemble(divided))
    }

    /// Builds the manager and connects: waits until every first connection was made or failed, and every node that is admitted was
    /// asked to grant and renew a lock that nobody else can ask for. Takes at most about two seconds if a majority can be used. Otherwise
    /// waits for masters that are starting, up to the [`connect_timeout`](Self::connect_timeout): a service and its masters may be started
    /// together.
    ///
    /// # Errors
    ///
    /// - [`ConnectError::Config`] if a setting is wrong, or a node that answers must not be used: it is a replica, it evicts keys,
    ///   its version is too old, it is in cluster mode or, named as a cluster, is not, its user lacks a permission, it is the same server as another node, or it
    ///   belongs to another set.
    /// - [`ConnectError::NotFormed`] if the set is new, and not all of its nodes answer.
    /// - [`ConnectError::NoQuorum`] if fewer than a majority of the nodes answer, belong to the set, and would grant a lock. Nodes
    ///   that sit out a quarantine, or are about to join, count as ones that would.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the connections are closed.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::ConnectError> {
    /// use lock_core::{LockManager, MemoryNode};
    ///
    /// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// let locks = LockManager::builder().nodes(nodes).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(self) -> Result<LockManager, ConnectError> {
        let connect_timeout = self.connect_timeout;
        let locks = self.connect_lazy()?;
        let Inner { background, shards, .. } = &*locks.0;
        background.home.start();
        let of_shards = shards.iter().map(|shard| check_masters(&shard.engine.cluster, connect_timeout));
        try_join_all(of_shards).await?;
        Ok(locks)
    }

    /// Builds the manager over these shards. All settings have been checked.
    fn assemble(self, Divided { count, find }: Divided) -> LockManager {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);

        let max_ttl = self.max_ttl.unwrap_or(DEFAULT_MAX_TTL);
        let config = MembershipConfig { max_ttl: whole_millis(max_ttl), ..self.config };
        let random = Arc::new(self.seed.map_or_else(Random::from_system, Random::from_seed));
        let reporter = Arc::new(Reporter::new(self.observers, self.redact));
        let background = Background::new();
        let sources: Vec<ShardSource> = (0..count).map(&find).collect();
        let (mut beside, mut shards) = (Beside::first(MAX_SHARDS, find), Vec::new());
        for ShardSource { keyspace, nodes, division } in sources {
            nodes.iter().for_each(|node| node.set_max_ttl(max_ttl));
            let names = nodes.iter().map(|node| node.name().to_owned()).collect();
            let config = MembershipConfig { names, division, ..config.clone() };
            let (random, reporter) = (Arc::clone(&random), Arc::clone(&reporter));
            let cluster = Cluster::new(nodes, keyspace, config, beside, random, reporter, background.stopped());
            let cluster = Arc::new(cluster);
            beside = Beside::next(&cluster);
            let engine = Arc::new(Engine::new(cluster, &background, self.node_timeout));
            shards.push(Shard { turns: Turns::new(&engine, self.max_waiters), engine });
        }
        let leases = kept(&background, run_renewer);
        let adoptions = kept(&background, Adoptions::watch);
        LockManager(Arc::new(Inner {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            background,
            shards,
            defaults: self.defaults,
            max_ttl,
            audience: self.audience,
            max_buffered_bytes: self.max_buffered_bytes,
            companion: OnceLock::new(),
            leases,
            adoptions,
            warned_of_order: AtomicBool::new(false),
        }))
    }
}

/// What a manager keeps, and work on it that goes on in the background.
fn kept<T, F>(background: &Background, work: impl Fn(Arc<T>) -> F + Send + Sync + 'static) -> Arc<T>
where
    T: Default + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let kept = Arc::<T>::default();
    let works_on = Arc::clone(&kept);
    background.home.add(move || work(Arc::clone(&works_on)));
    kept
}

opaque_debug!(LockManagerBuilder, |this| "nodes": this.nodes.iter().flatten().map(|node| &node.name).collect::<Vec<_>>());
