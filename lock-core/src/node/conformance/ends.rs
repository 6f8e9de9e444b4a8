//! When a lock ends: with its `ttl`, and not before, whatever gave it that. And the clock that quarantines end by.

use std::time::Duration;

use futures_util::future::{LocalBoxFuture, try_join_all};
use tokio::time::{Instant, sleep};

use super::divergence::Divergence;
use super::lack::Lack;
use super::runner::Runner;
use super::step::{acquire, owner};
use super::trial::Trial;
use crate::node::{Kind, Operation, OwnerId, QueuePosition, Reply};

/// How long a lock lives whose end is waited for. Not a whole number of seconds: a node may count in those, and rounds up.
const BRIEF: Duration = Duration::from_millis(1500);

pub(super) async fn check(runner: &Runner<'_>) -> Result<(), Divergence> {
    let trial = || Trial::begin(runner);
    let mut trials: Vec<LocalBoxFuture<'_, Result<(), Divergence>>> = vec![
        Box::pin(a_lock_ends_with_its_ttl(trial().await?)),
        Box::pin(one_that_is_kept_ends_with_its_new_ttl(trial().await?, |owner, ttl| Operation::Extend { owner, ttl })),
        Box::pin(the_clock_runs(trial().await?)),
    ];
    if !runner.lacks.has(Lack::Replace) {
        trials.push(Box::pin(one_that_was_put_back_ends_with_its_ttl(trial().await?)));
    }
    if !runner.lacks.has(Lack::Readers) {
        let downgrade = |owner, ttl| Operation::Downgrade { owner, ttl };
        trials.push(Box::pin(one_that_is_kept_ends_with_its_new_ttl(trial().await?, downgrade)));
        trials.push(Box::pin(the_last_reader_keeps_writers_out(trial().await?)));
        trials.push(Box::pin(a_reader_ends_beside_another(trial().await?)));
    }
    // All at once: each of them waits.
    try_join_all(trials).await.map(drop)
}

/// How long these locks live: what a node calls long may be less.
fn brief(trial: &Trial) -> Duration {
    trial.ttl.min(BRIEF)
}

async fn grant(trial: &mut Trial, number: u128, kind: Kind, ttl: Duration) -> Result<(), Divergence> {
    let reply = trial.ask(1, 0, acquire(number, None, 0, kind, ttl)).await?;
    trial.check(matches!(reply, Reply::Granted { .. }), "Granted", reply)
}

/// A writer gets the lock when it has ended, and not before this time.
async fn ends(trial: &mut Trial, began: Instant, token: u64) -> Result<(), Divergence> {
    let writer = acquire(9, None, 0, Kind::Write, trial.ttl);
    trial.until(0, writer, Reply::Granted { token }).await?;
    trial.lasted(began, brief(trial))
}

async fn a_lock_ends_with_its_ttl(mut trial: Trial) -> Result<(), Divergence> {
    let (granted, ttl) = (Instant::now(), brief(&trial));
    grant(&mut trial, 1, Kind::Write, ttl).await?;
    ends(&mut trial, granted, 2).await?;
    trial.expect_reply(0, Operation::Extend { owner: owner(1), ttl }, Reply::Gone).await
}

/// A lock that would end before is kept by an operation with the new time. Nothing is told by a machine that was too slow for that.
async fn one_that_is_kept_ends_with_its_new_ttl(
    mut trial: Trial,
    keep: fn(OwnerId, Duration) -> Operation,
) -> Result<(), Divergence> {
    let (granted, ttl) = (Instant::now(), brief(&trial) / 2);
    grant(&mut trial, 1, Kind::Write, ttl).await?;
    let extended = Instant::now();
    let reply = trial.ask(1, 0, keep(owner(1), brief(&trial))).await?;
    if granted.elapsed() >= ttl {
        return Ok(());
    }
    trial.check(reply == Reply::Kept, Reply::Kept, reply)?;
    ends(&mut trial, extended, 2).await
}

async fn one_that_was_put_back_ends_with_its_ttl(mut trial: Trial) -> Result<(), Divergence> {
    let (ttl, kind) = (brief(&trial), Kind::Write);
    grant(&mut trial, 1, kind, ttl).await?;
    trial.ask(1, 0, Operation::Release { owner: owner(1), position: QueuePosition::None }).await?;
    let replaced = Instant::now();
    trial.expect_reply(0, Operation::Replace { owner: owner(1), ttl, token: 1, kind }, Reply::Kept).await?;
    ends(&mut trial, replaced, 2).await
}

async fn the_last_reader_keeps_writers_out(mut trial: Trial) -> Result<(), Divergence> {
    let ttl = brief(&trial);
    let granted = Instant::now();
    grant(&mut trial, 1, Kind::Read, ttl).await?;
    grant(&mut trial, 2, Kind::Read, ttl / 2).await?;
    ends(&mut trial, granted, 2).await
}

/// The lock lives on for the other reader, and not for the one whose time is over.
async fn a_reader_ends_beside_another(mut trial: Trial) -> Result<(), Divergence> {
    let (long, ttl) = (trial.ttl, brief(&trial) / 10);
    grant(&mut trial, 1, Kind::Read, ttl).await?;
    grant(&mut trial, 2, Kind::Read, long).await?;
    // A confirmation does not extend it, and needs a higher token each time.
    for token in 2.. {
        let (steps, confirm) = (trial.steps.len(), Operation::Confirm { owner: owner(1), token });
        if trial.ask(1, 0, confirm).await? != Reply::Confirmed {
            break;
        }
        trial.check(token < 1000, "not for ever", Reply::Confirmed)?;
        trial.steps.truncate(steps);
        sleep(ttl / 20).await;
    }
    trial.expect_reply(0, Operation::Extend { owner: owner(1), ttl: long }, Reply::Gone).await?;
    trial.expect_reply(0, Operation::Extend { owner: owner(2), ttl: long }, Reply::Kept).await
}

/// A quarantine ends by the node's clock: one that runs too fast ends it early, and one that stands still never.
async fn the_clock_runs(trial: Trial) -> Result<(), Divergence> {
    let (began, before, asked) = (Instant::now(), trial.clock().await?, Instant::now());
    sleep(BRIEF).await;
    let least = asked.elapsed();
    let (clock, most) = (trial.clock().await?.saturating_sub(before), began.elapsed());
    trial.check((least / 2..most * 3 / 2).contains(&clock), least, clock)
}
