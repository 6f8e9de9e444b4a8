use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::buffered_bytes::BufferBudget;
use super::shutdown::{self, ShutdownReport};
use super::{BufferedBytes, LockManagerBuilder, LockRequest, SetRequest};
use crate::engine::Engine;
use crate::error::LockError;
use crate::inspection::{self, ForceRelease, ForcedRelease, LockReport, Waiting};
use crate::kind::Kind;
use crate::lease::{Lease, LeaseRegistry};
use crate::limits::OutOfRange;
use crate::masters::health::{self, Health};
use crate::masters::{self, Members, NotReady};
use crate::node::{LockKeys, LockNode, MemoryNode};
use crate::options::LockOptions;
use crate::resource::Resource;
use crate::waiting::Turns;

/// Distributed locks over a set of independent masters. Cheap to clone; clones share connections, leases and shutdown.
///
/// # Runtimes
///
/// A manager can be used on several tokio runtimes, one after another or at the same time. They need timers and I/O
/// (`enable_all`).
///
/// The background tasks, which maintain the connections and renew the leases, run on the runtime on which the manager is first
/// used. If that runtime is shut down, they move at once to another one on which it is used; if it is blocked, or nobody drives
/// it, within a second. Requests that were not answered by then fail as if the connections had broken. If there is no other
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
    pub(super) engine: Arc<Engine>,
    pub(super) defaults: LockOptions,
    pub(super) max_ttl: Duration,
    /// What this service is called in delegations.
    pub(super) audience: Option<String>,
    pub(super) buffers: BufferBudget,
    pub(super) turns: Arc<Turns>,
    /// Cancelled when the manager is closed.
    pub(super) closing: CancellationToken,
    pub(super) leases: Arc<LeaseRegistry>,
    /// Whether it was logged that locks are nested against the order of their names.
    pub(super) warned_of_order: AtomicBool,
}

/// Locks exclude each other whichever manager took them, unless the nodes are in memory: then another manager has others. A program that
/// makes one for each call, and drops it there, has locks that exclude nobody, or new connections for each.
impl Drop for Inner {
    fn drop(&mut self) {
        let held = self.leases.all().len();
        if held > 0 && !self.closing.is_cancelled() {
            tracing::warn!(name: "lock.manager_dropped", held,
                "a lock manager was dropped while its locks are held; make one for the whole service, and keep it: locks of a manager in \
                memory exclude nobody else");
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
        LockManagerBuilder::default().assemble((0..5).map(node).collect())
    }

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
    #[must_use = "nothing is locked before acquire, try_acquire or run is awaited"]
    pub fn lock(&self, resource: impl AsRef<str>) -> LockRequest {
        LockRequest::new(self.clone(), resource.as_ref())
    }

    /// Begins a request for the locks on several resources, to be completed by one of the methods of [`SetRequest`]: all of them
    /// or none, with one `wait` for all.
    ///
    /// 1 to 32 names, in any order. Sets that have names in common never wait for each other in a circle, however they are written.
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
    #[must_use = "nothing is locked before acquire, try_acquire or run is awaited"]
    pub fn lock_all<I>(&self, resources: I) -> SetRequest
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        SetRequest::new(self.clone(), resources)
    }

    /// Begins a request for the lock on a resource to read it: beside other readers, but not beside a writer, which is every holder of
    /// [`lock`](Self::lock). The same as `lock(resource).kind(Kind::Read)`.
    ///
    /// A writer that waits bars the readers that come after it; those that waited before it go first, together. The readers of one
    /// process share one hold on the nodes, if they have the same `ttl` and renew it. One that comes later joins without a round trip if
    /// the nodes said in the last 20 ms that no writer waits, and with one otherwise.
    ///
    /// Readers may have the same [token](Lease::token). It is larger than that of every writer before them, unless that writer
    /// [downgraded](crate::LockGuard::downgrade) to read with them, and smaller than that of every writer after them.
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
    #[must_use = "nothing is locked before acquire, try_acquire or run is awaited"]
    pub fn read(&self, resource: impl AsRef<str>) -> LockRequest {
        self.lock(resource).kind(Kind::Read)
    }

