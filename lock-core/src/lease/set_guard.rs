use std::ops::Deref;

use futures_util::future::join_all;

use super::{Leases, LockGuard};
use crate::error::LockError;

/// The held locks of a set. Dropping the guard releases them in the background; [`release`](Self::release) also waits for the
/// nodes' replies.
///
/// A guard dereferences to its [`Leases`], which tell whether the locks are still held, and their tokens.
///
/// Locks that an outer scope holds already are shared with that scope, and the guard does not release them.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// # let locks = lock_core::LockManager::in_memory();
/// let set = locks.lock_all(["user:7", "stock:42"]).acquire().await?;
/// let (user, stock) = (set[0].token(), set[1].token()); // send them with every write
/// # _ = (user, stock);
/// set.check()?; // between the steps of long work
/// assert!(set.release().await?, "all were still held");
/// # Ok(())
/// # }
/// ```
#[must_use = "the locks are released as soon as their guard is dropped: keep it with `let _guard = …`, because `let _ = …` drops it at once"]
pub struct SetGuard {
    leases: Leases,
    /// One for each lock of the set.
    guards: Vec<LockGuard>,
}

impl SetGuard {
    pub(crate) fn new(leases: Leases, guards: Vec<LockGuard>) -> Self {
        Self { leases, guards }
    }

    /// Holds the leases for this guard, too, although outer guards may end before. See [`LockGuard::keep_beyond_outer`].
    #[doc(hidden)]
    pub fn keep_beyond_outer(&mut self) {
        self.guards.iter_mut().for_each(LockGuard::keep_beyond_outer);
    }

    /// The leases, to pass around.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let set = locks.lock_all(["user:7", "stock:42"]).acquire().await?;
    /// let leases = set.leases();
    /// drop(set);
    /// assert!(!leases.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub fn leases(&self) -> Leases {
        self.leases.clone()
    }

    /// Releases the locks and returns whether all of them were still held. See [`LockGuard::release`].
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if too few nodes replied within the node timeout, for the first such lock. The
    /// releases continue in the background, and the keys expire with their time to live in any case.
    ///
    /// # Cancel safety
    ///
    /// The requests are sent when the future is first polled; dropping it after that only gives up the result.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let set = locks.lock_all(["user:7", "stock:42"]).acquire().await?;
    /// assert!(set.release().await?);
    /// assert!(locks.lock("user:7").try_acquire().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<bool, LockError> {
        let released = join_all(self.guards.into_iter().map(LockGuard::release)).await;
        released.into_iter().try_fold(true, |all, was_held| Ok(was_held? && all))
    }
}

impl Deref for SetGuard {
    type Target = Leases;

    fn deref(&self) -> &Leases {
        &self.leases
    }
}

opaque_debug!(SetGuard, |this| "leases": this.leases);
