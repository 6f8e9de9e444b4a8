use super::SlotOffers;
use crate::cluster::NodeSet;
use crate::error::{NodeVote, Vote};
use crate::quorum::{Failure, majority};

/// An attempt that failed and was undone.
#[derive(Clone, Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) failure: Failure,
    pub(crate) votes: Vec<NodeVote>,
    pub(crate) queue: QueueReport,
    /// Which slots nodes let the caller take instead.
    pub(crate) offers: SlotOffers,
}

impl FailedAttempt {
    /// The result of an attempt that was not made.
    pub(super) fn not_made(votes: Vec<NodeVote>) -> Self {
        Self { failure: Failure::NoQuorum, votes, queue: QueueReport::default(), offers: SlotOffers::default() }
    }

    /// Whether some nodes granted the lock, but too few: others may have tried at the same time.
    pub(crate) fn is_split(&self) -> bool {
        self.votes.iter().any(|vote| matches!(vote.vote, Vote::Granted { .. }))
    }

    /// Whether no majority can grant the lock, because too many nodes have something else at its key.
    pub(crate) fn is_not_a_lock(&self) -> bool {
        let others = self.votes.iter().filter(|vote| vote.vote == Vote::NotALock).count();
        self.votes.len() - others < majority(self.votes.len())
    }
}

/// Where the waiting caller is in the nodes' queues. The queues differ only while requests are on their way, so the largest figure
/// counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueReport {
    /// How many waiters are before it.
    pub(crate) ahead: u32,
    /// Whether it is the first, and the holder is a stranger.
    pub(crate) first_behind_stranger: bool,
    /// The nodes on which it had a position, and took a new one: its reservation had passed.
    pub(crate) passed: NodeSet,
}
