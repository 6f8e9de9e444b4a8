use std::fmt;
use std::ops::Deref;

use super::{Lease, LockGuard};
use crate::error::LockError;

/// A lock that is held to read, beside other readers. Dropping the guard releases it in the background; [`release`](Self::release)
/// also waits for the nodes' replies.
///
/// A guard dereferences to its [`Lease`]. Readers may have the same [token](Lease::token): it is larger than that of every writer
/// before them, unless that writer is the one that [downgraded](LockGuard::downgrade), and smaller than that of every writer after
/// them.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// # let locks = lock_core::LockManager::in_memory();
/// use lock_core::Mode;
///
/// let one = locks.read("catalog").acquire().await?;
/// let other = locks.read("catalog").acquire().await?; // beside the first
/// assert_eq!(other.mode(), Mode::Read);
/// assert!(locks.write("catalog").try_acquire().await.is_err());
/// # drop((one, other));
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct ReadGuard(LockGuard);

impl ReadGuard {
    pub(crate) fn new(guard: LockGuard) -> Self {
        Self(guard)
    }

    /// The lease, to pass around.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.0.lease()
    }

    /// Releases the lock, as [`LockGuard::release`] does. While other readers of this process share the hold on the nodes, this
    /// returns at once whether the lease was valid.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::release`].
    pub async fn release(self) -> Result<bool, LockError> {
        self.0.release().await
    }
}

impl Deref for ReadGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

impl fmt::Debug for ReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadGuard").field(&*self.0).finish()
    }
}
