use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::shards::Shard;
use crate::engine::{FailedAttempt, Wanted};
use crate::error::LockError;
use crate::kind::Kind;
use crate::lease::{Lease, LeaseRegistry, LockGuard};
use crate::node::LockKeys;
use crate::observer::Acquiring;
use crate::options::LockOptions;
use crate::quorum::Failure;

/// A caller that asks for a lock, alone or as one of a set.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) resource: &'a str,
    pub(super) options: &'a LockOptions,
    /// Which has the lock.
    pub(super) shard: &'a Shard,
    pub(super) started: Instant,
    pub(super) leases: &'a Arc<LeaseRegistry>,
    pub(super) acquiring: &'a Acquiring<'a>,
}

impl<'a> Caller<'a> {
    /// When the caller gives up.
    pub(super) fn until(&self) -> Instant {
        self.started + self.options.wait
    }

    /// What an attempt for this caller asks for: as many tokens as the local queue can use, and readers share one.
    pub(super) fn wants(&self, keys: &'a LockKeys, tokens: u32) -> Wanted<'a> {
        let tokens = match self.options.kind {
            Kind::Read => 1,
            Kind::Write | Kind::Permit { .. } => tokens,
        };
        Wanted { keys, options: self.options, tokens, until: self.until(), acquiring: self.acquiring }
    }

    /// Shares the lease in whose scope the caller is, when that has the validity that the caller asks for.
    pub(super) async fn share(&self, lease: Lease) -> Result<LockGuard, LockError> {
        self.check_kind(&lease)?;
        lease.check()?;
        if lease.has_left(self.options.min_validity, self.until()).await {
            return Ok(LockGuard::sharing(lease, self.leases));
        }
        lease.check()?;
        Err(self.expired())
    }

    /// Checks that the lease in whose scope the caller is allows what the caller wants to do.
    pub(super) fn check_kind(&self, outer: &Lease) -> Result<(), LockError> {
        match (outer.kind(), self.options.kind) {
            (Kind::Read, Kind::Write) => Err(LockError::Upgrade { resource: self.resource.to_owned() }),
            _ => Ok(()),
        }
    }

    /// The error for a lock of which too little validity is left.
    pub(super) fn expired(&self) -> LockError {
        LockError::Expired { resource: self.resource.to_owned(), waited: self.started.elapsed(), votes: Vec::new() }
    }

    /// How long locks on the resource were held lately by this manager.
    pub(super) fn typical_hold(&self) -> Option<Duration> {
        self.leases.typical_hold(self.resource)
    }

    /// The error for a failed attempt.
    pub(super) fn failed(&self, failed: FailedAttempt) -> LockError {
        let (resource, waited) = (self.resource.to_owned(), self.started.elapsed());
        let is_not_a_lock = failed.is_not_a_lock();
        let FailedAttempt { failure, votes, .. } = failed;
        match failure {
            // Not contended: nobody will ever release such a key, and the remedy is another one.
            Failure::Contended { .. } if is_not_a_lock => LockError::NotALock { resource, waited, votes },
            Failure::Contended { free_in } => {
                LockError::Contended { resource, waited, free_in, typical_hold: self.typical_hold(), votes }
            }
            Failure::NoQuorum => LockError::NoQuorum { resource, waited, votes },
            Failure::Expired => LockError::Expired { resource, waited, votes },
        }
    }
}
