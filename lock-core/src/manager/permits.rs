use std::sync::Arc;
use std::time::Duration;

use super::{LockManager, LockRequest};
use crate::error::LockError;
use crate::lease::{Lease, PermitGuard};

impl LockManager {
    /// Begins a request for one of the permits of a resource, to be completed by one of the methods of [`PermitRequest`]: at most
    /// `permits` holders at once, from 1 to 100.
    ///
    /// Each permit is a *slot*: a whole lock, with its own key and its own fencing tokens. The permits of a resource and the
    /// [lock](Self::lock) on it know nothing of each other.
    ///
    /// All instances should ask for the same number. While they differ, at most the largest hold; see
    /// [`acquire`](PermitRequest::acquire).
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
    #[must_use = "nothing is acquired before acquire, try_acquire or run is awaited"]
    pub fn permits(&self, resource: impl AsRef<str>, permits: u32) -> PermitRequest {
        PermitRequest(LockRequest::new(self.clone(), resource.as_ref()).of_permits(permits))
    }
}

/// A request for a permit, with its options, which are those of a [`LockRequest`].
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// # let locks = lock_core::LockManager::in_memory();
/// let export = locks.permits("export", 3).ttl(Duration::from_secs(30)).wait(Duration::from_secs(5));
/// let permit = export.acquire().await?;
/// # drop(permit);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired before acquire, try_acquire or run is awaited"]
pub struct PermitRequest(LockRequest);

impl PermitRequest {
    /// As [`LockRequest::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// As [`LockRequest::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        Self(self.0.wait(wait))
    }

    /// As [`LockRequest::max_hold`].
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// As [`LockRequest::renew`].
    pub fn renew(self, renew: bool) -> Self {
        Self(self.0.renew(renew))
    }

    /// As [`LockRequest::min_validity`].
    pub fn min_validity(self, min_validity: Duration) -> Self {
        Self(self.0.min_validity(min_validity))
    }

    /// As [`LockRequest::template`].
    pub fn template(self, template: impl Into<Arc<str>>) -> Self {
        Self(self.0.template(template))
    }

    /// Acquires a permit, waiting for it up to `wait`.
    ///
    /// The first slot that is tried is the one that this process released last, so that a permit takes one round trip where
    /// processes mostly find their own slots free. If it is held, the nodes are asked once which are free, and one of those is tried.
    ///
    /// If none is, callers wait in one queue for all slots, in the order described at [`LockRequest::acquire`]; whichever slot is
    /// released first is the next one's. If the instances do not agree on the number of permits, a slot may be offered to one that
    /// may not have it, which leaves it to the next.
    ///
    /// # Errors
    ///
    /// As [`LockRequest::acquire`], and [`InvalidPermits`](LockError::InvalidPermits) immediately.
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest::acquire`].
    pub async fn acquire(self) -> Result<PermitGuard, LockError> {
        self.0.acquire().await.map(PermitGuard::new)
    }

    /// Acquires a permit if one is free, without waiting for a holder: at most one attempt for the slot that is tried first, and one
    /// for another slot that is free. It passes nobody who waits, as [`LockRequest::try_acquire`].
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(self) -> Result<PermitGuard, LockError> {
        self.0.try_acquire().await.map(PermitGuard::new)
    }

    /// Acquires a permit, runs `work` while holding it, and releases it in the background, as [`LockRequest::run`] does. Inside of it,
    /// acquiring a permit of the same resource gives the same lease.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let slot = locks.permits("export", 3).run(async |lease| lease.slot()).await?;
    /// assert!(slot.is_some_and(|slot| slot < 3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Lost`](LockError::Lost) as [`LockRequest::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest::run`].
    pub async fn run<T>(self, work: impl AsyncFnOnce(Lease) -> T) -> Result<T, LockError> {
        self.0.run(work).await
    }
}
