use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{Lease, renewal};
use crate::engine::{Ended, Engine, Releasing};
use crate::error::{LockError, LossReason};
use crate::held::HeldLeases;
use crate::quorum::ReleaseVerdict;

/// A held lock. Releases when it is dropped, in the background; [`release`](Self::release) waits for the answer.
///
/// Inside the scope of the same lock ([`LockRequest::run`](crate::LockRequest::run), a guarded handler) a guard shares the
/// outer lease, and only the outermost releases.
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct LockGuard {
    lease: Lease,
    /// Whom to release with; `None` in a guard that shares the lease of an outer one, and after the release.
    holder: Option<Holder>,
}

struct Holder {
    engine: Arc<Engine>,
    held: Arc<HeldLeases>,
}

impl LockGuard {
    /// Begins the life of a lease: from here on it is renewed, and released in the end.
    pub(crate) fn begin(engine: &Arc<Engine>, held: &Arc<HeldLeases>, lease: Lease) -> Self {
        held.add(lease.clone());
        engine.spawn(renewal::keep(Arc::clone(engine), lease.clone()));
        Self { lease, holder: Some(Holder { engine: Arc::clone(engine), held: Arc::clone(held) }) }
    }

    /// A guard inside the scope of `lease`.
    pub(crate) fn sharing(lease: Lease) -> Self {
        Self { lease, holder: None }
    }

    /// The lease, to be handed around.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Releases the lock and tells whether it was still ours: `false` if it had been lost, or no majority of nodes had it any
    /// more. In a guard that shares an outer lease: whether that is valid, and nothing is released.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if too few nodes answered within the node timeout to tell. The release goes on in the
    /// background, and the key ends with its time to live in any case.
    ///
    /// # Cancel safety
    ///
    /// The requests are sent when this is called for the first time; dropping the future only gives up the answer.
    pub async fn release(mut self) -> Result<bool, LockError> {
        let was_valid = self.lease.is_valid();
        let Some(releasing) = self.release_now() else { return Ok(was_valid) };
        match releasing.await {
            Ok(ReleaseVerdict::StillOurs) => Ok(was_valid),
            Ok(ReleaseVerdict::NotOurs) => Ok(false),
            Ok(ReleaseVerdict::Unknown) | Err(_) => Err(LockError::NoQuorum {
                resource: self.lease.resource().to_owned(),
                waited: std::time::Duration::ZERO,
                votes: Vec::new(),
            }),
        }
    }

    /// Ends the lease and casts the release. `None` if there is nothing to release, or it was done before.
    fn release_now(&mut self) -> Option<Releasing> {
        let Holder { engine, held } = self.holder.take()?;
        let releasing = cut_off(&engine, &self.lease, LossReason::Released);
        held.remove(self.lease.owner());
        Some(releasing)
    }
}

/// Ends a lease and casts its release, behind everything that was sent for it.
pub(crate) fn cut_off(engine: &Arc<Engine>, lease: &Lease, reason: LossReason) -> Releasing {
    lease.end(reason);
    let nodes = {
        let mut touched = lease.touched();
        touched.released = true;
        touched.nodes
    };
    engine.release(&lease.0.keys, lease.0.owner, lease.0.options.ttl, nodes, Ended::Lease)
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        drop(self.release_now());
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&self.lease).finish()
    }
}
