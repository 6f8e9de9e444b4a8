use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::check::{check_nodes, check_options};
use super::connect::check_masters;
use super::manager::Inner;
use super::stores::NamedNode;
use super::{ConfigError, ConnectError, LockManager};
use crate::buffered_bytes::BufferBudget;
use crate::delegation::InvalidAudience;
use crate::engine::Engine;
use crate::lease::{LeaseRegistry, run_renewer};
use crate::limits::{MAX_TTL, MIN_TTL, OutOfRange};
use crate::node::{Keyspace, LockNode};
use crate::observer::{LockObserver, Reporter};
use crate::options::LockOptions;
use crate::quorum::MembershipConfig;
use crate::random::Random;
use crate::resource::check_prefix;
use crate::waiting::Turns;

/// The shortest and the longest `connect_timeout`.
const CONNECT_TIMEOUT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(600));

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
    #[cfg(feature = "redis")]
    pub(super) replication: Option<(u32, Duration)>,
    prefix: String,
    set_name: String,
    defaults: LockOptions,
    ttl: Option<Duration>,
    pub(super) default_max_ttl: Duration,
    max_ttl: Option<Duration>,
    max_waiters: usize,
    max_buffered_bytes: usize,
    audience: Option<String>,
    node_timeout: Option<Duration>,
    connect_timeout: Duration,
    passive: bool,
    form_with_missing: bool,
    assume_durable: bool,
    seed: Option<u64>,
    observers: Vec<Arc<dyn LockObserver>>,
    redact: bool,
}

