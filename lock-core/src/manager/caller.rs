use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::shards::Shard;
use crate::engine::{FailedAttempt, Wanted};
use crate::error::{LockError, Vote};
use crate::kind::Kind;
use crate::lease::{Lease, LeaseRegistry, LockGuard};
use crate::node::LockKeys;
use crate::observer::Acquiring;
use crate::options::LockOptions;
use crate::quorum::Failure;
use crate::task::let_others_run;
use crate::waiting::{LastAttempt, NotEntered};

/// How long it takes at least to answer that there is no quorum, with jitter. Nothing may have been sent for it, and callers that
/// try again at once would leave no processor time for reconnecting to the nodes.
const MIN_ANSWER_TIME: Duration = Duration::from_millis(10);

/// A caller that asks for a lock, alone or as one of a set, and the error that it gets when it gives up.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) resource: &'a str,
    pub(super) options: &'a LockOptions,
    /// Which has the lock.
    pub(super) shard: &'a Shard,
    pub(super) leases: &'a Arc<LeaseRegistry>,
    pub(super) acquiring: &'a Acquiring<'a>,
}

impl<'a> Caller<'a> {
    /// When the caller asked for the lock.
    pub(super) fn started(&self) -> Instant {
        self.acquiring.started
    }

    /// When the caller gives up.
    pub(super) fn until(&self) -> Instant {
        self.started() + self.options.wait
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
            // Its holder may have gone on to read meanwhile.
            self.check_kind(&lease)?;
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

    /// The error for a failed attempt.
    pub(super) fn failed(&self, failed: FailedAttempt) -> LockError {
        let (resource, waited) = (self.resource.to_owned(), self.started().elapsed());
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

    /// The error of a caller that did not come to the front of its local queue.
    pub(super) fn not_entered(&self, reason: NotEntered) -> LockError {
        let (resource, waited) = (self.resource.to_owned(), self.started().elapsed());
        match reason {
            NotEntered::QueueFull(waiters) => {
                LockError::QueueFull { resource, waiters, typical_hold: self.typical_hold() }
            }
            // The caller before this one found no quorum, so nobody knows whether the lock is held.
            NotEntered::TimedOut(last) if last.had_no_quorum => {
                LockError::NoQuorum { resource, waited, votes: last.votes.to_vec() }
            }
            NotEntered::TimedOut(last) => {
                // Of a slot whose time is over it is not known: its holder has renewed it.
                let free_in = last.free_at.and_then(|free_at| free_at.checked_duration_since(Instant::now()));
                let (typical_hold, votes) = (self.typical_hold(), self.shard.votes_of(&last, free_in));
                LockError::Contended { resource, waited, free_in, typical_hold, votes }
            }
            NotEntered::Closed => LockError::ShuttingDown { resource, waited },
        }
    }

    /// The error of a caller that does not wait while others do. It may ask again at once, so the others run first, or nothing would be
    /// released on a runtime with one thread.
    pub(super) async fn answer_behind(&self, last: LastAttempt) -> LockError {
        if last.had_no_quorum {
            sleep_until(self.started() + self.shard.engine.cluster.random.jitter(MIN_ANSWER_TIME)).await;
        } else {
            let_others_run().await;
        }
        self.not_entered(NotEntered::TimedOut(last))
    }

    /// The error for a lock of which too little validity is left.
    pub(super) fn expired(&self) -> LockError {
        LockError::Expired { resource: self.resource.to_owned(), waited: self.started().elapsed(), votes: Vec::new() }
    }

    /// The error for a lock of which too few nodes said whether it is still held.
    pub(super) fn no_quorum(&self) -> LockError {
        let cluster = &self.shard.engine.cluster;
        let votes = cluster.vote_of_each(|node| cluster.problem(node).map_or(Vote::Pending, Vote::Failed));
        LockError::NoQuorum { resource: self.resource.to_owned(), waited: self.started().elapsed(), votes }
    }

    /// How long locks on the resource were held lately by this manager.
    fn typical_hold(&self) -> Option<Duration> {
        self.leases.typical_hold(self.resource)
    }

    /// Fails if the manager was closed.
    pub(super) fn check_open(&self) -> Result<(), LockError> {
        if self.shard.engine.is_closed() {
            return Err(LockError::ShuttingDown {
                resource: self.resource.to_owned(),
                waited: self.started().elapsed(),
            });
        }
        Ok(())
    }

    /// The error for the only attempt of a caller that does not wait.
    pub(super) async fn answer(&self, failed: FailedAttempt) -> LockError {
        if let Err(closed) = self.check_open() {
            return closed;
        }
        // Only then: that a lock is held is known from replies, so a caller that asks again at once has waited for a round trip.
        if failed.failure == Failure::NoQuorum {
            sleep_until(self.started() + self.shard.engine.cluster.random.jitter(MIN_ANSWER_TIME)).await;
        }
        self.failed(failed)
    }
}
