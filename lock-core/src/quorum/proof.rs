use std::time::Duration;

use super::majority;

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

/// Whether the owner who delegated a lock still has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProofVerdict {
    /// A majority of **all** nodes holds the key for the owner, each of them for at least this long.
    Proven(Duration),
    /// No majority can hold the key for the owner, because too many nodes do not.
    Refuted,
    /// Too few replies to decide.
    Unknown,
}

/// The votes of one look at a delegated lock.
///
/// A majority of the nodes that replied proves nothing: the others may have granted the lock to the next owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProofTally {
    votes: Vec<Option<ProofVote>>,
    decided: bool,
}

impl ProofTally {
    /// The tally for `nodes` nodes, before the first vote.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { votes: vec![None; nodes], decided: false }
    }

    /// Counts a node's vote. The vote that decides returns the verdict.
    pub fn vote(&mut self, node: usize, vote: ProofVote) -> Option<ProofVerdict> {
        let slot = self.votes.get_mut(node).filter(|slot| slot.is_none())?;
        *slot = Some(vote);
        if self.decided {
            return None;
        }
        let quorum = majority(self.votes.len());
        let (mut proven, mut refuted, mut pending) = (Vec::new(), 0, 0);
        for vote in &self.votes {
            match vote {
                Some(ProofVote::Proven(remaining)) => proven.push(*remaining),
                Some(ProofVote::Refuted) => refuted += 1,
                Some(ProofVote::NoReply) => {}
                None => pending += 1,
            }
        }
        let verdict = if proven.len() >= quorum {
            ProofVerdict::Proven(proven.into_iter().min().unwrap_or_default())
        } else if self.votes.len() - refuted < quorum {
            ProofVerdict::Refuted
        } else if pending == 0 {
            ProofVerdict::Unknown
        } else {
            return None;
        };
        self.decided = true;
        Some(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::ProofVote::{NoReply, Proven, Refuted};
    use super::*;

    const fn proven(millis: u64) -> ProofVote {
        Proven(Duration::from_millis(millis))
    }

    fn verdict(votes: &[ProofVote], nodes: usize) -> Option<ProofVerdict> {
        let mut tally = ProofTally::new(nodes);
        votes.iter().enumerate().filter_map(|(node, vote)| tally.vote(node, *vote)).last()
    }

    #[test]
    fn a_proof_lasts_as_long_as_a_majority_holds_the_key() {
        let shortest = Some(ProofVerdict::Proven(Duration::from_millis(300)));
        assert_eq!(verdict(&[proven(500), proven(300), Refuted, NoReply, proven(900)], 5), shortest);
    }

    #[test]
    fn a_majority_of_those_that_replied_proves_nothing() {
        assert_eq!(verdict(&[proven(500), proven(500), NoReply, NoReply, NoReply], 5), Some(ProofVerdict::Unknown));
        assert_eq!(verdict(&[proven(500), proven(500), Refuted, Refuted, NoReply], 5), Some(ProofVerdict::Unknown));
    }

    #[test]
    fn a_lock_that_no_majority_can_hold_is_refuted_at_once() {
        assert_eq!(verdict(&[Refuted, Refuted], 5), None);
        assert_eq!(verdict(&[Refuted, Refuted, Refuted], 5), Some(ProofVerdict::Refuted));
    }
}
