//! One task of a service: it locks, reads, works, writes, releases, again and again.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use lock_core::{Lease, LockError, LockGuard};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::history::{Event, TURNED_AWAY, Write};
use super::ledger::Ledger;
use super::round::Round;
use super::service::Shared;
use super::{HURRIED, resource};
use lock_history::Moment;
use lock_support::Dice;

/// How often a holder looks how long its lease is valid.
const LOOK: Duration = Duration::from_millis(20);
/// More rounds than any run has time for.
const MAX_ROUNDS: u64 = 1_000_000;

pub(super) struct Worker {
    shared: Arc<Shared>,
    resource: String,
    dice: Dice,
    /// The next attempt's number; attempts of one process differ.
    attempt: u64,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, resource: String, number: usize, dice: Dice) -> Self {
        Self { shared, resource, dice, attempt: number as u64 * MAX_ROUNDS }
    }

    pub(super) async fn work(mut self, stopped: watch::Receiver<bool>) {
        for _ in 0..MAX_ROUNDS {
            if *stopped.borrow() {
                return;
            }
            let round = Round::draw(&mut self.dice, self.resource == resource(HURRIED));
            let pause = match self.round(&round).await {
                Ok(()) => 20,
                Err(_) => 60,
            };
            sleep(Duration::from_millis(self.dice.roll(pause))).await;
        }
    }

    async fn round(&mut self, round: &Round) -> Result<(), LockError> {
        self.attempt += 1;
        let (attempt, resource) = (self.attempt, self.resource.clone());
        let journal = &self.shared.journal;
        journal.write(Event::Attempt { attempt, resource: resource.clone(), wait: round.wait });
        let acquiring = round.apply(self.shared.locks.lock(&resource)).acquire();
        match timeout(round.dropped_after, acquiring).await {
            Ok(Ok(guard)) => self.hold(round, guard).await,
            Ok(Err(error)) => {
                journal.write(Event::Rejected { attempt, resource, kind: kind(&error).to_owned() });
                return Err(error);
            }
            Err(_) => journal.write(Event::Dropped { attempt }),
        }
        Ok(())
    }

    async fn hold(&self, round: &Round, guard: LockGuard) {
        let (shared, resource, token) = (&self.shared, self.resource.clone(), guard.token().get());
        let mut watch = Watch::over(shared, guard.lease(), self.attempt);
        let outcome = match self.ask(move |ledger| ledger.read(&resource, token)).await {
            Ok(Some(value)) => {
                watch.sleep(round.work).await;
                watch.look();
                if watch.told && !round.careless {
                    Write::Renounced
                } else {
                    let (resource, service) = (self.resource.clone(), shared.service);
                    shared.journal.write(Event::Writing { resource: resource.clone(), token });
                    match self.ask(move |ledger| ledger.write(&resource, token, service, value + 1)).await {
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
        watch.look();
        shared.journal.write(Event::Releasing { resource: resource(), token });
        let outcome = match guard.release().await {
            Ok(true) => "ours",
            Ok(false) => "not_ours",
            Err(_) => "unknown",
        };
        shared.journal.write(Event::Released { resource: resource(), token, outcome: outcome.to_owned() });
    }

    /// Runs a transaction, on a thread that may wait.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Ledger) -> rusqlite::Result<T> + Send + 'static,
    ) -> rusqlite::Result<T> {
        let shared = Arc::clone(&self.shared);
        let asked = move || work(&shared.ledger.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(asked).await.unwrap()
    }
}

/// Writes down what a lease claims.
struct Watch<'a> {
    shared: &'a Shared,
    lease: Lease,
    /// The end of validity that was written down last.
    until: Moment,
    /// When the lease was last seen to be valid.
    valid_at: Moment,
    told: bool,
}

impl<'a> Watch<'a> {
    fn over(shared: &'a Shared, lease: Lease, attempt: u64) -> Self {
        let at = Moment::now();
        let until = at.plus(lease.remaining());
        let (resource, token) = (lease.resource().to_owned(), lease.token().get());
        shared.journal.write(Event::Granted { attempt, resource, token, until });
        Self { shared, lease, until, valid_at: at, told: false }
    }

    /// The clock is read before the lease, so that what is written down is never later than what the lease claims.
    fn look(&mut self) {
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
        if !self.told
            && let Err(LockError::Lost { reason, token, resource }) = self.lease.check()
        {
            self.told = true;
            let (token, reason, valid_at) = (token.get(), format!("{reason:?}"), self.valid_at);
            self.shared.journal.write(Event::Told { resource, token, reason, valid_at });
        }
    }

    /// Works for as long, under the lease or without.
    async fn sleep(&mut self, length: Duration) {
        let until = Instant::now() + length;
        while Instant::now() < until {
            let step = sleep(LOOK.min(until - Instant::now()));
            if self.told {
                step.await;
            } else {
                tokio::select! {
                    () = self.lease.lost() => {}
                    () = step => {}
                }
                self.look();
            }
        }
    }
}

/// The kind of a rejection.
fn kind(error: &LockError) -> &'static str {
    match error {
        LockError::Contended { .. } => "contended",
        LockError::NoQuorum { .. } => "no_quorum",
        LockError::Expired { .. } => "expired",
        LockError::Lost { .. } => "lost",
        LockError::QueueFull { .. } => "queue_full",
        LockError::ShuttingDown { .. } => TURNED_AWAY,
        _ => "bad_request",
    }
}
