use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::LockManager;
use super::manager::Inner;
use crate::error::LossReason;

/// How long a shutdown waits for releases that the nodes have not acknowledged, after the holders are gone. Keys that are left
/// expire with their time to live.
const RELEASE_GRACE: Duration = Duration::from_secs(1);

/// What became of the leases that were held when a shutdown began.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use std::time::Duration;
///
/// let locks = lock_core::LockManager::in_memory();
/// let (short, long) = (locks.lock("short").acquire().await?, locks.lock("long").acquire().await?);
/// drop(short); // before the shutdown: not counted
/// let report = locks.shutdown(Duration::from_millis(10)).await;
/// assert_eq!((report.released, report.revoked), (0, 1));
/// assert!(!long.is_valid(), "it was held for longer than the grace");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// The leases that ended within the grace: they were released, or lost.
    pub released: usize,
    /// The leases that were revoked after it.
    pub revoked: usize,
}

impl LockManager {
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
        // In this order: who is told that the manager closes finds it closed.
        self.0.shards.iter().for_each(|shard| shard.engine.close());
        self.0.background.closing.cancel();
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
        self.0.background.closing.clone().cancelled_owned()
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
        let Inner { background, leases, .. } = &*self.0;
        // After the close: a caller that acquires from now on finds the manager closed when it is about to get its guard, and gives the
        // lock back.
        let held = || leases.all().iter().filter(|lease| lease.is_valid()).count();
        let holders = held();
        _ = timeout(grace, leases.wait_until_empty()).await;
        // A lease that was lost before is not revoked, although its guard is alive.
        let revoked = held();
        for lease in &leases.all() {
            drop(lease.revoke(LossReason::ShutDown));
            leases.remove(lease, Instant::now());
        }
        background.tracker.close();
        if !background.tracker.is_empty() {
            // The runtime of what is in progress may be gone: then it goes on here.
            background.home.start();
        }
        let in_time = timeout(RELEASE_GRACE, background.tracker.wait()).await.is_ok();
        // Also for what goes on without anybody who waits: no node is to be reached any more. What waits for replies gets none.
        background.finished.cancel();
        background.unawaited.end();
        background.home.end().await;
        if !in_time {
            // Not without a limit: an acquisition or a release whose future is kept but never polled does not end.
            _ = timeout(RELEASE_GRACE, background.tracker.wait()).await;
        }
        if revoked > 0 {
            log_event!(warn: "lock.shutdown_revoked", revoked, "leases were revoked at the end of the shutdown grace");
        }
        ShutdownReport { released: holders.saturating_sub(revoked), revoked }
    }
}
