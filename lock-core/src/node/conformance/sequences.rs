//! What the two sides are asked, one step after another.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::time::Duration;

use super::lack::{Lack, Lacks};
use super::step::{Epochs, FIRST_SLOT, LOCKS, RecordChange, Step, WAITERS, acquire, owner};
use crate::node::{Kind, Operation, OwnerId, QueuePosition};
use crate::random::Random;
use crate::token::MAX_TOKEN;

/// How many steps a sequence that is drawn has at most.
const STEPS: usize = 60;

/// At most this many requests are submitted together.
const TOGETHER: u64 = 3;

/// A token that a clock suggests.
const CLOCK: u64 = 1_700_000_000_000_000;

/// Steps, and how many processes listen meanwhile.
#[derive(Clone)]
pub(super) struct Sequence {
    pub(super) steps: Vec<Step>,
    pub(super) listening: u64,
}

impl Sequence {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), listening: WAITERS - 1 }
    }

    /// Requests of these processes about these locks. All locks are looked at after each.
    fn looked_at(listening: u64, requests: impl Iterator<Item = (u64, usize, Operation)>) -> Self {
        let requests = requests.map(|(waiter, lock, operation)| Step::request(waiter, lock, operation));
        Self { steps: requests.flat_map(|request| [request, Step::Look(Epochs::Present)]).collect(), listening }
    }

    /// A random sequence: the same for the same seed.
    pub(super) fn drawn(seed: u64, lacks: &Lacks, ttl: Duration) -> Self {
        let highest = if lacks.has(Lack::LastTokens) { CLOCK } else { MAX_TOKEN - 2 };
        let draw = Draw { random: Random::from_seed(seed), ttl, highest };
        Self::new((0..=draw.index(STEPS)).map(|_| draw.step()))
    }

    /// Those that random ones hardly ever contain, with locks that live this long.
    pub(super) fn always(ttl: Duration) -> Vec<Self> {
        let holders_and_ended = [(11, 0), (11, 1), (11, 2), (11, 4), (11, 9), (11, 11), (3, 0), (3, 2), (1, 5)];
        let queues = holders_and_ended.into_iter().map(|(holder, ended)| offers_to_a_long_queue(ttl, holder, ended));
        let evicted = [(0, Kind::Write), (1, Kind::Read), (FIRST_SLOT, Kind::Permit { of: 1 })];
        let evicted = evicted.into_iter().map(|(lock, kind)| nothing_moves_an_evicted_lock(ttl, lock, kind));
        let slots =
            [2, 3, 12].into_iter().flat_map(|permits| [0, 1, 2, 5].map(|ended| slots_for_a_queue(ttl, permits, ended)));
        [readers_join_while_the_lock_is_kept(ttl)].into_iter().chain(queues).chain(evicted).chain(slots).collect()
    }
}

/// Draws the steps of one sequence.
struct Draw {
    random: Random,
    ttl: Duration,
    /// The largest number that is drawn for a token.
    highest: u64,
}

impl Draw {
    fn step(&self) -> Step {
        match self.below(75) {
            0..60 => {
                let operations = (0..=self.below(TOGETHER)).map(|_| self.about_a_lock()).collect();
                let waiter = 1 + self.below(WAITERS);
                Step::Requests { epoch: self.epoch(), waiter, polls: self.one_in(10), operations }
            }
            60..64 => Step::Look(if self.one_in(2) { Epochs::Any } else { self.epoch() }),
            64..70 => {
                let owners: BTreeSet<OwnerId> = (0..self.below(3)).map(|_| self.owner()).collect();
                let owners = owners.into_iter().collect();
                Step::Evict { lock: self.index(LOCKS.len()), epoch: self.epoch(), owners, token: self.token() }
            }
            70..73 => Step::Write(RecordChange {
                is_stale: self.one_in(5),
                new_member: self.one_in(2),
                votes: !self.one_in(5),
                has_roster: self.one_in(2),
                begins_quarantine: self.one_in(2),
                floor: self.one_in(5).then(|| 1 + self.below(40)),
            }),
            73 => Step::ReadFences,
            _ => Step::Inspect,
        }
    }

