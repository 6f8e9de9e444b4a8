use super::{Holding, HoldingVote, holding, majority};
use crate::node::{Eviction, MAX_TOKEN};

/// How far above what is known the token of an eviction lies. Other locks with the same fence count up meanwhile, in microseconds if
/// the clock is known; a node whose fence has passed the token refuses.
const HEADROOM: u64 = 10_000;

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

/// What a round of evictions with one token came to, by the replies of all nodes: `None` for no reply, or none that counts.
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
pub fn eviction(replies: &[Option<Eviction>]) -> EvictVerdict {
    let quorum = majority(replies.len());
    let count = |wanted: fn(&Eviction) -> bool| replies.iter().flatten().filter(|reply| wanted(reply)).count();
    let superseded = count(|reply| *reply == Eviction::Superseded);
    if count(|reply| matches!(reply, Eviction::Evicted { .. })) >= quorum {
        EvictVerdict::Evicted
    // Before the count of replies: too many nodes have a successor, whatever the missing ones have.
    } else if replies.len() - superseded < quorum {
        EvictVerdict::Superseded
    } else if count(|_| true) < quorum {
        EvictVerdict::NoQuorum
    } else {
        let fences = replies.iter().flatten().filter_map(|reply| match reply {
            Eviction::Refused { fence } => Some(*fence),
            _ => None,
        });
        EvictVerdict::Again { above: fences.max().unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::HoldingVote::{Free, Held};
    use super::*;

    const EVICTED: Option<Eviction> = Some(Eviction::Evicted { deleted: true });
    const SUPERSEDED: Option<Eviction> = Some(Eviction::Superseded);

    fn refused(fence: u64) -> Option<Eviction> {
        Some(Eviction::Refused { fence })
    }

    #[test]
    fn the_holder_is_evicted_and_nobody_who_only_tries_to_become_it() {
        assert_eq!(to_evict(&[Held(1), Held(1), Held(2)]), Some(vec![1]));
        assert_eq!(to_evict(&[Held(1), Held(2), HoldingVote::NoReply]), Some(vec![1, 2]));
        assert_eq!(to_evict(&[Free, Free, Held(2)]), Some(vec![]));
        assert_eq!(to_evict(&[Held(1), HoldingVote::NoReply, HoldingVote::NoReply]), None);
    }

    #[test]
    fn a_majority_decides_whether_the_holders_are_evicted() {
        assert_eq!(eviction(&[EVICTED, None, EVICTED]), EvictVerdict::Evicted);
        assert_eq!(eviction(&[EVICTED, None, None]), EvictVerdict::NoQuorum);
        assert_eq!(eviction(&[SUPERSEDED, SUPERSEDED, EVICTED]), EvictVerdict::Superseded);
        assert_eq!(eviction(&[SUPERSEDED, None, EVICTED]), EvictVerdict::Again { above: 0 }, "it may be undone");
        assert_eq!(eviction(&[refused(7), EVICTED, refused(9)]), EvictVerdict::Again { above: 9 });
    }

    #[test]
    fn the_token_of_an_eviction_is_above_fence_and_clock() {
        assert!(eviction_token(5, 1_700_000_000_000_000).unwrap() > 1_700_000_000_000_000);
        assert!(eviction_token(5, 0).unwrap() > 5);
        assert_eq!(eviction_token(MAX_TOKEN, 0), None);
    }
}
