//! What takes time. It is not compared, but held against what the rules say.

use std::fmt::Debug;
use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::conformance::{Divergence, Runner};
use super::lack::Lack;
use super::outcome::{Outcome, Times};
use super::side::{Side, fresh_keys};
use super::step::{Epochs, FIRST_SLOT, Step, acquire, owner};
use crate::node::limits::QUEUE_TTL;
use crate::node::{EVICTION_GAP, Eviction, Kind, NodeError, Operation, QueuePosition, RESERVATION_TTL, Reply};

/// How long a lock lives whose end is waited for.
const BRIEF: Duration = Duration::from_millis(150);
/// How long something is waited for that has to happen.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is tried what this machine may be too slow for.
const TRIES: usize = 20;

const HELD: Reply = Reply::Held { remaining: None, stranger: false, position: None, offer: None };

/// Returns how many of these took too long to tell anything.
pub(super) async fn check(runner: &Runner<'_>) -> Result<usize, Divergence> {
    a_lock_ends_with_its_ttl(Trial::begin(runner).await?).await?;
    if !runner.lacks.has(Lack::Evict) {
        for (lock, kind) in [(0, Kind::Write), (1, Kind::Read), (FIRST_SLOT, Kind::Write)] {
            nobody_has_an_evicted_lock(Trial::begin(runner).await?, lock, kind).await?;
        }
    }
    if !runner.lacks.listens() {
        return Ok(0);
    }
    a_waiter_that_was_called_for_a_slot_is_passed(Trial::begin(runner).await?).await?;
    a_waiter_that_was_called_for_a_slot_keeps_nobody_out(Trial::begin(runner).await?).await?;
    for _ in 0..TRIES {
        if a_reservation_passes(Trial::begin(runner).await?).await? {
            return Ok(0);
        }
    }
    Ok(1)
}

/// A node that is admitted, and what it was asked.
struct Trial {
    side: Side,
    ttl: Duration,
    steps: Vec<String>,
}

impl Trial {
    async fn begin(runner: &Runner<'_>) -> Result<Self, Divergence> {
        let times = Times { ttl: runner.ttl, are_unknown: true };
        let listening = if runner.lacks.listens() { 2 } else { 0 };
        let side = Side::new((runner.node)(), &fresh_keys(), listening, times).await;
        let failed = |error: NodeError| differ(&[], "a node that is ready", error);
        let mut trial = Self { side: side.map_err(failed)?, ttl: runner.ttl, steps: Vec::new() };
        trial.carry_out(&Step::admit()).await;
        Ok(trial)
    }

    async fn carry_out(&mut self, step: &Step) -> Outcome {
        self.steps.push(format!("{step:?}"));
        self.side.carry_out(step).await
    }

    async fn expect_reply(&mut self, lock: usize, operation: Operation, expected: Reply) -> Result<(), Divergence> {
        let reply = self.ask(1, lock, operation).await?;
        self.check(reply == expected, expected, reply)
    }

    async fn ask(&mut self, waiter: u64, lock: usize, operation: Operation) -> Result<Reply, Divergence> {
        let outcome = self.carry_out(&Step::request(waiter, lock, operation)).await;
        if let Outcome::Replied(replies) = &outcome
            && let [Ok(reply)] = replies[..]
        {
            return Ok(reply);
        }
        Err(differ(&self.steps, "a reply", outcome))
    }

