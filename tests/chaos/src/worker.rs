//! One task of a service: it locks, reads, works, writes and releases, again and again.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use lock_core::{Lease, LockError, LockGuard};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::crowd::CROWD_RESOURCE;
use super::cycle::Cycle;
use super::history::{Event, SHUTTING_DOWN, Write};
use super::ledger::Ledger;
use super::service::Shared;
use super::{QUICK_RESOURCE, resource};
use lock_history::Moment;
use lock_support::Dice;

/// How often a holder checks its lease.
const LEASE_POLL: Duration = Duration::from_millis(20);
/// More cycles than any run has time for.
const MAX_CYCLES: u64 = 1_000_000;

pub(super) struct Worker {
    shared: Arc<Shared>,
    resource: String,
    dice: Dice,
    /// The id of the last attempt; unique in the process.
    attempt: u64,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, resource: String, task: usize, dice: Dice) -> Self {
        Self { shared, resource, dice, attempt: task as u64 * MAX_CYCLES }
    }

    pub(super) async fn work(mut self, stopped: watch::Receiver<bool>) {
        for _ in 0..MAX_CYCLES {
            if *stopped.borrow() {
                return;
            }
            let cycle = if self.resource == CROWD_RESOURCE {
                Cycle::draw_in_crowd(&mut self.dice)
            } else {
                Cycle::draw(&mut self.dice, self.resource == resource(QUICK_RESOURCE))
            };
            let pause = match self.cycle(&cycle).await {
                Ok(()) => 20,
                Err(_) => 60,
            };
            sleep(Duration::from_millis(self.dice.roll(pause))).await;
        }
    }

    async fn cycle(&mut self, cycle: &Cycle) -> Result<(), LockError> {
        self.attempt += 1;
        let (attempt, resource) = (self.attempt, self.resource.clone());
        let journal = &self.shared.journal;
        journal.write(Event::Attempt { attempt, resource: resource.clone(), wait: cycle.wait });
        let acquiring = cycle.apply(self.shared.locks.lock(&resource)).acquire();
        match timeout(cycle.dropped_after, acquiring).await {
            Ok(Ok(guard)) => self.hold(cycle, guard).await,
            Ok(Err(error)) => {
                journal.write(Event::Rejected { attempt, resource, kind: kind(&error).to_owned() });
                return Err(error);
            }
            Err(_) => journal.write(Event::Dropped { attempt }),
        }
        Ok(())
    }

    async fn hold(&self, cycle: &Cycle, guard: LockGuard) {
        let (shared, resource, token) = (&self.shared, self.resource.clone(), guard.token().get());
        let mut watch = LeaseWatch::over(shared, guard.lease(), self.attempt);
        let outcome = match self.transaction(move |ledger| ledger.read(&resource, token)).await {
            Ok(Some(value)) => {
                watch.sleep(cycle.work).await;
                watch.poll();
                if watch.lost && !cycle.ignores_loss {
                    Write::Skipped
                } else {
                    let (resource, service) = (self.resource.clone(), shared.service);
                    shared.journal.write(Event::Writing { resource: resource.clone(), token });
                    match self.transaction(move |ledger| ledger.write(&resource, token, service, value + 1)).await {
                        Ok(true) => Write::Accepted,
                        Ok(false) => Write::Refused,
                        Err(_) => Write::Failed,
                    }
                }
            }
            Ok(None) => Write::Refused,
            Err(_) => Write::Failed,
        };
        let resource = || self.resource.clone();
        shared.journal.write(Event::Wrote { resource: resource(), token, outcome });
        watch.poll();
        shared.journal.write(Event::Releasing { resource: resource(), token });
        let outcome = match guard.release().await {
            Ok(true) => "ours",
            Ok(false) => "not_ours",
            Err(_) => "unknown",
        };
        shared.journal.write(Event::Released { resource: resource(), token, outcome: outcome.to_owned() });
    }

    /// Runs a transaction on a thread that may block.
    async fn transaction<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Ledger) -> rusqlite::Result<T> + Send + 'static,
    ) -> rusqlite::Result<T> {
        let shared = Arc::clone(&self.shared);
        let blocking = move || work(&shared.ledger.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(blocking).await.unwrap()
    }
}

/// Records what a lease claims.
struct LeaseWatch<'a> {
    shared: &'a Shared,
    lease: Lease,
    /// The end of validity that was recorded last.
    until: Moment,
    /// When the lease was last seen to be valid.
    valid_at: Moment,
    lost: bool,
}

impl<'a> LeaseWatch<'a> {
    fn over(shared: &'a Shared, lease: Lease, attempt: u64) -> Self {
        let at = Moment::now();
        let until = at.plus(lease.remaining());
        let (resource, token) = (lease.resource().to_owned(), lease.token().get());
        shared.journal.write(Event::Granted { attempt, resource, token, until });
        Self { shared, lease, until, valid_at: at, lost: false }
    }

    /// Reads the clock before the lease, so that the recorded end is never later than what the lease claims.
    fn poll(&mut self) {
        let (at, remaining) = (Moment::now(), self.lease.remaining());
        let until = at.plus(remaining);
        if !remaining.is_zero() {
            self.valid_at = at;
        }
        if !remaining.is_zero() && until.since(self.until) > Duration::from_millis(1) {
            self.until = until;
            let (resource, token) = (self.lease.resource().to_owned(), self.lease.token().get());
            self.shared.journal.write(Event::Renewed { resource, token, until });
        }
        if !self.lost
            && let Err(LockError::Lost { reason, token, resource }) = self.lease.check()
        {
            self.lost = true;
            let (token, reason, valid_at) = (token.get(), format!("{reason:?}"), self.valid_at);
            self.shared.journal.write(Event::Lost { resource, token, reason, valid_at });
        }
    }

    /// Works for `length`, whether the lease is valid or not.
    async fn sleep(&mut self, length: Duration) {
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
}

/// The kind of a rejection.
pub(super) fn kind(error: &LockError) -> &'static str {
    match error {
        LockError::Contended { .. } => "contended",
        LockError::NoQuorum { .. } => "no_quorum",
        LockError::Expired { .. } => "expired",
        LockError::Lost { .. } => "lost",
        LockError::QueueFull { .. } => "queue_full",
        LockError::ShuttingDown { .. } => SHUTTING_DOWN,
        _ => "bad_request",
    }
}
