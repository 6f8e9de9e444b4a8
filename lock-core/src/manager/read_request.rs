use std::sync::Arc;
use std::time::Duration;

use super::LockRequest;
use crate::error::LockError;
use crate::lease::{Lease, ReadGuard};
use crate::mode::Mode;

/// A request to read under a lock, with its options, which default to the manager's.
///
/// Inside a scope in which the lock is read or written, there is one lease: the outer one, with its mode and its options.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// # let locks = lock_core::LockManager::in_memory();
/// let pages = locks.read("catalog").wait(Duration::from_secs(1)).run(async |_lease| 3).await?;
/// assert_eq!(pages, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before acquire, try_acquire or run is awaited"]
pub struct ReadRequest(LockRequest);

impl ReadRequest {
    pub(super) fn new(request: LockRequest) -> Self {
        Self(request.mode(Mode::Read))
    }

    /// As [`LockRequest::ttl`]. Readers of one process that differ in it do not share a hold on the nodes.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// As [`LockRequest::wait`]: while a writer holds the lock, or waits for it.
    pub fn wait(self, wait: Duration) -> Self {
        Self(self.0.wait(wait))
    }

    /// As [`LockRequest::max_hold`], for this reader.
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// As [`LockRequest::renew`]. A reader without renewal has a hold on the nodes of its own.
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

    /// Acquires the lock to read, waiting for it up to `wait`.
    ///
    /// # Errors
    ///
    /// As [`LockRequest::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest::acquire`].
    pub async fn acquire(self) -> Result<ReadGuard, LockError> {
        Ok(ReadGuard::new(self.0.acquire().await?))
    }

    /// Acquires the lock to read if no writer holds it or waits for it, in a single attempt. As [`LockRequest::try_acquire`], it passes
    /// nobody of this process who waits, nor who makes the first attempt to read.
    ///
    /// # Errors
    ///
    /// As [`LockRequest::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest::try_acquire`].
    pub async fn try_acquire(self) -> Result<ReadGuard, LockError> {
        Ok(ReadGuard::new(self.0.try_acquire().await?))
    }

    /// Acquires the lock to read, runs `work` while holding it, and releases it in the background, as [`LockRequest::run`] does.
    ///
    /// # Errors
    ///
    /// As [`LockRequest::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest::run`].
    pub async fn run<T>(self, work: impl AsyncFnOnce(Lease) -> T) -> Result<T, LockError> {
        self.0.run(work).await
    }
}
