//! What keeps the lock of a handler, or its locks, and how it is acquired or adopted. Layer and macro treat one lock and several alike.

use std::ops::Deref;

use http::Extensions;
use lock_core::delegation::{AdoptedLease, Expected};
use lock_core::{LockError, LockGuard, LockManager, SetGuard};

use crate::delegation::Carried;
use crate::held::Held;
use crate::hold::PendingSession;
use crate::policy::{OnLost, Policy};
use crate::rejection::{Cause, LockRejection};

/// What is locked for a handler: a resource, or several.
pub trait Resources: Send + Sync {
    /// What keeps it locked.
    type Guard: Guard;

    /// Acquires the lock or locks by a policy.
    fn acquire(
        &self,
        locks: &LockManager,
        policy: &Policy,
    ) -> impl Future<Output = Result<Self::Guard, LockError>> + Send;

    /// Adopts the delegation that a request carries, if it carries one. It is of one lock, so layer and macro let no set adopt.
    fn adopt(
        &self,
        carried: Carried,
        locks: &LockManager,
        policy: &Policy,
    ) -> impl Future<Output = Result<Option<Self::Guard>, LockRejection>> + Send;
}

/// The guard of a lock, or of a set of locks, and so the view of what is held.
pub trait Guard: Deref<Target: Held> + Send + Sync + 'static {
    /// Holds it for this guard, too, although an outer guard may end before.
    fn keep_beyond_outer(&mut self);

    /// Whether a session, or another guard that outlives this one, holds it, too.
    fn is_taken_along(&self) -> bool;

    /// Offers to hold it for a session, to an extractor. A set of locks cannot be.
    fn offer_session(&self, extensions: &mut Extensions, on_lost: OnLost) -> Option<PendingSession>;
}

impl Resources for String {
    type Guard = LockGuard;

    async fn acquire(&self, locks: &LockManager, policy: &Policy) -> Result<LockGuard, LockError> {
        policy.request(locks, self).acquire().await
    }

    async fn adopt(
        &self,
        carried: Carried,
        locks: &LockManager,
        policy: &Policy,
    ) -> Result<Option<LockGuard>, LockRejection> {
        let template = policy.templates.first().cloned();
        let expected = Expected { resource: Some(self), kind: Some(policy.kind), template };
        Ok(carried.adopt(locks, expected, policy.retry_after).await?.map(AdoptedLease::into_guard))
    }
}

impl Resources for Vec<String> {
    type Guard = SetGuard;

    async fn acquire(&self, locks: &LockManager, policy: &Policy) -> Result<SetGuard, LockError> {
        policy.request_all(locks, self).acquire().await
    }

    async fn adopt(&self, carried: Carried, _: &LockManager, _: &Policy) -> Result<Option<SetGuard>, LockRejection> {
        match carried {
            Carried::Nothing => Ok(None),
            Carried::One(_) | Carried::Several => {
                Err(Cause::NotDelegated("the delegation is of one lock, and the request takes several").into())
            }
        }
    }
}

impl Guard for LockGuard {
    fn keep_beyond_outer(&mut self) {
        self.keep_beyond_outer();
    }

    fn is_taken_along(&self) -> bool {
        self.is_shared()
    }

    fn offer_session(&self, extensions: &mut Extensions, on_lost: OnLost) -> Option<PendingSession> {
        Some(PendingSession::offered_in(extensions, self, on_lost))
    }
}

impl Guard for SetGuard {
    fn keep_beyond_outer(&mut self) {
        self.keep_beyond_outer();
    }

    fn is_taken_along(&self) -> bool {
        false
    }

    fn offer_session(&self, _: &mut Extensions, _: OnLost) -> Option<PendingSession> {
        None
    }
}
