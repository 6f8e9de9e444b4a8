use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use super::string_list::StringList;
use crate::error::LockError;
use crate::kind::Kind;
use crate::lease::{Leases, SetGuard};
use crate::options::LockOptions;

/// A request for the locks on several resources, with options for all of them, which default to the manager's.
///
/// The locks are acquired all or none, with one `wait` for all, and each has a token of its own. Two names that are the same are
/// one lock. A lock that an outer scope of the same manager holds is shared with that scope.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// # let locks = lock_core::LockManager::in_memory();
/// let transfer = locks.lock_all(["account:7", "account:42"]).wait(Duration::from_secs(5));
/// transfer.run(async |leases| println!("tokens {} and {}", leases[0].token(), leases[1].token())).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before acquire, try_acquire or run is awaited"]
pub struct SetRequest {
    locks: LockManager,
    resources: Vec<String>,
    /// How many of them were written in [`LockManager::lock_all`]. The others are read.
    to_write: usize,
    templates: Vec<Arc<str>>,
    options: LockOptions,
}

/// One of the resources of a set, as written.
pub(super) struct SetMember {
    pub(super) resource: String,
    pub(super) options: LockOptions,
}

impl SetRequest {
    pub(super) fn new(locks: LockManager, resources: impl StringList) -> Self {
        let options = locks.0.defaults.clone();
        let resources: Vec<_> = resources.into_iter().map(|resource| resource.as_ref().to_owned()).collect();
        Self { locks, to_write: resources.len(), resources, templates: Vec::new(), options }
    }

    /// Adds locks that are only [read](LockManager::read), after those that are written. A name in both is written.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::Kind;
    ///
    /// # let locks = lock_core::LockManager::in_memory();
    /// let set = locks.lock_all(["stock:42"]).read(["catalog"]).acquire().await?;
    /// assert_eq!((set[0].kind(), set[1].kind()), (Kind::Write, Kind::Read));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(mut self, resources: impl StringList) -> Self {
        self.resources.extend(resources.into_iter().map(|resource| resource.as_ref().to_owned()));
        self
    }

    /// Sets how long the keys live on the nodes unless they are renewed. See [`LockRequest::ttl`](crate::LockRequest::ttl).
    ///
    /// From 100 ms to the manager's `max_ttl`. Defaults to the manager's `ttl`.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// Sets how long to wait for all locks together. Zero means to try once.
    ///
    /// Up to one day. Defaults to the manager's `wait`.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = wait;
        self
    }

    /// Sets how long the locks may be held in all, renewals included, counted from when the set is complete. After that the leases
    /// are lost.
    ///
    /// From 1 ms to 7 days. Defaults to the manager's `max_hold`.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = max_hold;
        self
    }

    /// Sets whether the locks are renewed while they are held. Without renewal, the leases are lost when the time to live of the lock that was
    /// granted first is over.
    ///
    /// Defaults to the manager's `renew`.
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = renew;
        self
    }

    /// Sets the minimum validity that each lock has left when the set is complete.
    ///
    /// From zero to just below the time to live. Defaults to the manager's `min_validity`.
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.options.min_validity = min_validity;
        self
    }

    /// Sets the templates that the resources were made from, in the same order. See
    /// [`LockRequest::template`](crate::LockRequest::template).
    ///
    /// Use fixed texts. Defaults to none, which [`LockObserver`](crate::LockObserver)s are told as `other`.
    pub fn templates(mut self, templates: impl IntoIterator<Item: Into<Arc<str>>>) -> Self {
        self.templates = templates.into_iter().map(Into::into).collect();
        self
    }

    /// Acquires all locks, waiting for them up to `wait`.
    ///
    /// If all are free, this takes one round trip, as for one lock. Otherwise the caller keeps those whose names come before
    /// the first that is not free, waits for that one in its queue, as [`LockRequest::acquire`](crate::LockRequest::acquire)
    /// does, and then asks for the rest at once. While it waits for a lock, it holds none that comes after it, so no two sets wait
    /// for each other in a circle. If it loses a lock meanwhile, it begins again.
    ///
    /// That does not hold for locks that are acquired one inside the scope of another. The event `lock.nested_out_of_order` warns
    /// of a name that comes before one that is held.
    ///
    /// # Errors
    ///
    /// - [`InvalidSet`](LockError::InvalidSet) immediately, if there are no names, or more than 32.
    /// - [`Upgrade`](LockError::Upgrade) immediately, if an outer scope reads a lock that the set writes.
    /// - Otherwise as [`LockRequest::acquire`](crate::LockRequest::acquire), for the lock that could not be had.
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
    /// let set = locks.lock_all(["user:7", "stock:42"]).acquire().await?;
    /// assert!(set.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(self) -> Result<SetGuard, LockError> {
        let templates = self.templates.into_iter().map(Some).chain(std::iter::repeat(None));
        let member = |(place, (resource, template))| {
            let kind = if place < self.to_write { Kind::Write } else { Kind::Read };
            SetMember { options: LockOptions { template, kind, ..self.options.clone() }, resource }
        };
        let set: Vec<_> = self.resources.into_iter().zip(templates).enumerate().map(member).collect();
        self.locks.0.acquire_all(&set).await
    }

    /// Acquires all locks if they are free, in a single attempt. See [`LockRequest::try_acquire`](crate::LockRequest::try_acquire).
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
    /// assert!(locks.lock_all(["user:7", "stock:42"]).try_acquire().await.is_err());
    /// assert!(locks.lock("user:7").try_acquire().await.is_ok(), "all or none");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire(self) -> Result<SetGuard, LockError> {
        self.wait(Duration::ZERO).acquire().await
    }

    /// Acquires all locks, runs `work` while holding them, and releases them in the background. If one is lost, the future of
    /// `work` is dropped. Inside of it, [`Lease::current`](crate::Lease::current) returns the first lease as written, and
    /// [`Lease::current_for`](crate::Lease::current_for) that on a resource.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let tokens = locks.lock_all(["user:7", "stock:42"]).run(async |leases| (leases[0].token(), leases[1].token())).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`Lost`](LockError::Lost) if a lease was lost before `work` was done. What `work` did
    /// until then is not undone: have the data store check the tokens.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `work` is dropped first, and then the locks are released.
    pub async fn run<T>(self, work: impl AsyncFnOnce(Leases) -> T) -> Result<T, LockError> {
        let guard = self.acquire().await?;
        let leases = guard.leases();
        // Declared after the guard, and so dropped before it: the work ends before the locks do.
        let scope = leases.as_scope();
        let work = scope.call(|| work(leases.clone()));
        tokio::select! {
            biased;
            () = leases.lost() => Err(leases.lost_error()),
            output = scope.enter(work) => leases.check().map(|()| output),
        }
    }
}
