use super::{Holding, HoldingVote, holding, majority};
use crate::node::MAX_TOKEN;

/// How far above what is known the token of an eviction lies. Other locks with the same fence count up meanwhile, in microseconds if
/// the clock is known; a node whose fence has passed the token refuses.
const HEADROOM: u64 = 10_000;

/// A node's vote on an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictVote {
    /// The node has no key of the evicted, and bars them; its fence is the token.
    Evicted,
    /// Somebody else holds the key.
    Superseded,
    /// The node has assigned the token, or a higher one.
    Refused {
        /// The node's fence.
        fence: u64,
    },
    /// No reply, or none that counts.
    NoReply,
}

/// The result of a round of evictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictVerdict {
    /// A majority evicted the holders: none of them can renew, and the token is between their tokens and the tokens of later holders.
    Evicted,
    /// A majority could have, but did not. Ask all nodes again, with a token above this.
    Again {
        /// The highest fence that is known.
        above: u64,
    },
    /// No majority can evict, because too many nodes have the key of somebody else.
    Superseded,
    /// Fewer than a majority of the nodes replied.
    NoQuorum,
}

/// Whom to evict from a lock: the holder whose key a majority has. If the nodes agree on nothing, everybody who was seen: one of them may
/// hold it, and together they keep others out. Nobody if it is free: an owner that is seen on a minority is only about to acquire it. `None` if
/// fewer than a majority of the nodes replied: there may be a holder that none of them has.
///
/// A holder that was not seen acquires the lock later, so it is a successor.
pub fn to_evict<H: Eq + Copy>(votes: &[HoldingVote<H>]) -> Option<Vec<H>> {
    match holding(votes) {
        Holding::NoQuorum => None,
        Holding::Free => Some(Vec::new()),
        Holding::Held(holder) => Some(vec![holder]),
        Holding::Split => {
            let mut seen = Vec::new();
            for vote in votes {
                if let HoldingVote::Held(holder) = vote
                    && !seen.contains(holder)
                {
                    seen.push(*holder);
                }
            }
            Some(seen)
        }
    }
}

/// The token of an eviction, by the highest fence that is known and the cluster clock. `None` if there are no more tokens.
pub fn eviction_token(highest_fence: u64, clock: u64) -> Option<u64> {
    highest_fence.max(clock).checked_add(HEADROOM).filter(|token| *token <= MAX_TOKEN)
}

/// What a round of evictions with one token came to, by the votes of all nodes.
///
/// # Why the token is between the tokens of the evicted and of later holders
///
/// A node evicts only while its fence is below the token, and then has that fence; so no grant or confirm makes the same number. Any
/// token that a majority agreed on has a node in common with the majority that evicted. If that node granted it before it evicted, its
/// fence was at least that token, and the eviction's is larger: the holder is one of the evicted, or its key was gone by then,
/// because the node evicts nobody while somebody else has the key. If it granted it later, it replied with more than the eviction's.
///
/// A key that is gone may have expired there, while its holder renewed it on other nodes. So the token may be above the token of a
/// holder who acquired the lock meanwhile, if the request to evict took longer than this holder's time to live. A claim of the token then
/// refuses that holder as well: it keeps the lock, and its writes fail.
pub fn eviction(votes: &[EvictVote]) -> EvictVerdict {
    let quorum = majority(votes.len());
    let count = |wanted: fn(&EvictVote) -> bool| votes.iter().filter(|vote| wanted(vote)).count();
    let superseded = count(|vote| *vote == EvictVote::Superseded);
    if count(|vote| *vote == EvictVote::Evicted) >= quorum {
        EvictVerdict::Evicted
    // Before the count of replies: too many nodes have a successor, whatever the missing ones have.
    } else if votes.len() - superseded < quorum {
        EvictVerdict::Superseded
    } else if count(|vote| *vote != EvictVote::NoReply) < quorum {
        EvictVerdict::NoQuorum
    } else {
        let fences = votes.iter().filter_map(|vote| match vote {
            EvictVote::Refused { fence } => Some(*fence),
            _ => None,
        });
        EvictVerdict::Again { above: fences.max().unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::EvictVote::{Evicted, NoReply, Refused, Superseded};
    use super::HoldingVote::{Free, Held};
    use super::*;

    #[test]
    fn the_holder_is_evicted_and_nobody_who_only_tries_to_become_it() {
        assert_eq!(to_evict(&[Held(1), Held(1), Held(2)]), Some(vec![1]));
        assert_eq!(to_evict(&[Held(1), Held(2), HoldingVote::NoReply]), Some(vec![1, 2]));
        assert_eq!(to_evict(&[Free, Free, Held(2)]), Some(vec![]));
        assert_eq!(to_evict(&[Held(1), HoldingVote::NoReply, HoldingVote::NoReply]), None);
    }

    #[test]
    fn a_majority_decides_whether_the_holders_are_evicted() {
        assert_eq!(eviction(&[Evicted, NoReply, Evicted]), EvictVerdict::Evicted);
        assert_eq!(eviction(&[Evicted, NoReply, NoReply]), EvictVerdict::NoQuorum);
        assert_eq!(eviction(&[Superseded, Superseded, Evicted]), EvictVerdict::Superseded);
        assert_eq!(eviction(&[Superseded, NoReply, Evicted]), EvictVerdict::Again { above: 0 }, "it may be undone");
        assert_eq!(eviction(&[Refused { fence: 7 }, Evicted, Refused { fence: 9 }]), EvictVerdict::Again { above: 9 });
    }

    #[test]
    fn the_token_of_an_eviction_is_above_fence_and_clock() {
        assert!(eviction_token(5, 1_700_000_000_000_000).unwrap() > 1_700_000_000_000_000);
        assert!(eviction_token(5, 0).unwrap() > 5);
        assert_eq!(eviction_token(MAX_TOKEN, 0), None);
    }
}
