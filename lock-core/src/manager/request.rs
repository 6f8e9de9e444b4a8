use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use super::check_options::check_options;
use crate::error::LockError;
use crate::kind::Kind;
use crate::lease::{Lease, LockGuard};
use crate::limits::OutOfRange;
use crate::options::LockOptions;

/// A request for a lock, of any [`Kind`], with its options, which default to the manager's.
///
/// Inside the scope of the same lock there is one lease, with the kind and the options of the outermost request: `ttl`, `max_hold` and
/// `renew` of an inner one do not apply. A permit and the lock on its resource are two locks.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// # let locks = lock_core::LockManager::in_memory();
/// let report = locks.lock("report:daily").ttl(Duration::from_secs(30)).max_hold(Duration::from_secs(600));
/// let guard = report.acquire().await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
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

    /// Sets the kind of the lock: what may be held together with it. For code that decides this at run time. [`LockManager::read`] and
    /// [`LockManager::permits`] also set it.
    ///
    /// Defaults to [`Kind::Write`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::Kind;
    ///
    /// # let locks = lock_core::LockManager::in_memory();
    /// # let publishes = false;
    /// let kind = if publishes { Kind::Write } else { Kind::Read };
    /// let guard = locks.lock("catalog").kind(kind).acquire().await?;
    /// assert_eq!(guard.kind(), Kind::Read);
    /// # Ok(())
    /// # }
    /// ```
    pub fn kind(mut self, kind: Kind) -> Self {
        self.options.kind = kind;
        self
    }

    /// Sets how long the key lives on the nodes unless it is renewed: this is how long others wait if this process crashes.
    ///
    /// From 100 ms to the manager's `max_ttl`. Defaults to the manager's `ttl`.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// Sets how long to wait for the lock: while another owner holds it, while many other callers of this manager are making
    /// their attempts, and while a majority of the nodes is gone for a moment. Zero means to try once.
    ///
    /// Up to one day. Defaults to the manager's `wait`.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = wait;
        self
    }

    /// Sets how long the lock may be held in all, renewals included. After that the lease is lost.
    ///
    /// From 1 ms to 7 days. Defaults to the manager's `max_hold`.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = max_hold;
        self
    }

    /// Sets whether the lock is renewed while it is held. Without renewal, the lease is lost when its time to live is over.
    ///
    /// Defaults to the manager's `renew`.
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = renew;
        self
    }

    /// Sets the minimum validity: a grant with less of it left counts as failed.
    ///
    /// Inside the scope of the same lock, the caller waits until a renewal gives the shared lease that much, up to `wait`. If none
    /// does in time, it gets [`Expired`](LockError::Expired), and the lease goes on.
    ///
    /// From zero to just below the time to live. Defaults to the manager's `min_validity`.
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.options.min_validity = min_validity;
        self
    }

    /// Sets the template that the resource was made from, such as `stock:{sku}`: the label of the lock in metrics and traces, where
    /// the names of resources would be too many. The layer and the macro of `lock-axum` set it themselves.
    ///
    /// Use a fixed text. Defaults to none, which [`LockObserver`](crate::LockObserver)s are told as `other`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// # let sku = 42;
    /// let guard = locks.lock(format!("stock:{sku}")).template("stock:{sku}").acquire().await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn template(mut self, template: impl Into<Arc<str>>) -> Self {
        self.options.template = Some(template.into());
        self
    }

    /// Checks the options without acquiring anything. Not public API: `lock-axum` checks a layer when it is built.
    ///
    /// # Errors
    ///
    /// The first option that is out of range.
    #[doc(hidden)]
    pub fn check_options(&self) -> Result<(), OutOfRange> {
        check_options(&self.options, self.locks.0.max_ttl)
    }

    /// Acquires the lock, waiting for it up to `wait`.
    ///
    /// The callers of one manager that wait for the same resource are served in the order in which they called. Managers take
    /// turns: a manager hands the lock over from caller to caller, each with its own token, for sixteen callers or 20 ms at most, and then
    /// leaves it to the other managers. A caller that [does not wait](Self::try_acquire) takes no place
    /// in the queue.
    ///
    /// A manager makes at most 128 attempts at once on five nodes, and 640 on one, so that a burst of callers does not flood them; the
    /// others wait in line.
    /// If no majority replies, the attempt is repeated inside `wait`, with growing pauses. Once the quorum has been lost for a second,
    /// callers get an error at once, until a majority is back. A manager that
    /// [connects lazily](crate::LockManagerBuilder::connect_lazy) gives its first connections a second of their own before.
    ///
    /// # Errors
    ///
    /// - [`Contended`](LockError::Contended) or [`Expired`](LockError::Expired) when the wait is over.
    /// - [`NoQuorum`](LockError::NoQuorum) when the quorum has been lost for a second; or when the wait is over, if the last
    ///   attempt had none, or never had its turn in the line.
    /// - [`QueueFull`](LockError::QueueFull), [`ShuttingDown`](LockError::ShuttingDown),
    ///   [`InvalidResource`](LockError::InvalidResource), [`InvalidOptions`](LockError::InvalidOptions) and
    ///   [`InvalidPermits`](LockError::InvalidPermits) immediately.
    /// - [`Lost`](LockError::Lost) inside the scope of the same lock, if that lock was lost, and [`Upgrade`](LockError::Upgrade) if it
    ///   is read there.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped at any point, no lock is left behind: whatever was sent is released in the background. The caller
    /// loses its place in the queue.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// assert!(guard.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        self.locks.0.acquire(&self.resource, &self.options).await
    }

    /// Acquires the lock if it is free, in a single attempt: it does not wait for a holder, and does not try again if no majority
    /// of the nodes replies. It overtakes nobody: while other callers of this manager wait for the lock or are about to take it, or while
    /// the nodes reserve it for another process, the result is [`Contended`](LockError::Contended) at once. For a permit, it makes a
    /// second attempt if another slot is free.
    ///
    /// In a burst of callers it may have to wait in line for its attempt, but at most for the node timeout. The result comes
    /// within two node timeouts, or three if a connection had to be made first. A reader that asks whether it may share a lock, and the
    /// second attempt at a permit, take up to two more.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let _guard = locks.lock("stock:42").try_acquire().await?;
    /// assert!(locks.lock("stock:42").try_acquire().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire(self) -> Result<LockGuard, LockError> {
        self.wait(Duration::ZERO).acquire().await
    }

    /// Acquires the lock, runs `work` while holding it, and releases it in the background. If the lease is lost, the future of
    /// `work` is dropped. Inside of it, [`Lease::current`] returns the lease.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let token = locks.lock("report").run(async |lease| lease.token()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Lost`](LockError::Lost) if the lease was lost before `work` was done. What `work` did
    /// until then is not undone: have the data store check the token.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `work` is dropped first, and then the lock is released.
    pub async fn run<T>(self, work: impl AsyncFnOnce(Lease) -> T) -> Result<T, LockError> {
        let guard = self.acquire().await?;
        let lease = guard.lease();
        // Declared after the guard, and so dropped before it: the work ends before the lock does.
        let scope = lease.as_scope();
        let work = scope.call(|| work(lease.clone()));
        tokio::select! {
            biased;
            () = lease.lost() => Err(lease.lost_error()),
            output = scope.enter(work) => lease.check().map(|()| output),
        }
    }
}
