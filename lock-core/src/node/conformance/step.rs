use std::num::NonZeroU64;
use std::time::Duration;

use crate::node::{Kind, Operation, OwnerId, QueuePosition};

/// The locks of a sequence, by name. The first and the third share a fence; the last two are slots of one resource, and share a queue.
pub(super) const LOCKS: [&str; 5] = ["one", "two", "three", "slots{0}", "slots{1}"];

/// Which of them is the first that is a slot. Nobody reads slots.
pub(super) const FIRST_SLOT: usize = 3;

/// How many processes wait in random sequences. The last of them does not listen for wake-ups.
pub(super) const WAITERS: u64 = 5;

/// The owner with this number. No token is one of these.
pub(super) const fn owner(number: u128) -> OwnerId {
    OwnerId::from_bits(number * 1_000_000_000_000)
}

/// An acquire of one token by the owner with this number, which waits if it has a `since`.
pub(super) fn acquire(number: u128, since: Option<NonZeroU64>, hint: u64, kind: Kind, ttl: Duration) -> Operation {
    Operation::Acquire { owner: owner(number), ttl, hint, tokens: 1, since, kind }
}

/// What both sides are asked at once.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Requests that are submitted together, each about one of [`LOCKS`].
    Requests { epoch: Epochs, waiter: u64, polls: bool, operations: Vec<(usize, Operation)> },
    /// All locks are looked at.
    Look(Epochs),
    /// Owners are evicted from a lock.
    Evict { lock: usize, epoch: Epochs, owners: Vec<OwnerId>, token: u64 },
    /// A record is written.
    Write(RecordChange),
    /// The highest fence is read.
    ReadFences,
    /// The node is inspected.
    Inspect,
}

/// In which epoch a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Epochs {
    Present,
    Unknown,
    /// None is named.
    Any,
}

/// A write of the record: what it expects, and what it changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordChange {
    /// Whether it expects another record than the present one.
    pub(super) is_stale: bool,
    pub(super) new_member: bool,
    /// Whether the node executes requests from then on.
    pub(super) votes: bool,
    pub(super) has_roster: bool,
    pub(super) begins_quarantine: bool,
    pub(super) floor: Option<u64>,
}

impl Step {
    /// A record with which the node executes requests from then on. Nothing else changes.
    pub(super) fn admit() -> Self {
        Self::Write(RecordChange { votes: true, ..RecordChange::default() })
    }

    /// One request, of a process that is woken.
    pub(super) fn request(waiter: u64, lock: usize, operation: Operation) -> Self {
        Self::Requests { epoch: Epochs::Present, waiter, polls: false, operations: vec![(lock, operation)] }
    }

    /// The same for a node without readers, which takes them for writers: a downgrade is an extend.
    pub(super) fn of_writers(mut self) -> Self {
        if let Self::Requests { operations, .. } = &mut self {
            for (_, operation) in operations {
                match operation {
                    Operation::Acquire { kind: kind @ Kind::Read, .. }
                    | Operation::Replace { kind: kind @ Kind::Read, .. }
                    | Operation::Release { position: QueuePosition::Keep { kind: kind @ Kind::Read, .. }, .. } => {
                        *kind = Kind::Write;
                    }
                    Operation::Downgrade { owner, ttl } => *operation = Operation::Extend { owner: *owner, ttl: *ttl },
                    _ => {}
                }
            }
        }
        self
    }

    /// The same, with its requests one after another.
    pub(super) fn one_by_one(&self) -> Vec<Self> {
        let Self::Requests { epoch, waiter, polls, operations } = self else { return vec![self.clone()] };
        let (epoch, waiter, polls) = (*epoch, *waiter, *polls);
        let alone = |operation: &_| Self::Requests { epoch, waiter, polls, operations: vec![*operation] };
        operations.iter().map(alone).collect()
    }
}
