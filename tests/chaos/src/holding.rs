//! What a task does under a lock, and what it records of its lease.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Kind, Lease, LockError, LockGuard};
use tokio::time::{Instant, sleep};

use super::history::{Event, Write};
use super::service::Shared;
use lock_history::Moment;

/// How often a holder checks its lease.
const LEASE_POLL: Duration = Duration::from_millis(20);

/// Whether the lock was still held when it was released.
pub(super) fn outcome(released: &Result<bool, LockError>) -> String {
    let outcome = match released {
        Ok(true) => "ours",
        Ok(false) => "not_ours",
        Err(_) => "unknown",
    };
    outcome.to_owned()
}

/// A lock that is held: records what its lease claims.
pub(super) struct Holding<'a> {
    shared: &'a Arc<Shared>,
    attempt: u64,
    lease: Lease,
    /// The end of validity that was recorded last.
    until: Moment,
    /// When the lease was last seen to be valid.
    valid_at: Moment,
    lost: bool,
}

impl<'a> Holding<'a> {
    /// Of a lock that was granted.
    pub(super) fn granted(shared: &'a Arc<Shared>, lease: Lease, attempt: u64) -> Self {
        Self::begin(shared, lease, attempt, |resource, token, until, reads| Event::Granted {
            attempt,
            resource,
            token,
            until,
            reads,
        })
    }

    /// Of a lock that was adopted.
    pub(super) fn adopted(shared: &'a Arc<Shared>, lease: Lease, attempt: u64) -> Self {
        Self::begin(shared, lease, attempt, |resource, token, until, reads| Event::Adopted {
            attempt,
            resource,
            token,
            until,
            reads,
        })
    }

    fn begin(
        shared: &'a Arc<Shared>,
        lease: Lease,
        attempt: u64,
        event: impl FnOnce(String, u64, Moment, bool) -> Event,
    ) -> Self {
        let at = Moment::now();
        let until = at.plus(lease.remaining());
        let reads = lease.kind() == Kind::Read;
        shared.journal.write(event(lease.resource().to_owned(), lease.token().get(), until, reads));
        Self { shared, attempt, lease, until, valid_at: at, lost: false }
    }

    pub(super) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(super) fn shared(&self) -> &'a Arc<Shared> {
        self.shared
    }

    /// Whether the loss of the lease was noticed.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Records an event of this lock.
    pub(super) fn record(&self, event: impl FnOnce(u64, String) -> Event) {
        self.shared.journal.write(event(self.attempt, self.lease.resource().to_owned()));
    }

    /// Reads the clock before the lease, so that the recorded end is never later than what the lease claims.
    pub(super) fn poll(&mut self) {
        let (at, remaining) = (Moment::now(), self.lease.remaining());
        let until = at.plus(remaining);
        if !remaining.is_zero() {
            self.valid_at = at;
        }
        if !remaining.is_zero() && until.since(self.until) > Duration::from_millis(1) {
            self.until = until;
            self.record(|attempt, resource| Event::Renewed { attempt, resource, until });
        }
        if !self.lost
            && let Err(LockError::Lost { reason, .. }) = self.lease.check()
        {
            self.lost = true;
            let (reason, valid_at) = (format!("{reason:?}"), self.valid_at);
            self.record(|attempt, resource| Event::Lost { attempt, resource, reason, valid_at });
        }
    }

    /// Works for `length`, whether the lease is valid or not.
    pub(super) async fn sleep(&mut self, length: Duration) {
        let until = Instant::now() + length;
        while Instant::now() < until {
            let step = sleep(LEASE_POLL.min(until - Instant::now()));
            if self.lost {
                step.await;
            } else {
                tokio::select! {
                    () = self.lease.lost() => {}
                    () = step => {}
                }
                self.poll();
            }
        }
    }

    /// Reads the counter, works, and writes it.
    pub(super) async fn update(&mut self, work: Duration, ignores_loss: bool) {
        let (resource, token, shared) = (self.lease.resource().to_owned(), self.lease.token().get(), self.shared);
        let (name, service) = (resource.clone(), shared.service);
        let outcome = match shared.transaction(move |ledger| ledger.read(&name, token)).await {
            Ok(Some(value)) => {
                self.sleep(work).await;
                self.poll();
                if self.lost && !ignores_loss {
                    Write::Skipped
                } else {
                    self.record(|attempt, resource| Event::Writing { attempt, resource });
                    match shared.transaction(move |ledger| ledger.write(&resource, token, service, value + 1)).await {
                        Ok(true) => Write::Accepted,
                        Ok(false) => Write::Refused,
                        Err(_) => Write::Failed,
                    }
                }
            }
            Ok(None) => Write::Refused,
            Err(_) => Write::Failed,
        };
        self.record(|attempt, resource| Event::Wrote { attempt, resource, outcome });
        self.poll();
    }

    /// Looks at the counter as a reader, which claims nothing, and works.
    pub(super) async fn look(&mut self, work: Duration) {
        let (resource, token) = (self.lease.resource().to_owned(), self.lease.token().get());
        self.sleep(work).await;
        if let Ok(accepted) = self.shared.transaction(move |ledger| ledger.look(&resource, token)).await {
            self.record(|attempt, resource| Event::Looked { attempt, resource, accepted });
        }
        self.poll();
    }

    pub(super) async fn release(mut self, guard: LockGuard) {
        self.poll();
        self.record(|attempt, resource| Event::Releasing { attempt, resource });
        let outcome = outcome(&guard.release().await);
        self.record(|attempt, resource| Event::Released { attempt, resource, outcome });
    }
}
