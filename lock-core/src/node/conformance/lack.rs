use super::step::{Epochs, Step};
use crate::node::{Operation, QueuePosition};

/// Something that the rules ask for and a node does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lack {
    /// It has no queue and no reservations, or a queue of its own kind. Requests say that nobody waits.
    WaitingRoom,
    /// It wakes nobody. Requests say that the waiters poll.
    Wakeups,
    /// To it, a reader is a writer, and a downgrade is an extend.
    Readers,
    /// It puts nothing back: [`Operation::Replace`] is not requested. For a node that is [alone](crate::LockNode::is_alone).
    Replace,
    /// It does not say for how much longer a lock is held.
    Remaining,
    /// It cannot be [looked](crate::LockNode::look) at.
    Look,
    /// It [evicts](crate::LockNode::evict) nobody.
    Evict,
    /// It replies to an eviction after the [`EVICTION_GAP`](crate::node::EVICTION_GAP), not before it.
    PromptEviction,
    /// It carries a release out in any epoch. Releases are requested in the present one, and none while the node is not admitted.
    EpochOfReleases,
    /// Where no token is left, it refuses an acquire before it looks who holds the lock. No number is near the last token.
    LastTokens,
    /// Requests of different owners may overtake each other. Each waits for the reply to the one before.
    OrderOfOwners,
}

/// Everything that a node does without.
#[derive(Clone, Debug, Default)]
pub(super) struct Lacks(pub(super) Vec<Lack>);

impl Lacks {
    pub(super) fn has(&self, lack: Lack) -> bool {
        self.0.contains(&lack)
    }

    /// Whether the processes listen for wake-ups.
    pub(super) fn listens(&self) -> bool {
        !self.has(Lack::WaitingRoom) && !self.has(Lack::Wakeups)
    }

    /// The step without what the node lacks; `None` if nothing is left of it.
    pub(super) fn take_out(&self, mut step: Step) -> Option<Step> {
        match &mut step {
            Step::Requests { epoch, polls, operations, .. } => {
                if self.has(Lack::Replace) {
                    operations.retain(|(_, operation)| !matches!(operation, Operation::Replace { .. }));
                }
                if self.has(Lack::OrderOfOwners) {
                    operations.truncate(1);
                }
                if self.has(Lack::WaitingRoom) {
                    operations.iter_mut().for_each(|(_, operation)| *operation = without_wait(*operation));
                }
                if self.has(Lack::EpochOfReleases) && has_release(operations) {
                    *epoch = Epochs::Present;
                }
                *polls |= self.has(Lack::Wakeups);
                (!operations.is_empty()).then_some(step)
            }
            Step::Look(_) if self.has(Lack::Look) => None,
            Step::Evict { .. } if self.has(Lack::Evict) => None,
            Step::Look(_) | Step::Evict { .. } | Step::Write(_) | Step::ReadFences | Step::Inspect => Some(step),
        }
    }

    /// Whether a step releases a lock while there is no epoch, which a node may do that does not ask for it.
    pub(super) fn cannot_compare(&self, step: &Step, votes: bool) -> bool {
        let releases = matches!(step, Step::Requests { operations, .. } if has_release(operations));
        releases && !votes && self.has(Lack::EpochOfReleases)
    }
}

fn has_release(operations: &[(usize, Operation)]) -> bool {
    operations.iter().any(|(_, operation)| matches!(operation, Operation::Release { .. }))
}

fn without_wait(mut operation: Operation) -> Operation {
    match &mut operation {
        Operation::Acquire { since, .. } => *since = None,
        Operation::Release { position: position @ QueuePosition::Keep { .. }, .. } => *position = QueuePosition::None,
        _ => {}
    }
    operation
}
