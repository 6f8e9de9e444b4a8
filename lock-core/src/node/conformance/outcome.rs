use std::time::Duration;

use super::step::{FIRST_SLOT, Step};
use crate::node::{Eviction, LockState, NodeError, NodeRecord, Quarantine, Reply, Wakeup};

/// What one side replies to a step: without what differs between two clocks, and so comparable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Whether it can be inspected, and wakes those who listen.
    Ready(Result<(), Failure>),
    Replied(Vec<Result<Reply, Failure>>),
    Looked(Result<Vec<LockState>, Failure>),
    Evicted(Result<Eviction, Failure>),
    /// The record that the node says it wrote, and whether an inspection finds that one.
    Written(Result<Option<(NodeRecord, bool)>, Failure>),
    /// The highest fence, and the part of the node's id that does not depend on its clock.
    Fences(Result<Option<(u64, u64)>, Failure>),
    Inspected(Result<Option<NodeRecord>, Failure>),
    /// What each process heard.
    Heard(Vec<Vec<Wakeup>>),
}

impl Outcome {
    /// The rules' replies to a step, beside those of a node without a waiting room: to who wants a slot that is held, it offers no other
    /// one, and says when that one is free and not the first of all.
    pub(super) fn of_each_slot(self, step: &Step, node: &Self) -> Self {
        let (Self::Replied(rules), Self::Replied(node), Step::Requests { operations, .. }) = (&self, node, step) else {
            return self;
        };
        let beside = operations.iter().zip(rules.iter().zip(node)).map(|((lock, _), both)| match both {
            (Ok(Reply::Held { .. }), Ok(held @ Reply::Held { offer: None, .. })) if *lock >= FIRST_SLOT => Ok(*held),
            (rules, _) => rules.clone(),
        });
        Self::Replied(beside.collect())
    }
}

/// An error: the same as another one if it is of the same kind. Messages are the node's own.
#[derive(Clone, Debug)]
pub(super) struct Failure(pub(super) NodeError);

impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.0) == std::mem::discriminant(&other.0)
    }
}

impl Eq for Failure {}

/// How times are made comparable.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// How long the shortest lock of a sequence lives. Longer times are compared in steps of a tenth of it.
    pub(super) ttl: Duration,
    /// Whether the node does not say how much longer a lock is held.
    pub(super) are_unknown: bool,
}

impl Times {
    fn round(self, remaining: Duration) -> Duration {
        let step = self.ttl / 10;
        // A little was over when the reply was made.
        let steps = remaining.saturating_add(step / 3).as_nanos() / step.as_nanos().max(1);
        step * u32::try_from(steps).unwrap_or(u32::MAX)
    }

    fn of(self, remaining: Option<Duration>) -> Option<Duration> {
        remaining.filter(|_| !self.are_unknown).map(|remaining| self.round(remaining))
    }

    pub(super) fn reply(self, reply: Reply) -> Reply {
        match reply {
            Reply::Held { remaining, stranger, position, offer } => {
                Reply::Held { remaining: self.of(remaining), stranger, position, offer }
            }
            reply => reply,
        }
    }

    /// Which of two readers lives longer can differ by less than a millisecond, and so their order.
    pub(super) fn state(self, mut state: LockState) -> LockState {
        state.remaining = self.of(state.remaining);
        for reader in &mut state.readers {
            reader.remaining = self.round(reader.remaining);
        }
        state.readers.sort_by_key(|reader| reader.owner);
        state.evicted.sort_unstable();
        state
    }

    /// A record that was read at this time on the node's clock: without what the node completed by its own.
    pub(super) fn record(self, mut record: NodeRecord, clock_micros: u64) -> NodeRecord {
        record.run_id.clear();
        record.member.micros = 0;
        for Quarantine { ends, .. } in &mut record.quarantines {
            *ends = self.round(Duration::from_micros(ends.saturating_sub(clock_micros))).as_secs();
        }
        record
    }
}