    /// Begins a request for one of the permits of a resource: at most `permits` holders at once, from 1 to 100. The same as
    /// `lock(resource).kind(Kind::Permit { of: permits })`.
    ///
    /// Each permit is a *slot*: a whole lock, with its own key and its own fencing tokens, whose name is that of the
    /// [lease](Lease::resource), such as `export{2}`. The permits of a resource and the [lock](Self::lock) on it know nothing of each other.
    ///
    /// The first slot that is tried is the one that this process released last, so that a permit takes one round trip where
    /// processes mostly find their own slots free. If it is held, the nodes are asked once which are free, and one of those is tried.
    /// If none is, callers wait in one queue for all slots; whichever slot is released first is the next one's.
    ///
    /// All instances should ask for the same number. While they differ, at most the largest hold, and a slot may be offered to an instance
    /// that may not have it, which leaves it to the next.
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
    #[must_use = "nothing is locked before acquire, try_acquire or run is awaited"]
    pub fn permits(&self, resource: impl AsRef<str>, permits: u32) -> LockRequest {
        self.lock(resource).kind(Kind::Permit { of: permits })
    }

    /// Refuses new acquisitions from now on, and wakes the callers that wait for a lock with
    /// [`LockError::ShuttingDown`](crate::LockError::ShuttingDown). Held locks stay held.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let waiting = tokio::spawn({
    ///     let locks = locks.clone();
    ///     async move { locks.lock("stock:42").acquire().await }
    /// });
    /// locks.close();
    /// assert!(matches!(waiting.await.unwrap(), Err(lock_core::LockError::ShuttingDown { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(&self) {
        self.0.closing.cancel();
        self.0.engine.close_lines();
    }

    /// Waits for a signal, whatever its output, and then [closes](Self::close) the manager. For axum's
    /// `with_graceful_shutdown`, so that requests that wait for a lock do not delay the shutdown of the server.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let stop = tokio::sync::oneshot::channel::<()>();
    /// let closed = locks.close_on(stop.1); // or ctrl_c()
    /// stop.0.send(()).unwrap();
    /// closed.await;
    /// assert!(locks.lock("stock:42").acquire().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn close_on<F>(&self, signal: F) -> impl Future<Output = ()> + Send + 'static + use<F>
    where
        F: Future + Send + 'static,
    {
        let locks = self.clone();
        async move {
            signal.await;
            locks.close();
        }
    }

    /// Resolves when the manager is [closed](Self::close); at once if it is already. For streams that would hold up the shutdown of
    /// the server.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped and created again at any time.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let closed = locks.closed();
    /// locks.close();
    /// closed.await;
    /// # }
    /// ```
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.0.closing.clone().cancelled_owned()
    }

    /// Shuts the manager down: closes it, waits up to `grace` for the holders, and revokes the leases that are left: they are
    /// lost, and their keys released. Then waits for the releases that are in progress, at most about two seconds, and ends the
    /// background tasks and the connections, on every runtime. The manager opens none again.
    ///
    /// Call it after the server has stopped: `axum::serve` returns before the locks of its last requests are released.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, the manager stays closed and the holders keep their locks. It can be called again.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("report").acquire().await?;
    /// let report = locks.shutdown(Duration::from_millis(10)).await;
    /// assert_eq!(report.revoked, 1);
    /// assert!(!guard.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.close();
        shutdown::shut_down(&self.0.engine, &self.0.leases, grace).await
    }

    /// The state of the nodes, by asking each of them now: what it is, and then to grant and renew a lock that nobody else can ask for.
    /// Takes up to two seconds if one does not answer. After a [shutdown](Self::shutdown), nothing is asked, and no node is reachable.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let health = locks.health().await;
    /// assert!(health.quorum && health.nodes.iter().all(|node| node.admitted));
    /// # }
    /// ```
    pub async fn health(&self) -> Health {
        let Engine { home, cluster, .. } = &*self.0.engine;
        home.run(|| health::check(Arc::clone(cluster))).await.unwrap_or_else(|| health::after_shutdown(cluster))
    }

    /// Whether locks can be acquired, by asking each node as [`health`](Self::health) does, but only until a majority would grant a
    /// lock: a minority that is hung delays nothing. Takes up to three seconds if no majority answers.
    ///
    /// # Errors
    ///
    /// [`NotReady`] if the manager is closed, or too few nodes would grant a lock, with the reason of each.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let locks = lock_core::LockManager::in_memory();
    /// assert_eq!(locks.ready().await, Ok(()));
    /// locks.close();
    /// assert_eq!(locks.ready().await.unwrap_err().to_string(), "the lock manager is closed");
    /// # }
    /// ```
    pub async fn ready(&self) -> Result<(), NotReady> {
        if self.0.closing.is_cancelled() {
            return Err(NotReady::Closed);
        }
        let Engine { home, cluster, .. } = &*self.0.engine;
        home.run(|| masters::ready(Arc::clone(cluster))).await.unwrap_or(Err(NotReady::Closed))
    }

    /// Who the members of the set are, by asking each node now; `None` if no set was formed, none is known, or the manager was
    /// shut down. Takes up to two seconds if a node does not answer.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use lock_core::LockManager;
    /// use lock_core::masters::SeatState;
    ///
    /// let locks = LockManager::in_memory();
    /// let members = locks.members().await.unwrap();
    /// assert_eq!(members.generation, 1);
    /// assert!(members.seats.iter().all(|seat| seat.state == SeatState::Votes));
    /// # }
    /// ```
    pub async fn members(&self) -> Option<Members> {
        let Engine { home, cluster, .. } = &*self.0.engine;
        home.run(|| masters::members(Arc::clone(cluster))).await.flatten()
    }

    /// What the nodes have of the lock on a resource, by asking each of them now, also those that do not vote: who holds it, for how
    /// much longer, and how many wait. Changes nothing. Takes up to two seconds if a node does not answer.
    ///
    /// Holders are named by [tags](crate::inspection::HolderTag). Whose a tag is, nodes do not know.
    ///
    /// [Permits](Self::permits) are asked for one by one, by the names of their slots: `export{0}`, `export{1}`. Their queue is one, so
    /// each says how many wait for any of them. The lock on `export` is another one.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidResource`], and [`LockError::ShuttingDown`] if the manager was shut down. Nodes that do not reply are in the
    /// report.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::inspection::LockVerdict;
    ///
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// let report = locks.inspect("stock:42").await?;
    /// assert_eq!(report.verdict(), LockVerdict::Held);
    /// assert!(report.nodes.iter().all(|node| node.fence >= Some(guard.token().get())));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self, resource: impl AsRef<str>) -> Result<LockReport, LockError> {
        let (resource, keys) = self.keys_of(resource.as_ref())?;
        let Engine { home, cluster, .. } = &*self.0.engine;
        let report = home.run(|| inspection::inspect(Arc::clone(cluster), keys.clone(), resource.clone())).await;
        report.ok_or(LockError::ShuttingDown { resource, waited: Duration::ZERO })
    }

    /// Takes the lock on a resource from whoever holds it, and lets the next caller have it. For operators, and for holders that will
    /// not release: a process that hangs, or a stranger's key that does not expire.
    ///
    /// The former holder cannot renew, nor have the lock again under the same grant. **It is not stopped at once**: it notices with its
    /// next renewal, a third of its `ttl` after the last one, and may work until then beside the next holder. If it does not renew,
    /// or was renewed up to the end of `max_hold`, it notices at the end of its validity. To shut it out at once, claim [`ForcedRelease::token`] at the resource:
    /// every write that carries a token of the former holder is refused from then on. A holder in this very manager is notified at
    /// once.
    ///
    /// The masters grant the lock to nobody for 125 ms. Only until then may further callers in the former holder's process get it by what
    /// that holder was told: readers that join it, or waiters to which it is handed over. This returns when the 125 ms are over, so that
    /// the lock can be had.
    ///
    /// The holder of a [permit](Self::permits) is evicted by the name of its slot, such as `export{2}`.
    ///
    /// Evicted is who holds the lock when the nodes are first asked: of a lock that is [read](Self::read), all its readers. A successor
    /// that acquires it meanwhile keeps it. If nobody holds it, the token is issued all the same.
    ///
    /// # Errors
    ///
    /// - [`LockError::NoQuorum`] if fewer than a majority of the nodes replied. The holder may have lost its key on the others. Call
    ///   it again.
    /// - [`LockError::Contended`] if somebody else acquired the lock meanwhile: the former holder has lost it.
    /// - [`LockError::NotALock`] if the key of the lock is something else.
    /// - [`LockError::InvalidResource`], and [`LockError::ShuttingDown`] if the manager was shut down.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it goes on: the holder is evicted all the same.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let stuck = locks.lock("stock:42").acquire().await?;
    /// let forced = locks.force_release("stock:42").await?;
    /// assert!(stuck.token() < forced.token);
    ///
    /// let next = locks.lock("stock:42").try_acquire().await?;
    /// assert!(forced.token < next.token());
    /// assert!(!stuck.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release(&self, resource: impl AsRef<str>) -> Result<ForcedRelease, LockError> {
        let (resource, keys) = self.keys_of(resource.as_ref())?;
        let (engine, leases, max_ttl) = (&self.0.engine, &self.0.leases, self.0.max_ttl);
        let seen = Arc::default();
        let forced = engine.home.run(|| {
            let (engine, leases, seen) = (Arc::clone(engine), Arc::clone(leases), Arc::clone(&seen));
            ForceRelease { engine, leases, keys: keys.clone(), resource: resource.clone(), max_ttl, seen }.run()
        });
        let forced = forced.await;
        forced.unwrap_or(Err(LockError::ShuttingDown { resource, waited: Duration::ZERO }))
    }

    /// The name of a resource or of a slot, if it is valid, and the keys of its lock.
    fn keys_of(&self, resource: &str) -> Result<(String, LockKeys), LockError> {
        let parsed = Resource::parse_with_slot(resource);
        let parsed = parsed.map_err(|reason| LockError::InvalidResource { resource: resource.to_owned(), reason })?;
        Ok((resource.to_owned(), self.0.engine.cluster.keyspace.keys(&parsed)))
    }

    /// Lowers the longest time to live of the set, and for how long a master that joins grants nothing. This takes as long as the
    /// longest lock may live that was granted before.
    ///
    /// Every manager with a longer `max_ttl` raises it again, so those have to be gone. This also returns if it was raised
    /// meanwhile: [`members`](Self::members) says what `max_ttl` is. If this manager is shut down, it returns at once; then ask another.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is below the `max_ttl` of this manager, or above one day.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, what is done stays done. Call it again: it begins with the wait if that is all that is left.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::{LockManager, MemoryNode};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
    /// # LockManager::builder().nodes(nodes.clone()).connect().await?;
    /// let locks = LockManager::builder().nodes(nodes).max_ttl(Duration::from_secs(20)).connect().await?;
    /// locks.lower_max_ttl(Duration::from_secs(20)).await?;
    /// assert_eq!(locks.members().await.unwrap().max_ttl, Duration::from_secs(20));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lower_max_ttl(&self, max_ttl: Duration) -> Result<(), OutOfRange> {
        let Engine { home, cluster, .. } = &*self.0.engine;
        home.start();
        tokio::select! {
            biased;
            lowered = masters::lower_max_ttl(cluster, self.0.max_ttl, max_ttl) => lowered,
            () = cluster.stop.cancelled() => Ok(()),
        }
    }

    /// An account for the bytes of one request body. Not public API.
    #[doc(hidden)]
    #[must_use]
    pub fn buffered_bytes(&self) -> BufferedBytes {
        self.0.buffers.account()
    }

    /// The limit of all those accounts together. Not public API.
    #[doc(hidden)]
    #[must_use]
    pub fn max_buffered_bytes(&self) -> usize {
        self.0.buffers.limit
    }

    /// Whether the names of resources are [kept out](LockManagerBuilder::redact) of what people look at. Not public API.
    #[doc(hidden)]
    #[must_use]
    pub fn redacts(&self) -> bool {
        self.0.engine.cluster.reporter.redacts()
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
    #[must_use]
    pub fn held(&self) -> Vec<Lease> {
        self.0.leases.all().into_iter().filter(Lease::is_valid).collect()
    }

    /// The resources that callers of this manager wait for, in no order. Callers that make a single attempt do not wait.
    ///
    /// Nothing is counted for it before it is called: it looks at the queue of every lock that is held or waited for.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").template("stock:{sku}").acquire().await?;
    /// assert!(locks.waiting().is_empty());
    ///
    /// let mut second = std::pin::pin!(locks.lock("stock:42").acquire());
    /// assert!(futures_util::poll!(second.as_mut()).is_pending());
    /// let waiting = locks.waiting();
    /// assert_eq!((waiting[0].resource.as_str(), waiting[0].callers), ("stock:42", 1));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn waiting(&self) -> Vec<Waiting> {
        inspection::waiting(&self.0.turns, &self.0.engine.cluster.keyspace)
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<&str> = self.0.engine.cluster.members.iter().map(|member| member.node.name()).collect();
        f.debug_struct("LockManager").field("nodes", &nodes).field("defaults", &self.0.defaults).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn beginning_again_on_another_runtime_evicts_no_successor() {
        let locks = LockManager::in_memory();
        let former = locks.lock("r").acquire().await.unwrap();
        let (inner, seen) = (&locks.0, Arc::default());
        let resource = crate::resource::Resource::parse("r").unwrap();
        let force_release = || ForceRelease {
            engine: Arc::clone(&inner.engine),
            leases: Arc::clone(&inner.leases),
            keys: inner.engine.cluster.keyspace.keys(&resource),
            resource: "r".to_owned(),
            max_ttl: inner.max_ttl,
            seen: Arc::clone(&seen),
        };
        force_release().run().await.unwrap();
        assert!(!former.is_valid());
        let successor = locks.lock("r").acquire().await.unwrap();
        let again = force_release().run().await;
        assert!(matches!(again, Err(LockError::Contended { .. })), "{again:?}");
        assert!(successor.release().await.unwrap(), "it still has the lock");
    }
}
