use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::time::Duration;

use super::lack::{Lack, Lacks, as_writer};
use super::step::{Epochs, FIRST_SLOT, LOCKS, RecordChange, Step, WAITERS, owner};
use crate::node::{Mode, Operation, OwnerId, QueuePosition};
use crate::random::Random;
use crate::token::MAX_TOKEN;

/// At most this many requests are submitted together.
const TOGETHER: u64 = 3;

/// A token that a clock suggests.
const CLOCK: u64 = 1_700_000_000_000_000;

/// Draws the steps of one sequence: the same for the same seed.
pub(super) struct Draw {
    random: Random,
    ttl: Duration,
    /// The largest number that is drawn for a token.
    highest: u64,
}

impl Draw {
    pub(super) fn new(seed: u64, lacks: &Lacks, ttl: Duration) -> Self {
        let highest = if lacks.has(Lack::LastTokens) { CLOCK } else { MAX_TOKEN - 2 };
        Self { random: Random::from_seed(seed), ttl, highest }
    }

    /// A sequence of at most this many steps.
    pub(super) fn steps(&self, most: usize) -> Vec<Step> {
        (0..=self.index(most)).map(|_| self.step()).collect()
    }

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
        let (lock, operation) = (self.index(LOCKS.len()), self.operation());
        (lock, if lock < FIRST_SLOT { operation } else { as_writer(operation) })
    }

    fn operation(&self) -> Operation {
        let (owner, token) = (self.owner(), self.token());
        let ttl = self.ttl.saturating_mul(1 + u32::from(self.one_in(2)) + u32::from(self.one_in(2)));
        let since = NonZeroU64::MIN.saturating_add(self.below(5));
        let mode = if self.one_in(3) { Mode::Write } else { Mode::Read };
        let acquire = |since| {
            let tokens = if self.one_in(4) { 20 } else { 1 };
            Operation::Acquire { owner, ttl, hint: token, tokens, since, mode }
        };
        match self.below(14) {
            0 => acquire(None),
            1..4 => acquire(Some(since)),
            4 => Operation::Confirm { owner, token },
            5 | 6 => Operation::Extend { owner, ttl },
            7 => Operation::Replace { owner, ttl, token, mode },
            8 => Operation::Release { owner, position: QueuePosition::None },
            9 => Operation::Release { owner, position: QueuePosition::Keep { since, mode } },
            10 => Operation::LeaveQueue,
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
