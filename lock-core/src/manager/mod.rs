//! The lock manager: what users hold.

mod acquire;
mod builder;
mod health;
mod request;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use self::builder::LockManagerBuilder;
pub use self::health::{Health, NodeHealth};
pub use self::request::LockRequest;
use crate::engine::Engine;
use crate::error::LossReason;
use crate::held::HeldLeases;
use crate::lease::{Lease, cut_off};
use crate::node::{LockNode, MemoryNode};
use crate::options::LockOptions;
use crate::waiting::Waiting;

/// Distributed locks over a set of independent masters. Cheap to clone; clones share connections, leases and shutdown.
///
/// The tasks that look after the masters and renew leases run on the runtime of the first use. When that one is shut down, they
/// are started again at the next use on another; leases that are held there meanwhile are not renewed.
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
pub struct LockManager(Arc<Inner>);

struct Inner {
    /// Tells managers apart, for locks that are taken inside their own scope.
    id: u64,
    engine: Arc<Engine>,
    defaults: LockOptions,
    max_ttl: Duration,
    waiting: Arc<Waiting>,
    closing: CancellationToken,
    held: Arc<HeldLeases>,
}

/// How long a shutdown waits for releases that no node has answered yet, after the holders are gone. Keys that are left end
/// with their time to live.
const RELEASE_GRACE: Duration = Duration::from_secs(1);

impl LockManager {
    /// A builder, with no nodes yet.
    pub fn builder() -> LockManagerBuilder {
        LockManagerBuilder::default()
    }

    /// A manager over five in-memory masters of its own: the same engine, no Redis. For development, tests and demos; the
    /// locks exclude nobody outside of this process. Works outside a runtime.
    #[must_use]
    pub fn in_memory() -> Self {
        let node = |_| Arc::new(MemoryNode::new()) as Arc<dyn LockNode>;
        LockManagerBuilder::default().assemble((0..5).map(node).collect())
    }

    /// A lock on a resource, to be taken by one of the methods of [`LockRequest`].
    ///
    /// The name is 1 to 512 bytes of UTF-8 without control characters and braces; it is checked when the lock is taken.
    #[must_use = "nothing is locked before acquire, try_acquire or run is awaited"]
    pub fn lock(&self, resource: impl AsRef<str>) -> LockRequest {
        LockRequest::new(self.clone(), resource.as_ref())
    }

    /// Refuses new acquisitions from now on, and wakes the callers that wait for a lock with
    /// [`LockError::ShuttingDown`](crate::LockError::ShuttingDown). Locks that are held stay held.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    /// Waits for a signal and then [closes](Self::close), whatever the signal's output: for axum's
    /// `with_graceful_shutdown`, so that requests that wait for a lock do not hold the server up.
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

    /// Ends the manager: closes it, waits up to `grace` for the holders, and cuts off those that are left: their leases are
    /// lost and their keys released. Then waits for the releases that are under way.
    ///
    /// Call it after the server has stopped: `axum::serve` returns before the locks of its last requests are released.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves the manager closed and the holders alone; it can be called again.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.close();
        let Inner { engine, held, .. } = &*self.0;
        let holders = held.all().len();
        _ = timeout(grace, held.none_left()).await;
        let left = held.all();
        // One that was lost before is not cut off, though its guard is alive.
        let revoked = left.iter().filter(|lease| lease.is_valid()).count();
        for lease in &left {
            drop(cut_off(engine, lease, LossReason::ShutDown));
            held.remove(lease);
        }
        engine.tracker.close();
        if timeout(RELEASE_GRACE, engine.tracker.wait()).await.is_err() {
            engine.finished.cancel();
            // An acquisition or a release that nobody polls any more would be waited for in vain.
            _ = timeout(RELEASE_GRACE, engine.tracker.wait()).await;
        }
        if revoked > 0 {
            tracing::warn!(name: "lock.shutdown_revoked", revoked, "locks were cut off at the end of the grace");
        }
        ShutdownReport { released: holders.saturating_sub(revoked), revoked }
    }

    /// How the nodes stand, by asking each of them now. Takes up to two seconds if one does not answer.
    pub async fn health(&self) -> Health {
        self.0.start();
        health::check(&self.0.engine.cluster).await
    }

    /// The leases that this manager's guards hold at present.
    #[must_use]
    pub fn held(&self) -> Vec<Lease> {
        self.0.held.all().into_iter().filter(Lease::is_valid).collect()
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<&str> = self.0.engine.cluster.members.iter().map(|member| member.node.name()).collect();
        f.debug_struct("LockManager").field("nodes", &nodes).field("defaults", &self.0.defaults).finish_non_exhaustive()
    }
}

/// What a shutdown met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// The leases that ended by themselves within the grace.
    pub released: usize,
    /// The leases that were cut off after it.
    pub revoked: usize,
}
