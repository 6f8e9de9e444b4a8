//! The error that a caller gets when it gives up: after an attempt that failed, in the local queue, or because the manager is closed.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::caller::Caller;
use super::manager::Inner;
use crate::engine::FailedAttempt;
use crate::error::LockError;
use crate::quorum::Failure;
use crate::waiting::NotEntered;

/// How long it takes at least to answer that there is no quorum, with jitter. Nothing may have been sent for it, and callers that
/// try again at once would leave no processor time for reconnecting to the nodes.
const MIN_ANSWER_TIME: Duration = Duration::from_millis(10);

impl Caller<'_> {
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

    /// The error of a caller that did not come to the front of its local queue.
    pub(super) fn not_entered(&self, reason: NotEntered) -> LockError {
        let (resource, waited) = (self.resource.to_owned(), self.started.elapsed());
        match reason {
            NotEntered::QueueFull(waiters) => {
                LockError::QueueFull { resource, waiters, typical_hold: self.typical_hold() }
            }
            // The caller before this one found no quorum, so nobody knows whether the lock is held.
            NotEntered::TimedOut(last) if last.had_no_quorum => {
                LockError::NoQuorum { resource, waited, votes: last.votes.to_vec() }
            }
            NotEntered::TimedOut(last) => {
                let free_in = last.free_at.map(|free_at| free_at.saturating_duration_since(Instant::now()));
                let (typical_hold, votes) = (self.typical_hold(), self.shard.votes_of(&last, free_in));
                LockError::Contended { resource, waited, free_in, typical_hold, votes }
            }
            NotEntered::NoQuorum(votes) => LockError::NoQuorum { resource, waited, votes: votes.to_vec() },
            NotEntered::Closed => LockError::ShuttingDown { resource, waited },
        }
    }

    /// The error for a lock of which too little validity is left.
    pub(super) fn expired(&self) -> LockError {
        LockError::Expired { resource: self.resource.to_owned(), waited: self.started.elapsed(), votes: Vec::new() }
    }

    /// How long locks on the resource were held lately by this manager.
    fn typical_hold(&self) -> Option<Duration> {
        self.leases.typical_hold(self.resource)
    }
}

impl Inner {
    /// Fails if the manager was closed.
    pub(super) fn check_open(&self, caller: &Caller<'_>) -> Result<(), LockError> {
        if self.background.closing.is_cancelled() {
            return Err(LockError::ShuttingDown {
                resource: caller.resource.to_owned(),
                waited: caller.started.elapsed(),
            });
        }
        Ok(())
    }

    /// The error for the only attempt of a caller that does not wait.
    pub(super) async fn answer(&self, caller: &Caller<'_>, failed: FailedAttempt) -> LockError {
        if let Err(closed) = self.check_open(caller) {
            return closed;
        }
        // Only then: that a lock is held is known from replies, so a caller that asks again at once has waited for a round trip.
        if failed.failure == Failure::NoQuorum {
            sleep_until(caller.started + caller.shard.engine.random.jitter(MIN_ANSWER_TIME)).await;
        }
        caller.failed(failed)
    }
}
