use std::any::Any;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::shards::{Shard, place};
use super::string_list::StringList;
use super::{LockRequest, SetRequest};
use crate::delegation::Adoptions;
use crate::engine::Background;
use crate::kind::Kind;
use crate::lease::{Lease, LeaseRegistry};
use crate::observer::Reporter;
use crate::options::LockOptions;

/// Distributed locks over a set of independent masters. Cheap to clone; clones share connections, leases and shutdown.
///
/// # Runtimes
///
/// A manager can be used on several tokio runtimes, one after another or at the same time. They need timers and I/O
/// (`enable_all`).
///
/// The background tasks, which maintain the connections and renew the leases, run on the runtime on which the manager is first
/// used. If that runtime is shut down, they move at once to another runtime on which it is used. If the runtime is blocked, or nobody
/// drives it, they move within a second. Requests that were not answered by then fail as if the connections had broken. If there is no other
/// runtime, they are started again by the next use.
///
/// [`Lease::lost`](crate::Lease::lost) resolves in time on any runtime.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::LockManager;
///
/// let locks = LockManager::builder()
///     .redis(["redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379"])
///     .prefix("shop:")
///     .ttl(Duration::from_secs(10))
///     .connect()
///     .await?;
///
/// let guard = locks.lock("stock:42").acquire().await?;
/// println!("token {} for {:?}", guard.token(), guard.remaining());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LockManager(pub(super) Arc<Inner>);

/// What the clones of a manager share.
pub(super) struct Inner {
    /// Tells managers apart, for locks that are acquired inside their own scope.
    pub(super) id: u64,
    pub(super) background: Background,
    /// At least one, and a power of two of them.
    pub(super) shards: Vec<Shard>,
    pub(super) defaults: LockOptions,
    pub(super) max_ttl: Duration,
    /// What this service is called in delegations.
    pub(super) audience: Option<String>,
    pub(super) max_buffered_bytes: usize,
    /// What another crate keeps for this manager. See [`LockManager::companion`].
    pub(super) companion: OnceLock<Arc<dyn Any + Send + Sync>>,
    pub(super) leases: Arc<LeaseRegistry>,
    pub(super) adoptions: Arc<Adoptions>,
    /// Whether it was logged that locks are nested against the order of their names.
    pub(super) warned_of_order: AtomicBool,
}

/// Locks exclude each other whichever manager took them, unless the nodes are in memory: then another manager has others. A program that
/// makes one for each call, and drops it there, has locks that exclude nobody, or new connections for each.
impl Drop for Inner {
    fn drop(&mut self) {
        let held = self.leases.all().len();
        if held > 0 && !self.background.closing.is_cancelled() {
            log_event!(warn: "lock.manager_dropped", held,
                "a lock manager was dropped while its locks are held; make one for the whole service, and keep it: locks of a manager in \
                memory exclude nobody else");
        }
    }
}

impl Inner {
    /// The shard that has the lock on a resource, or on a slot of one.
    pub(super) fn shard_of(&self, resource: &str) -> &Shard {
        match &*self.shards {
            [only] => only,
            shards => &shards[place(resource, shards.len())],
        }
    }

    fn node_names(&self) -> Vec<&str> {
        let members = self.shards.iter().flat_map(|shard| &shard.engine.cluster.members);
        members.map(|member| member.node.name()).collect()
    }

    pub(super) fn reporter(&self) -> &Arc<Reporter> {
        &self.shards[0].engine.cluster.reporter
    }
}

