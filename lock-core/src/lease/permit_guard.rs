use std::fmt;
use std::ops::Deref;

use super::{Lease, LockGuard};
use crate::error::LockError;

/// A held permit: one of the slots of a resource. Dropping the guard releases it in the background; [`release`](Self::release) also
/// waits for the nodes' replies.
///
/// A guard dereferences to its [`Lease`]. The name of that lease is the name of the slot, as `export{2}`.
///
/// Inside the scope of a permit of the same resource, a guard shares the outer lease, as [`LockGuard`] does.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// # let locks = lock_core::LockManager::in_memory();
/// let permit = locks.permits("export", 3).acquire().await?;
/// assert!(permit.slot() < 3);
/// assert_eq!(permit.resource(), format!("export{{{}}}", permit.slot()));
/// assert!(permit.release().await?, "it was still held");
/// # Ok(())
/// # }
/// ```
#[must_use = "the permit is released as soon as its guard is dropped"]
pub struct PermitGuard {
    guard: LockGuard,
    slot: u32,
}

impl PermitGuard {
    pub(crate) fn new(guard: LockGuard) -> Self {
        // A lease on a permit has a slot.
        let slot = guard.slot().unwrap_or_default();
        Self { guard, slot }
    }

    /// Which slot is held, from 0 to one less than the number of permits; of those of the outer guard, if this one shares its lease. No
    /// other holder has it.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The lease, to pass around.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.guard.lease()
    }

    /// Releases the permit and returns whether it was still held, as [`LockGuard::release`] does.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::release`].
    pub async fn release(self) -> Result<bool, LockError> {
        self.guard.release().await
    }
}

impl Deref for PermitGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.guard
    }
}

impl fmt::Debug for PermitGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PermitGuard").field(&self.lease()).finish()
    }
}
