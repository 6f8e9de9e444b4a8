//! What takes time. It is not compared, but held against what the rules say.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::divergence::Divergence;
use super::lack::Lack;
use super::outcome::Outcome;
use super::runner::Runner;
use super::step::{Epochs, FIRST_SLOT, Step, acquire, owner};
use super::trial::{HELD, Trial};
use crate::node::limits::QUEUE_TTL;
use crate::node::{EVICTION_GAP, Eviction, Kind, Operation, OwnerId, QueuePosition, RESERVATION_TTL, Reply};

/// How long after an eviction it is tried whether the evicted owner is barred still.
const LATE: Duration = EVICTION_GAP.saturating_mul(4);
/// How often it is tried what this machine may be too slow for.
const TRIES: usize = 20;

/// Returns how many of these took too long to tell anything.
pub(super) async fn check(runner: &Runner<'_>) -> Result<usize, Divergence> {
    if !runner.lacks.has(Lack::Evict) {
        for (lock, kind) in [(0, Kind::Write), (1, Kind::Read), (FIRST_SLOT, Kind::Write)] {
            nobody_has_an_evicted_lock(Trial::begin(runner).await?, lock, kind).await?;
        }
        an_evicted_owner_stays_away(Trial::begin(runner).await?, !runner.lacks.has(Lack::Replace)).await?;
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

/// A lock is granted to nobody for a moment when its holder was evicted, also if it is evicted again; and then to others.
async fn nobody_has_an_evicted_lock(mut trial: Trial, lock: usize, kind: Kind) -> Result<(), Divergence> {
    let acquire = |number| acquire(number, None, 0, kind, trial.ttl);
    let (first, next) = (acquire(1), acquire(3));
    trial.expect_reply(lock, first, Reply::Granted { token: 1 }).await?;
    let began = Instant::now();
    for (owners, token, deleted) in [(vec![owner(1)], 50, true), (vec![], 60, false), (vec![owner(2)], 70, false)] {
        evict(&mut trial, lock, owners, token, deleted).await?;
    }
    trial.until(lock, next, Reply::Granted { token: 71 }).await?;
    trial.lasted(began, EVICTION_GAP)
}

async fn evict(
    trial: &mut Trial,
    lock: usize,
    owners: Vec<OwnerId>,
    token: u64,
    deleted: bool,
) -> Result<(), Divergence> {
    let evicted = trial.carry_out(&Step::Evict { lock, epoch: Epochs::Present, owners, token }).await;
    let expected = Outcome::Evicted(Ok(Eviction::Evicted { deleted }));
    trial.check(evicted == expected, &expected, &evicted)
}

/// An owner that was evicted gets nothing from a request that arrives late, although the lock is free.
async fn an_evicted_owner_stays_away(mut trial: Trial, replaces: bool) -> Result<(), Divergence> {
    let (lock, kind, ttl) = (0, Kind::Write, trial.ttl);
    let first = acquire(1, None, 0, kind, ttl);
    trial.expect_reply(lock, first, Reply::Granted { token: 1 }).await?;
    evict(&mut trial, lock, vec![owner(1)], 50, true).await?;
    sleep(LATE).await;
    trial.expect_reply(lock, first, HELD).await?;
    trial.expect_reply(lock, Operation::Extend { owner: owner(1), ttl }, Reply::Gone).await?;
    if replaces {
        let replace = Operation::Replace { owner: owner(1), ttl, token: 50, kind };
        trial.expect_reply(lock, replace, Reply::Gone).await?;
    }
    trial.expect_reply(lock, acquire(2, None, 0, kind, ttl), Reply::Granted { token: 51 }).await
}

/// A free lock is kept for a waiter that does not come, and then for the next: the first comes too late. Returns false if it took so
/// long that the second may have been too late as well.
async fn a_reservation_passes(mut trial: Trial) -> Result<bool, Divergence> {
    let (lock, kind) = (1, Kind::Write);
    let released = release_to(&mut trial, lock, kind, &[1, 2]).await?;
    sleep(RESERVATION_TTL + Duration::from_millis(5)).await;
    let first = trial.ask(1, lock, trial.acquire(7, 1, kind)).await?;
    let second = trial.ask(2, lock, trial.acquire(8, 2, kind)).await?;
    if released.elapsed() >= 2 * RESERVATION_TTL {
        return Ok(false);
    }
    first_is_too_late(&trial, first, second).map(|()| true)
}

/// A slot is free, and the waiter that is called does not come: the next takes it.
async fn a_waiter_that_was_called_for_a_slot_is_passed(mut trial: Trial) -> Result<(), Divergence> {
    let (lock, kind) = (FIRST_SLOT, Kind::Permit { of: 1 });
    release_to(&mut trial, lock, kind, &[1, 2]).await?;
    sleep(RESERVATION_TTL + Duration::from_millis(5)).await;
    let second = trial.ask(2, lock, trial.acquire(8, 2, kind)).await?;
    let first = trial.ask(1, lock, trial.acquire(7, 1, kind)).await?;
    first_is_too_late(&trial, first, second)
}

/// A slot is free, and the only waiter does not come: a caller that does not wait takes it.
async fn a_waiter_that_was_called_for_a_slot_keeps_nobody_out(mut trial: Trial) -> Result<(), Divergence> {
    let (lock, kind) = (FIRST_SLOT, Kind::Permit { of: 1 });
    let released = release_to(&mut trial, lock, kind, &[2]).await?;
    trial.until(lock, trial.acquire(7, 0, kind), Reply::Granted { token: 2 }).await?;
    let elapsed = released.elapsed();
    trial.check(elapsed < QUEUE_TTL / 2, "before the queue is over", elapsed)
}

/// A lock is released for which these processes wait. None of them comes. Returns when.
async fn release_to(trial: &mut Trial, lock: usize, kind: Kind, waiters: &[u64]) -> Result<Instant, Divergence> {
    trial.ask(3, lock, trial.acquire(9, 0, kind)).await?;
    for waiter in waiters {
        trial.ask(*waiter, lock, trial.acquire(1, *waiter, kind)).await?;
    }
    let released = Instant::now();
    trial.ask(3, lock, Operation::Release { owner: owner(9), position: QueuePosition::Leave }).await?;
    Ok(released)
}

fn first_is_too_late(trial: &Trial, first: Reply, second: Reply) -> Result<(), Divergence> {
    let replies = (first, second);
    let is_right = matches!(replies, (Reply::Held { .. }, Reply::Granted { .. }));
    trial.check(is_right, "Held for the first, and Granted for the second", replies)
}
