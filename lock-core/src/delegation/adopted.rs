use std::ops::Deref;
use std::sync::Arc;

use super::credential::Claims;
use super::error::AdoptError;
use crate::kind::Kind;
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

/// What the work is on that a delegation has to be of, as far as it is known before. Not public API.
#[derive(Clone, Debug, Default)]
pub struct Expected<'a> {
    /// The resource. Of a permit, without its slot, or the name of that slot.
    pub resource: Option<&'a str>,
    /// What the lock has to allow.
    pub kind: Option<Kind>,
    /// What metrics and traces show instead of the resource.
    pub template: Option<Arc<str>>,
}

impl Expected<'_> {
    /// Whether a delegation of this resource, and this slot of it, will do.
    pub(crate) fn check(&self, claims: &Claims, resource: &str, slot: Option<u32>) -> Result<(), AdoptError> {
        let has_slot = self.kind.is_none_or(|kind| kind.allows_slot(slot));
        let is_meant = |ours: &str| has_slot && (ours == resource || ours == claims.resource);
        if let Some(ours) = self.resource.filter(|ours| !is_meant(ours)) {
            return Err(AdoptError::OtherResource { theirs: claims.resource.clone(), ours: ours.to_owned() });
        }
        match (claims.kind, self.kind) {
            (Kind::Read, Some(Kind::Write)) => Err(AdoptError::NotToWrite { resource: claims.resource.clone() }),
            _ => Ok(()),
        }
    }
}