    fn about_a_lock(&self) -> (usize, Operation) {
        let lock = self.index(LOCKS.len());
        let kind = match lock.checked_sub(FIRST_SLOT) {
            None if self.one_in(3) => Kind::Write,
            None => Kind::Read,
            Some(slot) => Kind::Permit {
                of: match self.below(8) {
                    0 => 12,
                    1 => 3,
                    2 | 3 => 1 + u32::try_from(slot).unwrap_or_default(),
                    _ => 2,
                },
            },
        };
        (lock, self.operation(kind))
    }

    fn operation(&self, kind: Kind) -> Operation {
        let (owner, token) = (self.owner(), self.token());
        let ttl = self.ttl.saturating_mul(1 + u32::from(self.one_in(2)) + u32::from(self.one_in(2)));
        let since = NonZeroU64::MIN.saturating_add(self.below(5));
        let acquire = |since| {
            let tokens = if self.one_in(4) { 20 } else { 1 };
            Operation::Acquire { owner, ttl, hint: token, tokens, since, kind }
        };
        match self.below(14) {
            0 => acquire(None),
            1..4 => acquire(Some(since)),
            4 => Operation::Confirm { owner, token },
            5 | 6 => Operation::Extend { owner, ttl },
            7 => Operation::Replace { owner, ttl, token, kind },
            8 => Operation::Release { owner, position: QueuePosition::None },
            9 => Operation::Release { owner, position: QueuePosition::Keep { since, kind } },
            10 => Operation::LeaveQueue,
            11 if kind.has_slots() => Operation::Extend { owner, ttl },
            11 => Operation::Downgrade { owner, ttl },
            _ => Operation::Release { owner, position: QueuePosition::Leave },
        }
    }

    fn owner(&self) -> OwnerId {
        owner(1 + u128::from(self.below(4)))
    }

    /// Few large ones: beyond the last, a lock is never granted again.
    fn token(&self) -> u64 {
        match self.below(20) {
            0 => self.highest,
            1 => CLOCK,
            _ => self.below(40),
        }
    }

    fn epoch(&self) -> Epochs {
        if self.one_in(20) { Epochs::Unknown } else { Epochs::Present }
    }

    fn one_in(&self, sides: u64) -> bool {
        self.below(sides) == 0
    }

    fn index(&self, len: usize) -> usize {
        usize::try_from(self.below(u64::try_from(len).unwrap_or(u64::MAX))).unwrap_or_default()
    }

    fn below(&self, sides: u64) -> u64 {
        self.random.number() % sides
    }
}

/// A lock is kept for a reader, another one is put back, and a third joins that one.
fn readers_join_while_the_lock_is_kept(ttl: Duration) -> Sequence {
    let (since, kind) = (NonZeroU64::MIN, Kind::Read);
    let release = |number, position| Operation::Release { owner: owner(number), position };
    let steps = [
        (1, release(1, QueuePosition::Keep { since, kind })),
        (2, Operation::Replace { owner: owner(1), ttl, token: 0, kind }),
        (2, acquire(4, Some(since), 0, kind, ttl)),
        (1, release(4, QueuePosition::None)),
        (1, release(1, QueuePosition::None)),
    ];
    let steps = steps.map(|(waiter, operation)| Step::request(waiter, 1, operation));
    Sequence::new(steps)
}

