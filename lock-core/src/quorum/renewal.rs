use std::time::Duration;

use super::majority;

/// How long after a grant, or a renewal, the next renewal is due. After a third of the time to live, two more thirds are left for
/// renewals that fail.
///
/// A grant is bare while a node may lack the key: what the former holder released was still on its way there. If one clock is then
/// stepped forward, nobody has a majority. So the first renewals come early, to put the key where it is missing. `bare` is how many of them
/// there were; the pause doubles, because a node that has the key of a stranger goes on to refuse.
#[must_use]
pub fn renewal_pause(ttl: Duration, bare: Option<u32>) -> Duration {
    let usual = ttl / 3;
    bare.map_or(usual, |renewals| (ttl / 300).saturating_mul(2_u32.saturating_pow(renewals)).min(usual))
}

/// A node's vote on a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RenewalVote {
    /// The node still held the key, and extended it.
    Kept,
    /// As kept, by a reader for which a writer waits on this node.
    Barred,
    /// The node does not hold the key any more.
    Gone,
    /// No reply, or none that counts.
    NoReply,
}

/// The result of a renewal: one of three, not two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RenewalVerdict {
    /// A majority of **all** nodes still held the key, and extended it.
    Renewed,
    /// So many nodes have lost the key that no majority can hold it.
    Lost,
    /// Too few replies to decide. The lease stays as it is; retry while it is valid.
    Unknown,
}

/// The votes in one round of extending a lock's key.
///
/// Only nodes that *still held* the key count. A node on which the key is put back after this round counts from the next
/// round on. Counting it in this one would bring a lost lock back to life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RenewalTally {
    votes: Vec<Option<RenewalVote>>,
    decided: bool,
}

impl RenewalTally {
    /// The tally for `nodes` nodes, before the first vote.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { votes: vec![None; nodes], decided: false }
    }

    /// Counts a node's vote. The vote that decides returns the verdict.
    pub fn vote(&mut self, node: usize, vote: RenewalVote) -> Option<RenewalVerdict> {
        let slot = self.votes.get_mut(node).filter(|slot| slot.is_none())?;
        *slot = Some(vote);
        if self.decided {
            return None;
        }
        // Of all nodes: a majority of those that replied may be a minority, and another owner may have the majority.
        let quorum = majority(self.votes.len());
        let count = |wanted| self.votes.iter().filter(|vote| **vote == wanted).count();
        // A reader that has to make way keeps its lock for as long as it renews. Only new readers are held back.
        let kept = count(Some(RenewalVote::Kept)) + count(Some(RenewalVote::Barred));
        let gone = count(Some(RenewalVote::Gone));
        let verdict = if kept >= quorum {
            // Not after all votes: a node that hangs must not use up the validity that the others extended.
            RenewalVerdict::Renewed
        } else if self.votes.len() - gone < quorum {
            // A lease ends early only if no majority can have the key. A missing reply proves nothing.
            RenewalVerdict::Lost
        } else if count(None) == 0 {
            RenewalVerdict::Unknown
        } else {
            return None;
        };
        // Votes are counted on, for `gone` and `is_barred`.
        self.decided = true;
        Some(verdict)
    }

    /// Whether a writer waits for a lock that is read, on any of the nodes that have voted: then no more readers may share this hold.
    #[must_use]
    pub fn is_barred(&self) -> bool {
        self.votes.contains(&Some(RenewalVote::Barred))
    }

    /// Whether each node has the key.
    #[must_use]
    pub fn is_everywhere(&self) -> bool {
        self.votes.iter().all(|vote| matches!(vote, Some(RenewalVote::Kept | RenewalVote::Barred)))
    }

    /// The nodes that have lost the key: it may be put back there after the round renewed the lease.
    pub fn gone(&self) -> impl Iterator<Item = usize> + '_ {
        self.votes.iter().enumerate().filter(|(_, vote)| **vote == Some(RenewalVote::Gone)).map(|(node, _)| node)
    }
}

#[cfg(test)]
mod tests {
    use super::RenewalVote::{Gone, Kept, NoReply};
    use super::*;

    fn verdict(votes: &[RenewalVote], nodes: usize) -> Option<RenewalVerdict> {
        let mut renewal = RenewalTally::new(nodes);
        votes.iter().enumerate().filter_map(|(node, vote)| renewal.vote(node, *vote)).last()
    }

    #[test]
    fn a_bare_grant_is_renewed_early_and_then_less_and_less_often() {
        let ttl = Duration::from_secs(30);
        let pauses =
            [None, Some(0), Some(1), Some(6), Some(7), Some(u32::MAX)].map(|bare| renewal_pause(ttl, bare).as_millis());
        assert_eq!(pauses, [10_000, 100, 200, 6_400, 10_000, 10_000]);
    }

    #[test]
    fn renewed_lost_and_unknown_are_three_things() {
        assert_eq!(verdict(&[Kept, Kept, Kept], 5), Some(RenewalVerdict::Renewed));
        assert_eq!(verdict(&[Gone, Gone, Gone], 5), Some(RenewalVerdict::Lost));
        assert_eq!(verdict(&[Kept, Kept, NoReply, NoReply, NoReply], 5), Some(RenewalVerdict::Unknown));
        assert_eq!(verdict(&[NoReply, NoReply, NoReply, NoReply, NoReply], 5), Some(RenewalVerdict::Unknown));
        assert_eq!(
            verdict(&[Gone, Gone, Kept, Kept, NoReply], 5),
            Some(RenewalVerdict::Unknown),
            "two survivors and one unknown"
        );
    }

    #[test]
    fn the_majority_is_of_all_nodes_not_of_those_that_replied() {
        assert_eq!(verdict(&[Kept, Kept], 5), None);
        assert_eq!(verdict(&[Kept, NoReply, NoReply], 3), Some(RenewalVerdict::Unknown));
    }

    #[test]
    fn a_node_that_does_not_reply_may_lack_the_key() {
        for (last, everywhere) in [(Kept, true), (RenewalVote::Barred, true), (NoReply, false), (Gone, false)] {
            let mut renewal = RenewalTally::new(3);
            renewal.vote(0, Kept);
            renewal.vote(1, Kept);
            assert!(!renewal.is_everywhere());
            renewal.vote(2, last);
            assert_eq!(renewal.is_everywhere(), everywhere, "{last:?}");
        }
    }

    #[test]
    fn the_nodes_that_lost_the_key_are_known() {
        let mut renewal = RenewalTally::new(3);
        renewal.vote(2, Gone);
        renewal.vote(0, Kept);
        assert_eq!(renewal.vote(1, Kept), Some(RenewalVerdict::Renewed));
        assert_eq!(renewal.gone().collect::<Vec<_>>(), [2]);
        assert!(!renewal.is_everywhere());
    }
}