impl Default for LockManagerBuilder {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            #[cfg(feature = "redis")]
            replication: None,
            prefix: "lock:".to_owned(),
            set_name: String::new(),
            defaults: LockOptions::default(),
            ttl: None,
            default_max_ttl: Duration::from_secs(60),
            max_ttl: None,
            max_waiters: 1024,
            max_buffered_bytes: 64 * 1024 * 1024,
            audience: None,
            node_timeout: None,
            connect_timeout: Duration::from_secs(10),
            passive: false,
            form_with_missing: false,
            assume_durable: false,
            seed: None,
            observers: Vec::new(),
            redact: false,
        }
    }
}

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
    pub fn nodes<I>(mut self, nodes: I) -> Self
    where
        I: IntoIterator,
        I::Item: LockNode,
    {
        self.nodes.extend(nodes.into_iter().map(|node| Ok(NamedNode::Other(Arc::new(node)))));
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

    /// Sets the name of this set of masters. A client with another name is refused, so that the addresses of another set are
    /// noticed.
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
        self.set_name = name.into();
        self
    }

    /// Sets the default for [`LockRequest::ttl`](crate::LockRequest::ttl): how long a key lives unless it is renewed.
    ///
    /// From 100 ms to `max_ttl`. Defaults to 10 s, or to `max_ttl` if that is less.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{LockManager, MemoryNode};
    /// let locks = LockManager::builder().nodes([MemoryNode::new()]).ttl(Duration::from_secs(5)).connect().await?;
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// assert!(guard.remaining() <= Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the default for [`LockRequest::wait`](crate::LockRequest::wait): how long callers wait for a lock, for
    /// their turn in a burst of callers, and for a majority of the nodes that is gone for a moment.
    ///
    /// Up to one day; zero means to try once. Defaults to 2 s.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{LockError, LockManager, MemoryNode};
    /// let locks = LockManager::builder().nodes([MemoryNode::new()]).wait(Duration::ZERO).connect().await?;
    /// let _guard = locks.lock("stock:42").acquire().await?;
    /// let second = locks.lock("stock:42").acquire().await; // at once
    /// assert!(matches!(second, Err(LockError::Contended { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.defaults.wait = wait;
        self
    }

    /// Sets the default for [`LockRequest::max_hold`](crate::LockRequest::max_hold): how long a lock may be held in all.
    ///
    /// From 1 ms to 7 days. Defaults to 60 s.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{LockError, LockManager, LossReason, MemoryNode};
    /// let locks = LockManager::builder().nodes([MemoryNode::new()]).max_hold(Duration::from_secs(5)).connect().await?;
    /// let stuck = locks.lock("report:daily").run(async |_lease| std::future::pending::<()>().await).await;
    /// assert!(matches!(stuck, Err(LockError::Lost { reason: LossReason::MaxHold, .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.defaults.max_hold = max_hold;
        self
    }

    /// Sets the default for [`LockRequest::renew`](crate::LockRequest::renew): whether locks are renewed while they are held.
    ///
    /// Defaults to true.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{LockManager, MemoryNode};
    /// let locks = LockManager::builder().nodes([MemoryNode::new()]).renew(false).connect().await?;
    /// let guard = locks.lock("report:daily").ttl(Duration::from_secs(2)).acquire().await?;
    /// tokio::time::sleep(Duration::from_secs(2)).await;
    /// assert!(!guard.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub fn renew(mut self, renew: bool) -> Self {
        self.defaults.renew = renew;
        self
    }

    /// Sets the default for [`LockRequest::min_validity`](crate::LockRequest::min_validity): the validity that must be left of a
    /// grant.
    ///
    /// From zero to just below `ttl`. Defaults to zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use lock_core::{LockManager, MemoryNode};
    /// let locks = LockManager::builder()
    ///     .nodes([MemoryNode::new()])
    ///     .ttl(Duration::from_secs(10))
    ///     .min_validity(Duration::from_secs(8)) // a grant that took two seconds is given back
    ///     .connect()
    ///     .await?;
    /// assert!(locks.lock("stock:42").acquire().await?.remaining() >= Duration::from_secs(8));
    /// # Ok(())
    /// # }
    /// ```
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.defaults.min_validity = min_validity;
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

    /// Sets how many callers of this manager may wait for the same resource. Further ones get
    /// [`LockError::QueueFull`](crate::LockError::QueueFull).
    ///
    /// At least 1. Defaults to 1024.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .max_waiters(64) // the 65th caller that waits for a resource is turned away at once
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = max_waiters;
        self
    }

    /// Sets how many bytes of request bodies `lock-axum` keeps in memory, in all, before their handlers hold a lock of this
    /// manager. A request whose body does not fit is answered with 503 `lock-buffer-full`, and locks nothing. Without `lock-axum`,
    /// this has no effect.
    ///
    /// A client that sends slowly takes up what it has sent. While there is no room, the slowest upload is given up for a faster one, and
    /// answered with 408; `body_timeout` of layer and attribute limits each.
    ///
    /// At least 1. Defaults to 64 MiB.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .max_buffered_bytes(256 * 1024 * 1024)
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn max_buffered_bytes(mut self, max_buffered_bytes: usize) -> Self {
        self.max_buffered_bytes = max_buffered_bytes;
        self
    }

    /// Sets what this service is called in the delegations that it [adopts](LockManager::adopt). It adopts those for this
    /// [audience](crate::delegation::Delegate::audience), and those for nobody in particular.
    ///
    /// 1 to 128 bytes. Defaults to none.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use lock_core::{LockManager, MemoryNode};
    /// let nodes = [MemoryNode::new()];
    /// let shop = LockManager::builder().nodes(nodes.clone()).connect().await?;
    /// let payment = LockManager::builder().nodes(nodes).audience("payment").connect().await?;
    ///
    /// let guard = shop.lock("order:7").acquire().await?;
    /// let delegation = guard.delegate().audience("payment").create()?;
    /// let adopted = payment.adopt(delegation.as_str()).await?;
    /// assert_eq!(adopted.token(), guard.token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audience = Some(audience.into());
        self
    }

    /// Sets how long a node is given to reply, from when the request is written to the connection.
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
    /// loading its data (`LOADING`), PostgreSQL is starting up (`57P03`), a ZooKeeper ensemble has no leader, the sentinels do not agree.
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
    /// members. For tools that must leave no trace where there is no set. Locks work as long as other managers keep the set in order; this
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
        self.passive = passive;
        self
    }

    /// Sets whether a new set is formed although some of its masters do not answer, or a majority of its masters lost their data.
    /// All masters that answer then grant nothing for `max_ttl`, and a majority of the list has to answer.
    ///
    /// Nothing can tell a new set from one whose masters are at other addresses than this list says, if the masters that are in the
    /// list were wiped. So this is for a person to decide, once, and not for the settings of a service.
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
        self.form_with_missing = form_with_missing;
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
        self.assume_durable = assume_durable;
        self
    }

    /// Draws owner ids, epochs and jitter from this seed, so that a simulated run can be replayed. **Only for simulations**:
    /// two managers with the same seed draw the same owner ids, and mistake each other's locks for their own.
    ///
    /// Defaults to the system's randomness.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::{LockManager, MemoryNode};
    /// let locks = LockManager::builder().nodes([MemoryNode::new()]).seed(7).connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Adds an observer, which is told what the manager does: see [`LockObserver`]. With several, each is told.
    ///
    /// Defaults to none.
    pub fn observer(mut self, observer: Arc<dyn LockObserver>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Sets whether the names of resources are left out of spans, events and the dashboard of `lock-axum`, because they say something
    /// about customers, for example. The template and the fencing token remain.
    ///
    /// The errors that callers get still name the resource, which they know. The responses that `lock-axum` makes of them never do.
    ///
    /// Defaults to `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::LockManager;
    /// let locks = LockManager::builder()
    ///     .redis(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .redact(true) // spans and events have the template "user:{id}", and no ids
    ///     .connect_lazy()?;
    /// # Ok::<(), lock_core::ConfigError>(())
    /// ```
    pub fn redact(mut self, redact: bool) -> Self {
        self.redact = redact;
        self
    }

    /// Builds the manager without connecting; it connects when it is first used. Works outside a runtime.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a setting is wrong. Problems that only a connection can show are reported when locks are acquired, by
    /// [`health`](LockManager::health), and in the log.
    pub fn connect_lazy(mut self) -> Result<LockManager, ConfigError> {
        let max_ttl = self.longest_ttl();
        OutOfRange::check("max_ttl", max_ttl, MIN_TTL, MAX_TTL)?;
        self.defaults.ttl = self.ttl.unwrap_or(self.defaults.ttl.min(max_ttl));
        check_options(&self.defaults, max_ttl)?;
        if let Some(node_timeout) = self.node_timeout {
            OutOfRange::check("node_timeout", node_timeout, Duration::from_millis(1), Duration::from_secs(10))?;
        }
        let (shortest, longest) = CONNECT_TIMEOUT;
        OutOfRange::check("connect_timeout", self.connect_timeout, shortest, longest)?;
        if self.max_waiters == 0 {
            return Err(ConfigError::NoWaiters);
        }
        if self.max_buffered_bytes == 0 {
            return Err(ConfigError::NoBufferedBytes);
        }
        self.audience.as_deref().map_or(Ok(()), InvalidAudience::check)?;
        check_prefix(&self.prefix)
            .map_err(|reason| ConfigError::InvalidPrefix { prefix: self.prefix.clone(), reason })?;
        let nodes = check_nodes(self.take_nodes()?)?;
        if self.assume_durable && nodes.len() > 1 {
            return Err(ConfigError::DurableSet { nodes: nodes.len() });
        }
        check_prefix(&self.set_name)
            .map_err(|reason| ConfigError::InvalidSetName { set_name: self.set_name.clone(), reason })?;
        Ok(self.assemble(nodes))
    }

    fn longest_ttl(&self) -> Duration {
        self.max_ttl.unwrap_or(self.default_max_ttl)
    }

    /// Builds the manager over these nodes. All settings have been checked.
    pub(super) fn assemble(self, nodes: Vec<Arc<dyn LockNode>>) -> LockManager {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);

        let max_ttl = self.longest_ttl();
        nodes.iter().for_each(|node| node.set_max_ttl(max_ttl));

        let config = MembershipConfig {
            names: nodes.iter().map(|node| node.name().to_owned()).collect(),
            // In whole milliseconds, as the nodes' records keep it.
            max_ttl: Duration::from_millis(u64::try_from(max_ttl.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)),
            set_name: self.set_name,
            form_with_missing: self.form_with_missing,
            assume_durable: self.assume_durable,
            passive: self.passive,
        };
        let keyspace = Keyspace::new(&self.prefix);
        let random = self.seed.map_or_else(Random::from_system, Random::from_seed);
        let reporter = Arc::new(Reporter::new(self.observers, self.redact));
        let engine = Arc::new(Engine::new(nodes, keyspace, config, self.node_timeout, random, reporter));
        let closing = CancellationToken::new();
        let turns = Turns::new(&engine, self.max_waiters, closing.clone());
        let leases = Arc::new(LeaseRegistry::default());
        engine.home.add({
            let (engine, leases, stop) = (Arc::downgrade(&engine), Arc::clone(&leases), engine.stopped());
            move || run_renewer(engine.clone(), Arc::clone(&leases), stop.clone())
        });
        LockManager(Arc::new(Inner {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            engine,
            defaults: self.defaults,
            max_ttl,
            audience: self.audience,
            buffers: BufferBudget::new(self.max_buffered_bytes),
            turns,
            closing,
            leases,
            warned_of_order: AtomicBool::new(false),
        }))
    }

    /// Builds the manager and connects: waits until every first connection was made or failed, and every node that is admitted was
    /// asked to grant and renew a lock that nobody else can ask for. Takes at most about two seconds if a majority can be used. Otherwise
    /// waits for masters that are starting, up to the [`connect_timeout`](Self::connect_timeout): a service and its masters may be started
    /// together.
    ///
    /// # Errors
    ///
    /// - [`ConnectError::Config`] if a setting is wrong, or a node that answers must not be used: it is a replica, it evicts keys,
    ///   its version is too old, it is in cluster mode, its user lacks a permission, it is the same server as another node, or it
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
        let Inner { engine, .. } = &*locks.0;
        engine.home.start();
        check_masters(&engine.cluster, connect_timeout).await?;
        Ok(locks)
    }
}

impl fmt::Debug for LockManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<&str> = self.nodes.iter().flatten().map(NamedNode::name).collect();
        f.debug_struct("LockManagerBuilder")
            .field("nodes", &nodes)
            .field("prefix", &self.prefix)
            .field("defaults", &self.defaults)
            .finish_non_exhaustive()
    }
}
