use super::majority;

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

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseVerdict {
    /// A majority deleted the key: the lock was held until the release.
    StillOurs,
    /// No majority can have had the key: the lock had ended before.
    NotOurs,
    /// Too few replies to decide.
    Unknown,
}

/// The votes on a release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReleaseTally {
    nodes: usize,
    open: usize,
    released: usize,
    not_owner: usize,
}

impl ReleaseTally {
    /// The tally for `nodes` nodes, before the first vote.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { nodes, open: nodes, released: 0, not_owner: 0 }
    }

    /// Counts the vote of one of the nodes, each of which votes once. Returns what the votes show so far, or `None` while they are
    /// not decisive.
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
    fn a_majority_decides_whether_the_lock_was_held() {
        assert_eq!(verdict([Released, NotOwner, Released]), Some(ReleaseVerdict::StillOurs));
        assert_eq!(verdict([NotOwner, Released, NotOwner]), Some(ReleaseVerdict::NotOurs));
        assert_eq!(verdict([Released, NotOwner, NoReply]), Some(ReleaseVerdict::Unknown));
    }
}
