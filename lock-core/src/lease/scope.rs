use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Lease;
use crate::quorum::validity;
use crate::resource::Resource;

tokio::task_local! {
    /// The leases under which the present task runs. A lock that is acquired again inside its own scope is the same lock.
    static SCOPE: Arc<Frame>;
}

struct Frame {
    lease: Lease,
    outer: Option<Arc<Frame>>,
}

impl Lease {
    /// The innermost lease under which this task runs: that of [`run`](crate::LockRequest::run), of a guarded function, or of
    /// a guarded handler. Spawned tasks do not inherit it; see [`scope`](Self::scope).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{Lease, LockManager};
    ///
    /// let locks = LockManager::in_memory();
    /// let resource = locks.lock("report").run(async |_| Lease::current().map(|lease| lease.resource().to_owned())).await?;
    /// assert_eq!(resource.as_deref(), Some("report"));
    /// assert!(Lease::current().is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        SCOPE.try_with(|frame| frame.lease.clone()).ok()
    }

    /// Runs a future under this lease: [`current`](Self::current) returns it, and acquiring the same resource of the same
    /// manager gives the same lease. For work that a guarded handler spawns and waits for.
    ///
    /// Futures that are joined inside one scope run concurrently, all under its lease: they do not exclude each other, even
    /// if each acquires the lock again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # use lock_core::{Lease, LockManager};
    /// # let locks = LockManager::in_memory();
    /// let guard = locks.lock("report").acquire().await?;
    /// let part = guard.scope(async { Lease::current().is_some() });
    /// assert!(tokio::spawn(part).await.unwrap());
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        let outer = SCOPE.try_with(Arc::clone).ok();
        SCOPE.scope(Arc::new(Frame { lease: self.clone(), outer }), work)
    }

    /// Waits until this much validity is left: at once, or after a renewal. Returns false if it never is, or not by this time.
    pub(crate) async fn has_left(&self, least: Duration, until: Instant) -> bool {
        // The common case, without a timer.
        if self.remaining() >= least {
            return true;
        }
        let most = validity(self.ttl(), Duration::ZERO).unwrap_or_default();
        while least <= most && self.renews() && self.is_valid() {
            // Asked for before the end is read, so that no renewal in between is missed.
            let extended = self.extended();
            if self.remaining() >= least {
                return true;
            }
            tokio::select! {
                biased;
                () = self.lost() => return false,
                () = extended => {}
                () = sleep_until(until) => return false,
            }
        }
        // The last renewal before the end of `max_hold` may have been enough.
        self.remaining() >= least
    }

    /// The lease on a resource of a manager under which this task runs, if it does.
    pub(crate) fn in_scope(manager: u64, resource: &Resource) -> Option<Self> {
        let find = |frame: &Arc<Frame>| {
            let mut frames = std::iter::successors(Some(frame), |frame| frame.outer.as_ref());
            frames.find(|frame| frame.lease.is_on(manager, resource)).map(|frame| frame.lease.clone())
        };
        SCOPE.try_with(find).ok().flatten()
    }
}
