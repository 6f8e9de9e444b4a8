use std::time::Duration;

use super::majority;

/// A node's vote on whether it has the key of a lock for one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyVote {
    /// It has the key, or had it until this request deleted it.
    Held,
    /// It has the key for this much longer.
    HeldFor(Duration),
    /// It has the key, of a reader for which a writer waits there.
    Barred,
    /// It does not have the key: the lock is free there, or another owner's.
    Gone,
    /// No reply, or none that counts.
    NoReply,
}

impl KeyVote {
    /// Whether the node has the key; `None` if it did not reply.
    fn has_key(self) -> Option<bool> {
        match self {
            // A reader that has to make way keeps its lock for as long as it renews. Only new readers are held back.
            Self::Held | Self::HeldFor(_) | Self::Barred => Some(true),
            Self::Gone => Some(false),
            Self::NoReply => None,
        }
    }
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
/// use lock_core::quorum::{KeyVote, Tally, Verdict};
///
/// let mut tally = Tally::new(3);
/// assert_eq!(tally.vote(0, KeyVote::Held), None);
/// assert_eq!(tally.vote(2, KeyVote::Gone), None);
/// assert_eq!(tally.vote(1, KeyVote::Held), Some(Verdict::Held));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tally {
    votes: Vec<Option<KeyVote>>,
    decided: bool,
}

impl Tally {
    /// The tally for `nodes` nodes, before the first vote.
    pub fn new(nodes: usize) -> Self {
        Self { votes: vec![None; nodes], decided: false }
    }

    /// Counts a node's vote; each node has one. The vote that decides returns the verdict. Votes are counted on after that.
    pub fn vote(&mut self, node: usize, vote: KeyVote) -> Option<Verdict> {
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

    /// Whether a writer waits for a lock that is read, on any of the nodes that have voted: then no more readers may share this hold.
    pub fn is_barred(&self) -> bool {
        self.votes.contains(&Some(KeyVote::Barred))
    }

    /// Whether each node has the key.
    pub fn is_everywhere(&self) -> bool {
        self.votes.iter().all(|vote| vote.and_then(KeyVote::has_key) == Some(true))
    }

    /// The nodes that have lost the key: it may be put back there after the round renewed the lease.
    ///
    /// Only nodes that *still held* the key when they were asked to extend it count. A node on which the key is put back after this
    /// round counts from the next round on. If it counted in this one, a lost lock would come back to life.
    pub fn gone(&self) -> impl Iterator<Item = usize> + '_ {
        self.votes.iter().enumerate().filter(|(_, vote)| **vote == Some(KeyVote::Gone)).map(|(node, _)| node)
    }

    /// The nodes that have not replied, or with nothing that counts.
    pub fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        let has_voted = |vote: &Option<KeyVote>| vote.is_some_and(|vote| vote.has_key().is_some());
        self.votes.iter().enumerate().filter(move |(_, vote)| !has_voted(vote)).map(|(node, _)| node)
    }

    /// For how long each node that said so has the key, at least. To be asked when a majority has it.
    pub fn held_for(&self) -> Duration {
        let held = self.votes.iter().flatten().filter_map(|vote| match vote {
            KeyVote::HeldFor(remaining) => Some(*remaining),
            _ => None,
        });
        held.min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::KeyVote::{Barred, Gone, Held, HeldFor, NoReply};
    use super::*;

    fn verdict(votes: &[KeyVote], nodes: usize) -> Option<Verdict> {
        let mut tally = Tally::new(nodes);
        votes.iter().enumerate().filter_map(|(node, vote)| tally.vote(node, *vote)).last()
    }

    #[test]
    fn held_lost_and_unknown_are_three_things() {
        assert_eq!(verdict(&[Held, Gone, Held], 3), Some(Verdict::Held));
        assert_eq!(verdict(&[Gone, Held, Gone], 3), Some(Verdict::Lost));
        assert_eq!(verdict(&[Held, Gone, NoReply], 3), Some(Verdict::Unknown));
        assert_eq!(verdict(&[Held, Held, NoReply, NoReply, NoReply], 5), Some(Verdict::Unknown));
        assert_eq!(verdict(&[NoReply; 5], 5), Some(Verdict::Unknown));
        let two_keys_and_one_unknown = [Gone, Gone, Held, Held, NoReply];
        assert_eq!(verdict(&two_keys_and_one_unknown, 5), Some(Verdict::Unknown));
    }

    #[test]
    fn the_majority_is_of_all_nodes_not_of_those_that_replied() {
        assert_eq!(verdict(&[Held, Held], 5), None);
        assert_eq!(verdict(&[Held, NoReply, NoReply], 3), Some(Verdict::Unknown));
        assert_eq!(verdict(&[Held, Held, Gone, Gone, NoReply], 5), Some(Verdict::Unknown));
    }

    #[test]
    fn a_lock_that_no_majority_can_hold_is_lost_at_once() {
        assert_eq!(verdict(&[Gone, Gone], 5), None);
        assert_eq!(verdict(&[Gone, Gone, Gone], 5), Some(Verdict::Lost));
    }

    #[test]
    fn a_node_votes_once_and_a_round_has_one_verdict() {
        let mut tally = Tally::new(3);
        assert_eq!([tally.vote(0, Held), tally.vote(0, Held)], [None, None]);
        assert_eq!(tally.vote(1, Held), Some(Verdict::Held));
        assert_eq!(tally.vote(2, Gone), None);
    }

    #[test]
    fn a_proof_lasts_as_long_as_a_majority_holds_the_key() {
        let proven = |millis| HeldFor(Duration::from_millis(millis));
        let mut tally = Tally::new(5);
        let votes = [proven(500), proven(300), Gone, NoReply, proven(900)];
        let verdict = votes.into_iter().enumerate().find_map(|(node, vote)| tally.vote(node, vote));
        assert_eq!((verdict, tally.held_for()), (Some(Verdict::Held), Duration::from_millis(300)));
    }

    #[test]
    fn a_reader_that_has_to_make_way_still_has_its_lock() {
        let mut renewal = Tally::new(3);
        assert_eq!((renewal.vote(0, Held), renewal.is_barred()), (None, false));
        assert_eq!((renewal.vote(1, Barred), renewal.is_barred()), (Some(Verdict::Held), true));
    }

    #[test]
    fn a_node_that_does_not_reply_may_lack_the_key() {
        for (last, everywhere) in [(Held, true), (Barred, true), (NoReply, false), (Gone, false)] {
            let mut renewal = Tally::new(3);
            renewal.vote(0, Held);
            renewal.vote(1, Held);
            assert!(!renewal.is_everywhere());
            renewal.vote(2, last);
            assert_eq!(renewal.is_everywhere(), everywhere, "{last:?}");
        }
    }

    #[test]
    fn the_nodes_that_lost_the_key_are_known() {
        let mut renewal = Tally::new(3);
        renewal.vote(2, Gone);
        renewal.vote(0, Held);
        assert_eq!(renewal.vote(1, Held), Some(Verdict::Held));
        assert_eq!(renewal.gone().collect::<Vec<_>>(), [2]);
        assert!(!renewal.is_everywhere());
    }
}
