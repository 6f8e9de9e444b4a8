use std::time::Duration;

use super::majority;

/// A vote on whether a node has the key of a lock for one owner.
pub trait KeyVote: Copy {
    /// Whether the node has the key, or had it until this request deleted it; `None` if it did not reply.
    fn has_key(self) -> Option<bool>;
}

/// Whether an owner holds a lock: one of three, not two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A majority of **all** nodes has the key.
    Held,
    /// No majority can have it, because too many nodes do not.
    Lost,
    /// Too few replies to decide.
    Unknown,
}

/// The votes of one round of requests about the key of one owner: to extend it, to release it, or to look at it.
///
/// A majority of the nodes that replied proves nothing: it may be a minority of all nodes, and another owner may have the majority.
///
/// # Examples
///
/// ```
/// use lock_core::quorum::ReleaseVote::{NotOwner, Released};
/// use lock_core::quorum::{Tally, Verdict};
///
/// let mut tally = Tally::new(3);
/// assert_eq!(tally.vote(0, Released), None);
/// assert_eq!(tally.vote(2, NotOwner), None);
/// assert_eq!(tally.vote(1, Released), Some(Verdict::Held));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tally<V> {
    pub(super) votes: Vec<Option<V>>,
    decided: bool,
}

impl<V: KeyVote> Tally<V> {
    /// The tally for `nodes` nodes, before the first vote.
    pub fn new(nodes: usize) -> Self {
        Self { votes: vec![None; nodes], decided: false }
    }

    /// Counts a node's vote; each node has one. The vote that decides returns the verdict. Votes are counted on after that.
    pub fn vote(&mut self, node: usize, vote: V) -> Option<Verdict> {
        // The first vote of a node is the one that counts. The caller that gave up on it has counted that as its vote.
        let slot = self.votes.get_mut(node).filter(|slot| slot.is_none())?;
        *slot = Some(vote);
        if self.decided {
            return None;
        }
        let (nodes, quorum) = (self.votes.len(), majority(self.votes.len()));
        let count = |has_key| self.votes.iter().flatten().filter(|vote| vote.has_key() == Some(has_key)).count();
        let verdict = if count(true) >= quorum {
            // Not after all votes: a node that hangs must not use up the validity that the others extended.
            Verdict::Held
        } else if nodes - count(false) < quorum {
            // A missing reply proves nothing: a lease ends early only if no majority can have the key.
            Verdict::Lost
        } else if self.votes.iter().all(Option::is_some) {
            Verdict::Unknown
        } else {
            return None;
        };
        self.decided = true;
        Some(verdict)
    }
}

/// A node's vote on a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseVote {
    /// The node held the key, and deleted it.
    Released,
    /// The node did not hold the key.
    NotOwner,
    /// No reply, or none that counts.
    NoReply,
}

impl KeyVote for ReleaseVote {
    fn has_key(self) -> Option<bool> {
        match self {
            Self::Released => Some(true),
            Self::NotOwner => Some(false),
            Self::NoReply => None,
        }
    }
}

/// What a node says about a lock that was delegated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProofVote {
    /// The key is held by the owner who made the credential, for this much longer.
    Proven(Duration),
    /// The key is free, or held by another owner.
    Refuted,
    /// No reply, or none that counts.
    NoReply,
}

impl KeyVote for ProofVote {
    fn has_key(self) -> Option<bool> {
        match self {
            Self::Proven(_) => Some(true),
            Self::Refuted => Some(false),
            Self::NoReply => None,
        }
    }
}

impl Tally<ProofVote> {
    /// For how long each node that proved the lock has its key, at least. To be asked when a majority has proved it.
    pub fn proven_for(&self) -> Duration {
        let proven = self.votes.iter().flatten().filter_map(|vote| match vote {
            ProofVote::Proven(remaining) => Some(*remaining),
            _ => None,
        });
        proven.min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReleaseVote::{self, NoReply, NotOwner, Released};
    use super::*;

    fn verdict(votes: &[ReleaseVote], nodes: usize) -> Option<Verdict> {
        let mut tally = Tally::new(nodes);
        votes.iter().enumerate().filter_map(|(node, vote)| tally.vote(node, *vote)).last()
    }

    #[test]
    fn held_lost_and_unknown_are_three_things() {
        assert_eq!(verdict(&[Released, NotOwner, Released], 3), Some(Verdict::Held));
        assert_eq!(verdict(&[NotOwner, Released, NotOwner], 3), Some(Verdict::Lost));
        assert_eq!(verdict(&[Released, NotOwner, NoReply], 3), Some(Verdict::Unknown));
        assert_eq!(verdict(&[Released, Released, NoReply, NoReply, NoReply], 5), Some(Verdict::Unknown));
        assert_eq!(verdict(&[NoReply; 5], 5), Some(Verdict::Unknown));
        let two_keys_and_one_unknown = [NotOwner, NotOwner, Released, Released, NoReply];
        assert_eq!(verdict(&two_keys_and_one_unknown, 5), Some(Verdict::Unknown));
    }

    #[test]
    fn the_majority_is_of_all_nodes_not_of_those_that_replied() {
        assert_eq!(verdict(&[Released, Released], 5), None);
        assert_eq!(verdict(&[Released, NoReply, NoReply], 3), Some(Verdict::Unknown));
        assert_eq!(verdict(&[Released, Released, NotOwner, NotOwner, NoReply], 5), Some(Verdict::Unknown));
    }

    #[test]
    fn a_lock_that_no_majority_can_hold_is_lost_at_once() {
        assert_eq!(verdict(&[NotOwner, NotOwner], 5), None);
        assert_eq!(verdict(&[NotOwner, NotOwner, NotOwner], 5), Some(Verdict::Lost));
    }

    #[test]
    fn a_node_votes_once_and_a_round_has_one_verdict() {
        let mut tally = Tally::new(3);
        assert_eq!([tally.vote(0, Released), tally.vote(0, Released)], [None, None]);
        assert_eq!(tally.vote(1, Released), Some(Verdict::Held));
        assert_eq!(tally.vote(2, NotOwner), None);
    }

    #[test]
    fn a_proof_lasts_as_long_as_a_majority_holds_the_key() {
        let proven = |millis| ProofVote::Proven(Duration::from_millis(millis));
        let mut tally = Tally::new(5);
        let votes = [proven(500), proven(300), ProofVote::Refuted, ProofVote::NoReply, proven(900)];
        let verdict = votes.into_iter().enumerate().find_map(|(node, vote)| tally.vote(node, vote));
        assert_eq!((verdict, tally.proven_for()), (Some(Verdict::Held), Duration::from_millis(300)));
    }
}
