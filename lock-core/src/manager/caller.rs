use std::sync::Arc;

use tokio::time::Instant;

use super::shards::Shard;
use crate::engine::Wanted;
use crate::error::LockError;
use crate::kind::Kind;
use crate::lease::{Lease, LeaseRegistry, LockGuard};
use crate::node::LockKeys;
use crate::observer::Acquiring;
use crate::options::LockOptions;

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
}
