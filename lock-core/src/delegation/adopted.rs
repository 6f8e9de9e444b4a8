use std::ops::Deref;

use crate::lease::{Lease, LockGuard};

/// A lock that another service holds and delegated to this one. It dereferences to a [`Lease`], whose token is the holder's.
///
/// It is valid as long as a majority of the masters has the lock for that holder, and until the delegation expires: the masters are looked
/// at again at a third of what is left. It can neither be renewed nor released from here; dropping it says that the work is done.
/// A shutdown waits for it as for a guard.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locks = lock_core::LockManager::in_memory();
/// let guard = locks.lock("order:7").acquire().await?;
/// let delegation = guard.delegate().create()?;
///
/// // In the service that is called, with what was in the header:
/// let adopted = locks.adopt(delegation.as_str(), "order:7").await?;
/// assert_eq!((adopted.resource(), adopted.token()), ("order:7", guard.token()));
/// adopted.check()?; // between the steps of long work
/// drop(adopted); // the work is done
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the work under the lock is over when it is dropped: keep it with `let _adopted = …`, because `let _ = …` drops it at once"]
pub struct AdoptedLease(pub(crate) LockGuard);

impl AdoptedLease {
    /// The lease, to pass around.
    pub fn lease(&self) -> Lease {
        self.0.lease()
    }

    /// A guard that holds nothing on the masters. Not public API.
    #[doc(hidden)]
    pub fn into_guard(self) -> LockGuard {
        self.0
    }
}

impl Deref for AdoptedLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}
