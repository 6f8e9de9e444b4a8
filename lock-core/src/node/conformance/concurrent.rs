//! What is asked before the last reply has come: in order where one node is asked, and one after another where two of one store are.

use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::time::{Instant, sleep};

use super::divergence::Divergence;
use super::lack::Lack;
use super::outcome::Outcome;
use super::runner::Runner;
use super::side::Side;
use super::step::{acquire, owner};
use super::trial::{Trial, differ};
use crate::node::{EVICTION_GAP, Kind, NodeError, Operation, QueuePosition, Reply};

/// How often each of these is tried. What is not atomic shows by chance.
const ROUNDS: u128 = 40;
/// How many ask for a lock at once.
const RIVALS: u128 = 8;

pub(super) async fn check(runner: &Runner<'_>) -> Result<(), Divergence> {
    requests_take_effect_in_their_order(Trial::begin(runner).await?, runner.lacks.has(Lack::OrderOfOwners)).await?;
    one_of_many_gets_the_lock(Rivals::begin(runner).await?).await?;
    one_of_two_records_is_written(Rivals::begin(runner).await?).await?;
    if !runner.lacks.has(Lack::Evict) {
        nobody_gets_a_lock_while_its_holder_is_evicted(Rivals::begin(runner).await?).await?;
    }
    Ok(())
}

fn release(number: u128) -> Operation {
    Operation::Release { owner: owner(number), position: QueuePosition::None }
}

/// What was submitted takes effect in that order, although nobody waits for the replies.
async fn requests_take_effect_in_their_order(trial: Trial, unordered: bool) -> Result<(), Divergence> {
    let steps =
        ["acquire and release by one owner, and acquire and release by another: submitted one by one".to_owned()];
    for first in (1..=2 * ROUNDS).step_by(2) {
        let submit = |operation| trial.side.submit_one(0, operation);
        // Between the owners, a node that may change their order is waited for.
        let settle = async |number| if unordered { Some(submit(release(number)).await) } else { None };
        let take = |number| acquire(number, None, 0, Kind::Write, trial.ttl);
        drop((submit(take(first)), submit(release(first))));
        settle(first).await;
        let reply = submit(take(first + 1)).await;
        if !matches!(reply, Ok(Reply::Granted { .. })) {
            return Err(differ(&steps, "Granted to the second owner", reply));
        }
        drop(submit(release(first + 1)));
        settle(first + 1).await;
    }
    Ok(())
}

/// A node that is admitted, and another one of the same store if there is one.
struct Rivals {
    trial: Trial,
    other: Option<Side>,
}

impl Rivals {
    async fn begin(runner: &Runner<'_>) -> Result<Self, Divergence> {
        let trial = Trial::begin(runner).await?;
        let other = trial.side.beside((runner.node)()).await;
        let other = other.map_err(|error| differ(&trial.steps, "a node that is ready", error))?;
        Ok(Self { trial, other })
    }

    /// One of the two, in turns.
    fn side(&self, number: u128) -> &Side {
        self.other.as_ref().filter(|_| number % 2 == 1).unwrap_or(&self.trial.side)
    }

    async fn ask(&self, number: u128, operation: Operation) -> Result<Reply, NodeError> {
        self.side(number).submit_one(0, operation).await
    }

    fn take(&self, number: u128) -> Operation {
        acquire(number, None, 0, Kind::Write, self.trial.ttl)
    }
}

async fn one_of_many_gets_the_lock(rivals: Rivals) -> Result<(), Divergence> {
    let steps = [format!("{RIVALS} owners acquire a lock at once")];
    let mut last = 0;
    for round in 0..ROUNDS {
        let numbers: Vec<u128> = (1..=RIVALS).map(|number| round * RIVALS + number).collect();
        let replies = join_all(numbers.iter().map(|number| rivals.ask(*number, rivals.take(*number)))).await;
        let granted = numbers.iter().zip(&replies).filter_map(|(number, reply)| match reply {
            Ok(Reply::Granted { token }) => Some((*number, *token)),
            _ => None,
        });
        match granted.collect::<Vec<_>>()[..] {
            [(winner, token)] if token > last => {
                last = token;
                let released = rivals.ask(winner, release(winner)).await;
                rivals.trial.check(released == Ok(Reply::Released), Reply::Released, released)?;
            }
            _ => return Err(differ(&steps, format!("Granted to one, with a token above {last}"), replies)),
        }
    }
    Ok(())
}

async fn one_of_two_records_is_written(rivals: Rivals) -> Result<(), Divergence> {
    let steps = ["two records are written at once in the place of the same one".to_owned()];
    for round in 0..ROUNDS {
        let failed = |error: NodeError| differ(&steps, "a record", error);
        let write = rivals.trial.side.another_epoch(round).await.map_err(failed)?;
        let write_to = |number| rivals.side(number).write_record(write.clone());
        let (first, second) = join(write_to(0), write_to(1)).await;
        let written = [first, second].map(|written| written.map(|record| record.is_some()));
        if !matches!(written, [Ok(true), Ok(false)] | [Ok(false), Ok(true)]) {
            return Err(differ(&steps, "one of them is written", written));
        }
    }
    Ok(())
}

/// Not between the end of the holder and the gap after it, either.
async fn nobody_gets_a_lock_while_its_holder_is_evicted(rivals: Rivals) -> Result<(), Divergence> {
    let (steps, holder) = (["an owner is evicted, while others acquire its lock".to_owned()], 1);
    let granted = rivals.ask(0, rivals.take(holder)).await;
    rivals.trial.check(granted == Ok(Reply::Granted { token: 1 }), Reply::Granted { token: 1 }, granted)?;
    let began = Instant::now();
    let asking = async {
        for number in holder + 1.. {
            let reply = rivals.ask(1, rivals.take(number)).await;
            if began.elapsed() >= EVICTION_GAP {
                break;
            }
            if matches!(reply, Ok(Reply::Granted { .. })) {
                return Err(differ(&steps, "Held until the gap is over", reply));
            }
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    };
    let (evicted, asked) = join(rivals.trial.side.evict_now(0, &[owner(holder)], 50), asking).await;
    asked?;
    rivals.trial.check(matches!(evicted, Outcome::Evicted(Ok(_))), "Evicted", evicted)
}
