use std::time::Duration;

use super::LockManager;
use crate::error::LockError;
use crate::lease::{Lease, LockGuard};
use crate::options::LockOptions;

/// A lock that is about to be taken, with its options. They default to the manager's.
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before acquire, try_acquire or run is awaited"]
pub struct LockRequest {
    locks: LockManager,
    resource: String,
    options: LockOptions,
}

impl LockRequest {
    pub(super) fn new(locks: LockManager, resource: &str) -> Self {
        let options = locks.0.defaults.clone();
        Self { locks, resource: resource.to_owned(), options }
    }

    /// How long a key lives on the nodes unless it is renewed: how long others wait if this process dies. From 100 ms to the
    /// manager's `max_ttl`.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// How long to wait for a lock that is held; zero tries once. Up to a day.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = wait;
        self
    }

    /// How long the lock may be held in all, renewals included: then the lease is lost. From 1 ms to 7 days.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = max_hold;
        self
    }

    /// Whether the lock is renewed while it is held. Without, it is lost when its time to live is over.
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = renew;
        self
    }

    /// The least validity with which the lock is of use: a grant with less counts as failed. Less than the time to live.
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.options.min_validity = min_validity;
        self
    }

    /// Takes the lock, waiting for it up to `wait`.
    ///
    /// The callers of one manager that wait for one resource are served in the order in which they came, and the managers in turns:
    /// a manager hands the lock from caller to caller, each with a token of its own, to at most sixteen in a row and for at most
    /// 20 ms, and then lets the others have it. One that [does not wait](Self::try_acquire) does not stand in line.
    ///
    /// # Errors
    ///
    /// [`Contended`](LockError::Contended) or [`Expired`](LockError::Expired) when the wait is over,
    /// [`NoQuorum`](LockError::NoQuorum) as soon as a majority of the nodes is known not to answer,
    /// [`QueueFull`](LockError::QueueFull), [`ShuttingDown`](LockError::ShuttingDown),
    /// [`InvalidResource`](LockError::InvalidResource) and [`InvalidOptions`](LockError::InvalidOptions) at once. Inside the
    /// scope of the same lock: [`Lost`](LockError::Lost) if that was lost.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, it leaves no lock behind: what was sent is released in the background.
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        self.locks.0.acquire(&self.resource, &self.options).await
    }

    /// Takes the lock if it is free; never waits for a holder.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(self) -> Result<LockGuard, LockError> {
        self.wait(Duration::ZERO).acquire().await
    }

    /// Takes the lock, runs `work` under it, and releases it in the background. If the lease is lost, the future of `work` is
    /// dropped where it stands. [`Lease::current`] tells the lease inside of it.
    ///
    /// ```
    /// # async fn example(locks: lock_core::LockManager) -> Result<(), lock_core::LockError> {
    /// let token = locks.lock("report").run(async |lease| lease.token()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Lost`](LockError::Lost) if the lease was lost before `work` was done. What it had
    /// done by then is done: let the resource check the token.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` where it stands, and then releases the lock.
    pub async fn run<T>(self, work: impl AsyncFnOnce(Lease) -> T) -> Result<T, LockError> {
        let guard = self.acquire().await?;
        let lease = guard.lease();
        // Declared after the guard, and so dropped before it: the work ends, then the lock.
        let working = lease.scope(work(lease.clone()));
        let output = tokio::select! {
            biased;
            () = lease.lost() => None,
            output = working => Some(output),
        };
        lease.check()?;
        output.ok_or_else(|| lease.lost_error())
    }
}
