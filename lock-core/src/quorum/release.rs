use super::majority;

/// A node's vote on a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseVote {
    /// The key was ours and is deleted.
    Released,
    /// The key was not ours.
    NotOwner,
    /// No answer, or none that counts.
    NoReply,
}

/// What a release came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseVerdict {
    /// A majority deleted the key: it was ours to the end.
    StillOurs,
    /// No majority can have had it: it had ended before.
    NotOurs,
    /// Too few answers to tell.
    Unknown,
}

/// The deletion of a lock's key on all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReleaseTally {
    nodes: usize,
    open: usize,
    released: usize,
    not_owner: usize,
}

impl ReleaseTally {
    /// A release on `nodes` nodes, before any vote.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { nodes, open: nodes, released: 0, not_owner: 0 }
    }

    /// Takes the vote of one of the nodes, each of which votes once. Says what the votes so far tell; `None` while they tell
    /// nothing.
    pub fn vote(&mut self, vote: ReleaseVote) -> Option<ReleaseVerdict> {
        self.open = self.open.saturating_sub(1);
        match vote {
            ReleaseVote::Released => self.released += 1,
            ReleaseVote::NotOwner => self.not_owner += 1,
            ReleaseVote::NoReply => {}
        }
        let quorum = majority(self.nodes);
        if self.released >= quorum {
            Some(ReleaseVerdict::StillOurs)
        } else if self.nodes - self.not_owner < quorum {
            Some(ReleaseVerdict::NotOurs)
        } else if self.open == 0 {
            Some(ReleaseVerdict::Unknown)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReleaseVote::{NoReply, NotOwner, Released};
    use super::*;

    fn verdict(votes: [ReleaseVote; 3]) -> Option<ReleaseVerdict> {
        let mut release = ReleaseTally::new(3);
        votes.into_iter().find_map(|vote| release.vote(vote))
    }

    #[test]
    fn a_majority_tells_whose_the_lock_was() {
        assert_eq!(verdict([Released, NotOwner, Released]), Some(ReleaseVerdict::StillOurs));
        assert_eq!(verdict([NotOwner, Released, NotOwner]), Some(ReleaseVerdict::NotOurs));
        assert_eq!(verdict([Released, NotOwner, NoReply]), Some(ReleaseVerdict::Unknown));
    }
}