    /// Asks until the lock is granted.
    async fn until_granted(&mut self, lock: usize, operation: Operation, token: u64) -> Result<(), Divergence> {
        let (began, steps) = (Instant::now(), self.steps.len());
        loop {
            let reply = self.ask(1, lock, operation).await?;
            if !matches!(reply, Reply::Held { .. }) || began.elapsed() > PATIENCE {
                return self.check(reply == Reply::Granted { token }, Reply::Granted { token }, reply);
            }
            self.steps.truncate(steps);
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn acquire(&self, number: u128, since: u64, kind: Kind) -> Operation {
        acquire(number, NonZeroU64::new(since), 0, kind, self.ttl)
    }

    /// A lock is released for which these processes wait. None of them comes. Returns when.
    async fn release_to(&mut self, lock: usize, kind: Kind, waiters: &[u64]) -> Result<Instant, Divergence> {
        self.ask(3, lock, self.acquire(9, 0, kind)).await?;
        for waiter in waiters {
            self.ask(*waiter, lock, self.acquire(1, *waiter, kind)).await?;
        }
        let released = Instant::now();
        self.ask(3, lock, Operation::Release { owner: owner(9), position: QueuePosition::Leave }).await?;
        Ok(released)
    }

    fn first_is_too_late(&self, first: Reply, second: Reply) -> Result<(), Divergence> {
        let replies = (first, second);
        let is_right = matches!(replies, (Reply::Held { .. }, Reply::Granted { .. }));
        self.check(is_right, "Held for the first, and Granted for the second", replies)
    }

    fn lasted(&self, began: Instant, least: Duration) -> Result<(), Divergence> {
        let elapsed = began.elapsed();
        self.check(elapsed >= least, format!("not before {least:?}"), elapsed)
    }

    fn check(&self, is_right: bool, rules: impl Debug, node: impl Debug) -> Result<(), Divergence> {
        if is_right { Ok(()) } else { Err(differ(&self.steps, rules, node)) }
    }
}

fn differ(steps: &[String], rules: impl Debug, node: impl Debug) -> Divergence {
    Divergence { seed: None, steps: steps.to_vec(), rules: format!("{rules:?}"), node: format!("{node:?}") }
}

/// A lock ends with its `ttl`, and not before; one that was extended lives on.
async fn a_lock_ends_with_its_ttl(mut trial: Trial) -> Result<(), Divergence> {
    let (ttl, kind) = (trial.ttl, Kind::Write);
    let extend = Operation::Extend { owner: owner(1), ttl };
    let granted = Instant::now();
    for lock in [0, 1] {
        trial.expect_reply(lock, acquire(1, None, 0, kind, BRIEF), Reply::Granted { token: 1 }).await?;
    }
    trial.expect_reply(1, extend, Reply::Kept).await?;
    trial.until_granted(0, acquire(2, None, 0, kind, ttl), 2).await?;
    trial.lasted(granted, BRIEF)?;
    trial.expect_reply(0, extend, Reply::Gone).await?;
    trial.expect_reply(1, acquire(2, None, 0, kind, ttl), HELD).await
}

/// A lock is granted to nobody for a moment when its holder was evicted, also if it is evicted again; and then to others.
async fn nobody_has_an_evicted_lock(mut trial: Trial, lock: usize, kind: Kind) -> Result<(), Divergence> {
    let acquire = |number| acquire(number, None, 0, kind, trial.ttl);
    let (first, next) = (acquire(1), acquire(3));
    trial.expect_reply(lock, first, Reply::Granted { token: 1 }).await?;
    let began = Instant::now();
    for (owners, token, deleted) in [(vec![owner(1)], 50, true), (vec![], 60, false), (vec![owner(2)], 70, false)] {
        let evicted = trial.carry_out(&Step::Evict { lock, epoch: Epochs::Present, owners, token }).await;
        let expected = Outcome::Evicted(Ok(Eviction::Evicted { deleted }));
        trial.check(evicted == expected, &expected, &evicted)?;
    }
    trial.until_granted(lock, next, 71).await?;
    trial.lasted(began, EVICTION_GAP)
}

/// A free lock is kept for a waiter that does not come, and then for the next: the first comes too late. Returns false if it took so
/// long that the second may have been too late as well.
async fn a_reservation_passes(mut trial: Trial) -> Result<bool, Divergence> {
    let (lock, kind) = (1, Kind::Write);
    let released = trial.release_to(lock, kind, &[1, 2]).await?;
    sleep(RESERVATION_TTL + Duration::from_millis(5)).await;
    let first = trial.ask(1, lock, trial.acquire(7, 1, kind)).await?;
    let second = trial.ask(2, lock, trial.acquire(8, 2, kind)).await?;
    if released.elapsed() >= 2 * RESERVATION_TTL {
        return Ok(false);
    }
    trial.first_is_too_late(first, second).map(|()| true)
}

/// A slot is free, and the waiter that is called does not come: the next takes it.
async fn a_waiter_that_was_called_for_a_slot_is_passed(mut trial: Trial) -> Result<(), Divergence> {
    let (lock, kind) = (FIRST_SLOT, Kind::Permit { of: 1 });
    trial.release_to(lock, kind, &[1, 2]).await?;
    sleep(RESERVATION_TTL + Duration::from_millis(5)).await;
    let second = trial.ask(2, lock, trial.acquire(8, 2, kind)).await?;
    let first = trial.ask(1, lock, trial.acquire(7, 1, kind)).await?;
    trial.first_is_too_late(first, second)
}

/// A slot is free, and the only waiter does not come: a caller that does not wait takes it.
async fn a_waiter_that_was_called_for_a_slot_keeps_nobody_out(mut trial: Trial) -> Result<(), Divergence> {
    let (lock, kind) = (FIRST_SLOT, Kind::Permit { of: 1 });
    let released = trial.release_to(lock, kind, &[2]).await?;
    trial.until_granted(lock, trial.acquire(7, 0, kind), 2).await?;
    let elapsed = released.elapsed();
    trial.check(elapsed < QUEUE_TTL / 2, "before the queue is over", elapsed)
}
