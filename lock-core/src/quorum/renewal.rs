use std::time::Duration;

use super::{KeyVote, Tally};

/// How long after a grant, or a renewal, the next renewal is due. After a third of the time to live, two more thirds are left for
/// renewals that fail.
///
/// A grant is bare while a node may lack the key: what the former holder released was still on its way there. If one clock is then
/// stepped forward, nobody has a majority. So the first renewals come early, to put the key where it is missing. `bare` is how many of them
/// there were; the pause doubles, because a node that has the key of a stranger goes on to refuse.
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

impl KeyVote for RenewalVote {
    fn has_key(self) -> Option<bool> {
        match self {
            // A reader that has to make way keeps its lock for as long as it renews. Only new readers are held back.
            Self::Kept | Self::Barred => Some(true),
            Self::Gone => Some(false),
            Self::NoReply => None,
        }
    }
}

/// Only nodes that *still held* the key when they were asked to extend it count. A node on which the key is put back after this round
/// counts from the next round on. If it counted in this one, a lost lock would come back to life.
impl Tally<RenewalVote> {
    /// Whether a writer waits for a lock that is read, on any of the nodes that have voted: then no more readers may share this hold.
    pub fn is_barred(&self) -> bool {
        self.votes.contains(&Some(RenewalVote::Barred))
    }

    /// Whether each node has the key.
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
    use super::super::Verdict;
    use super::RenewalVote::{Barred, Gone, Kept, NoReply};
    use super::*;

    #[test]
    fn a_bare_grant_is_renewed_early_and_then_less_and_less_often() {
        let ttl = Duration::from_secs(30);
        let pauses =
            [None, Some(0), Some(1), Some(6), Some(7), Some(u32::MAX)].map(|bare| renewal_pause(ttl, bare).as_millis());
        assert_eq!(pauses, [10_000, 100, 200, 6_400, 10_000, 10_000]);
    }

    #[test]
    fn a_reader_that_has_to_make_way_still_has_its_lock() {
        let mut renewal = Tally::new(3);
        assert_eq!((renewal.vote(0, Kept), renewal.is_barred()), (None, false));
        assert_eq!((renewal.vote(1, Barred), renewal.is_barred()), (Some(Verdict::Held), true));
    }

    #[test]
    fn a_node_that_does_not_reply_may_lack_the_key() {
        for (last, everywhere) in [(Kept, true), (Barred, true), (NoReply, false), (Gone, false)] {
            let mut renewal = Tally::new(3);
            renewal.vote(0, Kept);
            renewal.vote(1, Kept);
            assert!(!renewal.is_everywhere());
            renewal.vote(2, last);
            assert_eq!(renewal.is_everywhere(), everywhere, "{last:?}");
        }
    }

    #[test]
    fn the_nodes_that_lost_the_key_are_known() {
        let mut renewal = Tally::new(3);
        renewal.vote(2, Gone);
        renewal.vote(0, Kept);
        assert_eq!(renewal.vote(1, Kept), Some(Verdict::Held));
        assert_eq!(renewal.gone().collect::<Vec<_>>(), [2]);
        assert!(!renewal.is_everywhere());
    }
}