/// A lock is released while the process that held it waits, one of those that wait has ended, and eleven listen.
fn offers_to_a_long_queue(ttl: Duration, holder: u64, ended: u64) -> Sequence {
    let listening = 11;
    // The clock is ahead of every fence.
    let acquire =
        |number: u64, since| acquire(u128::from(number), NonZeroU64::new(since), 10 * number, Kind::Write, ttl);
    // The twelfth process does not listen.
    let waiter = |place| if place == ended { 12 } else { place };
    let waiting = (1..=listening).map(|place| (waiter(place), acquire(1 + place, place)));
    let release = Operation::Release { owner: owner(1), position: QueuePosition::Leave };
    let requests = [(holder, acquire(1, 0))].into_iter().chain(waiting);
    let requests = requests.chain([(holder, release), (12, acquire(30, 0)), (2, acquire(31, 2))]);
    Sequence::looked_at(listening, requests.map(|(waiter, operation)| (waiter, 1, operation)))
}

/// A lock is granted to nobody for a moment when its holder was evicted, and nothing that its former holder asks for changes that.
fn nothing_moves_an_evicted_lock(ttl: Duration, lock: usize, kind: Kind) -> Sequence {
    let acquire = |number, kind| acquire(number, None, 0, kind, ttl);
    let replace = |number| Operation::Replace { owner: owner(number), ttl, token: 9, kind };
    let request = |operation| Step::request(1, lock, operation);
    let operations = [
        acquire(1, kind),
        acquire(2, Kind::Write),
        acquire(3, kind),
        replace(1),
        replace(2),
        Operation::Extend { owner: owner(1), ttl },
        Operation::Confirm { owner: owner(1), token: 99 },
        Operation::Release { owner: owner(1), position: QueuePosition::Leave },
    ];
    let evict = Step::Evict { lock, epoch: Epochs::Present, owners: vec![owner(1)], token: 50 };
    let before = [request(acquire(1, kind)), evict];
    Sequence::new(before.into_iter().chain(operations.map(request)).chain([Step::Look(Epochs::Present)]))
}

/// Two slots are released one after the other while six processes wait, of which one has ended and one counts with a single permit. Those
/// that are called take a slot that is proposed to another one, put it back, leave, and wait again.
fn slots_for_a_queue(ttl: Duration, permits: u32, ended: u64) -> Sequence {
    let (listening, holder, few) = (6, 7, 4);
    let (first, second) = (FIRST_SLOT, FIRST_SLOT + 1);
    let kind = |waiter| Kind::Permit { of: if waiter == few { 1 } else { permits } };
    let acquire = |waiter: u64, number: u64, waits: bool| {
        let since = NonZeroU64::new(waiter).filter(|_| waits);
        acquire(u128::from(number), since, 10 * number, kind(waiter), ttl)
    };
    let release = |number, position| Operation::Release { owner: owner(number), position };
    let keep = |waiter| QueuePosition::Keep { since: NonZeroU64::MIN.saturating_add(waiter), kind: kind(waiter) };
    // The eighth process does not listen.
    let waiter = |place| if place == ended { 8 } else { place };
    let begin = [(holder, first, acquire(holder, 1, false)), (holder, second, acquire(holder, 2, false))];
    let waiting = (1..=listening).map(|place| {
        let slot = if place == few { first } else { second };
        (waiter(place), slot, acquire(place, 10 + place, true))
    });
    let then = [
        (holder, second, release(2, QueuePosition::Leave)),
        (holder, first, acquire(holder, 3, false)),
        (holder, first, release(1, QueuePosition::Leave)),
        (3, second, acquire(3, 23, true)),
        (2, first, acquire(2, 22, true)),
        (1, second, acquire(1, 21, true)),
        (2, first, release(22, keep(2))),
        (few, first, acquire(few, 24, true)),
        (1, second, release(21, QueuePosition::None)),
        (6, second, Operation::Replace { owner: owner(26), ttl, token: 0, kind: kind(6) }),
        (5, second, Operation::LeaveQueue),
        (6, second, release(26, QueuePosition::Leave)),
        (holder, first, release(24, QueuePosition::None)),
    ];
    Sequence::looked_at(listening, begin.into_iter().chain(waiting).chain(then))
}