impl LockManager {
    /// Begins a request for the lock on a resource, to be completed by one of the methods of [`LockRequest`].
    ///
    /// The name of a resource is 1 to 512 bytes of UTF-8 without control characters and braces; it is checked when the lock
    /// is taken.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").ttl(Duration::from_secs(5)).acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, resource: impl AsRef<str>) -> LockRequest {
        LockRequest::new(self.clone(), resource.as_ref())
    }

    /// Begins a request for the locks on several resources, to be completed by one of the methods of [`SetRequest`]: all of them
    /// or none, with one `wait` for all.
    ///
    /// `resources` is any [`IntoIterator`] of 1 to 32 names, in any order. Sets that have names in common never wait for each other in a
    /// circle.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let set = locks.lock_all(["user:7", "stock:42"]).acquire().await?;
    /// println!("tokens {} and {}", set[0].token(), set[1].token());
    /// set.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_all(&self, resources: impl StringList) -> SetRequest {
        SetRequest::new(self.clone(), resources)
    }

    /// Begins a request to hold the lock on a resource as a reader: together with other readers, but not with a writer, that is, a holder
    /// of [`lock`](Self::lock). The same as `lock(resource).kind(Kind::Read)`.
    ///
    /// A writer that waits bars the readers that come after it; those that waited before it go first, together. The readers of one
    /// process share one hold on the nodes, if they have the same `ttl` and renew it. A further reader joins without a round trip if
    /// the nodes said in the last 20 ms that no writer waits; otherwise it takes one.
    ///
    /// Readers may have the same [token](Lease::token). It is larger than the token of every writer before them, unless that
    /// writer [downgraded](crate::LockGuard::downgrade) to read with them, and smaller than the token of every writer after them.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let one = locks.read("catalog").acquire().await?;
    /// let other = locks.read("catalog").acquire().await?; // beside the first
    /// assert!(one.is_valid() && other.is_valid());
    /// assert!(locks.lock("catalog").try_acquire().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(&self, resource: impl AsRef<str>) -> LockRequest {
        self.lock(resource).kind(Kind::Read)
    }

    /// Begins a request for one of the permits of a resource: at most `permits` holders at once, from 1 to 100. The same as
    /// `lock(resource).kind(Kind::Permit { of: permits })`.
    ///
    /// Each permit is a *slot*: a whole lock, with its own key and its own fencing tokens, whose name, such as
    /// `export{2}`, is the [resource](Lease::resource) of the lease. The permits of a resource and the
    /// [lock](Self::lock) on it do not exclude each other.
    ///
    /// The slot that this process released last is tried first, so a permit takes one round trip if that one is still free. If it is
    /// held, the nodes say which slots are free, and one of those is tried. If none is, callers wait in one queue for all
    /// slots, and a slot that is released goes to one of the first of them.
    ///
    /// All instances should ask for the same number. While they differ, the largest number is the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let first = locks.permits("export", 2).acquire().await?;
    /// let second = locks.permits("export", 2).acquire().await?;
    /// assert_ne!(first.slot(), second.slot());
    /// assert!(locks.permits("export", 2).try_acquire().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn permits(&self, resource: impl AsRef<str>, permits: u32) -> LockRequest {
        self.lock(resource).kind(Kind::Permit { of: permits })
    }

    /// What `lock-axum` keeps for this manager, and for all of its clones: made when it is first asked for. Not public API.
    #[doc(hidden)]
    pub fn companion<T: Any + Send + Sync>(&self, make: impl Fn() -> Arc<T>) -> Arc<T> {
        let companion = self.0.companion.get_or_init(|| make());
        // There is one such crate, and it keeps one thing.
        Arc::clone(companion).downcast().unwrap_or_else(|_| make())
    }

    /// For how many bytes of request bodies there is room in memory. Not public API.
    #[doc(hidden)]
    pub fn max_buffered_bytes(&self) -> usize {
        self.0.max_buffered_bytes
    }

    /// Whether the names of resources are [kept out](crate::LockManagerBuilder::redact) of what people look at. Not public API.
    #[doc(hidden)]
    pub fn redacts(&self) -> bool {
        self.0.reporter().redact
    }

    /// The valid leases of this manager's guards.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// assert_eq!(locks.held()[0].token(), guard.token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn held(&self) -> Vec<Lease> {
        self.0.leases.all().into_iter().filter(Lease::is_valid).collect()
    }
}

opaque_debug!(LockManager, |this| "nodes": this.0.node_names(), "defaults": this.0.defaults);
