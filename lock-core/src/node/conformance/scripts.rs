//! Sequences that random ones hardly ever contain.

use std::num::NonZeroU64;
use std::time::Duration;

use super::run::Sequence;
use super::step::{Epochs, Step, WAITERS, acquire, owner};
use crate::node::{Mode, Operation, QueuePosition};

/// All of them, with locks that live this long.
pub(super) fn all(ttl: Duration) -> Vec<Sequence> {
    let holders_and_ended = [(11, 0), (11, 1), (11, 2), (11, 4), (11, 9), (11, 11), (3, 0), (3, 2), (1, 5)];
    let queues = holders_and_ended.into_iter().map(|(holder, ended)| offers_to_a_long_queue(ttl, holder, ended));
    [readers_join_while_the_lock_is_kept(ttl)].into_iter().chain(queues).collect()
}

/// A lock is kept for a reader, another one is put back, and a third joins that one.
fn readers_join_while_the_lock_is_kept(ttl: Duration) -> Sequence {
    let (since, mode) = (NonZeroU64::MIN, Mode::Read);
    let release = |number, position| Operation::Release { owner: owner(number), position };
    let steps = [
        (1, release(1, QueuePosition::Keep { since, mode })),
        (2, Operation::Replace { owner: owner(1), ttl, token: 0, mode }),
        (2, acquire(4, Some(since), 0, mode, ttl)),
        (1, release(4, QueuePosition::None)),
        (1, release(1, QueuePosition::None)),
    ];
    let steps = steps.map(|(waiter, operation)| Step::request(waiter, 1, operation));
    Sequence { steps: steps.into(), listening: WAITERS - 1 }
}

/// A lock is released while the process that held it waits, one of those that wait has ended, and eleven listen.
fn offers_to_a_long_queue(ttl: Duration, holder: u64, ended: u64) -> Sequence {
    let listening = 11;
    // The clock is ahead of every fence.
    let acquire =
        |number: u64, since| acquire(u128::from(number), NonZeroU64::new(since), 10 * number, Mode::Write, ttl);
    // The twelfth process does not listen.
    let waiter = |place| if place == ended { 12 } else { place };
    let waiting = (1..=listening).map(|place| (waiter(place), acquire(1 + place, place)));
    let release = Operation::Release { owner: owner(1), position: QueuePosition::Leave };
    let requests = [(holder, acquire(1, 0))].into_iter().chain(waiting);
    let requests = requests.chain([(holder, release), (12, acquire(30, 0)), (2, acquire(31, 2))]);
    let steps =
        requests.flat_map(|(waiter, operation)| [Step::request(waiter, 1, operation), Step::Look(Epochs::Present)]);
    Sequence { steps: steps.collect(), listening }
}
