//! One task of a service: it locks, reads, works, writes and releases, again and again, in one way or another.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{LockError, LockGuard};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::crowd::CROWD_RESOURCE;
use super::cycle::Cycle;
use super::delegations::delegate;
use super::history::{Event, SHUTTING_DOWN};
use super::holding::Holding;
use super::kind::Kind;
use super::service::Shared;
use super::{QUICK_RESOURCE, RESOURCES, permits, resource};
use lock_support::Dice;

/// More cycles than any run has time for: the attempts of each task have ids of their own.
pub(super) const MAX_CYCLES: u64 = 1_000_000;

pub(super) struct Worker {
    shared: Arc<Shared>,
    resource: String,
    /// Which of the tasks that want this resource it is.
    number: usize,
    dice: Dice,
    /// The id of the last attempt; unique in the process.
    attempt: u64,
}

impl Worker {
    /// Of all tasks, this is `task`; of those that want the resource, `number`.
    pub(super) fn new(shared: Arc<Shared>, resource: String, task: usize, number: usize, dice: Dice) -> Self {
        Self { shared, resource, number, dice, attempt: task as u64 * MAX_CYCLES }
    }

    pub(super) async fn work(mut self, stopped: watch::Receiver<bool>) {
        for _ in 0..MAX_CYCLES {
            if *stopped.borrow() {
                return;
            }
            let cycle = self.draw();
            self.attempt += 1;
            let done = match cycle.kind {
                Kind::Set => self.set(&cycle).await,
                _ => self.cycle(&cycle).await,
            };
            let pause = if done.is_ok() { 20 } else { 60 };
            sleep(Duration::from_millis(self.dice.roll(pause))).await;
        }
    }

    fn draw(&mut self) -> Cycle {
        if self.resource == CROWD_RESOURCE {
            return Cycle::draw_in_crowd(&mut self.dice);
        }
        let index = (0..RESOURCES).find(|index| resource(*index) == self.resource).unwrap_or(QUICK_RESOURCE);
        let kind = match Kind::draw(&mut self.dice, index, self.number) {
            Kind::Delegate if !self.shared.store.adopts() => Kind::Write,
            kind => kind,
        };
        Cycle::draw(&mut self.dice, kind, index == QUICK_RESOURCE)
    }

    async fn cycle(&self, cycle: &Cycle) -> Result<(), LockError> {
        let (attempt, resource, locks) = (self.attempt, self.resource.clone(), &self.shared.locks);
        let (journal, reads) = (&self.shared.journal, cycle.reads());
        journal.write(match cycle.kind {
            Kind::Permit => Event::PermitAttempt { attempt, resource: resource.clone(), wait: cycle.wait },
            _ => Event::Attempt { attempt, resource: resource.clone(), wait: cycle.wait, reads },
        });
        let acquiring = async {
            let request = match cycle.kind {
                Kind::Permit => locks.permits(&resource, permits(&resource)),
                _ if reads => locks.read(&resource),
                _ => locks.lock(&resource),
            };
            cycle.apply(request).acquire().await
        };
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
        let mut holding = Holding::granted(&self.shared, guard.lease(), self.attempt);
        match cycle.kind {
            Kind::Delegate => {
                delegate(&mut holding, cycle.work).await;
                holding.release(guard).await;
            }
            Kind::Downgrade => {
                holding.update(cycle.work, cycle.ignores_loss).await;
                self.downgrade(cycle, holding, guard).await;
            }
            Kind::Read => {
                holding.look(cycle.work).await;
                holding.release(guard).await;
            }
            _ => {
                holding.update(cycle.work, cycle.ignores_loss).await;
                holding.release(guard).await;
            }
        }
    }

    /// Reads on for as long as it wrote.
    async fn downgrade(&self, cycle: &Cycle, mut holding: Holding<'_>, guard: LockGuard) {
        holding.record(|attempt, resource| Event::Downgrading { attempt, resource });
        match guard.downgrade().await {
            Ok(guard) => {
                holding.look(cycle.work).await;
                holding.release(guard).await;
            }
            Err(_) => {
                // Its guard has released it, or it was lost.
                holding.poll();
                holding.record(|attempt, resource| Event::Releasing { attempt, resource });
                let outcome = "not_downgraded".to_owned();
                holding.record(|attempt, resource| Event::Released { attempt, resource, outcome });
            }
        }
    }

    pub(super) fn parts(&mut self) -> (&Arc<Shared>, u64, &mut Dice) {
        (&self.shared, self.attempt, &mut self.dice)
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
