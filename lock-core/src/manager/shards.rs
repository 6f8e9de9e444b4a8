use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::{AttemptKind, Engine, FailedAttempt, Grant, SlotOffers, Wanted};
use crate::error::{NodeVote, Vote};
use crate::resource::{hash, split_slot};
use crate::waiting::{LastAttempt, Turns};

/// One set of masters, with everything that is about its locks. Shards have nothing in common but the background work of the manager.
pub(super) struct Shard {
    pub(super) engine: Arc<Engine>,
    pub(super) turns: Arc<Turns>,
}

impl Shard {
    /// Makes an attempt for each of several locks, all at once.
    pub(super) async fn attempt_all(
        &self,
        wanted: &[Wanted<'_>],
        kind: AttemptKind,
        until: Instant,
    ) -> Vec<Result<Box<Grant>, FailedAttempt>> {
        let Some(first) = wanted.first() else { return Vec::new() };
        match self.engine.enter_line(wanted.len(), kind, until, first.options.ttl).await {
            Ok(place) => self.engine.attempt_all(&place, wanted).await,
            Err(failed) => wanted.iter().map(|_| Err(failed.clone())).collect(),
        }
    }

    /// A slot for the only other attempt of a caller that a slot was refused to.
    pub(super) fn any_free(&self, offers: &SlotOffers) -> Option<u32> {
        offers.any_free(self.engine.cluster.size(), || self.engine.cluster.random.number())
    }

    /// The votes of the last attempt in a local queue. If it took the lock for another caller of this process, the nodes that
    /// hold it are known, and the others' votes are not.
    pub(super) fn votes_of(&self, last: &LastAttempt, remaining: Option<Duration>) -> Vec<NodeVote> {
        if !last.votes.is_empty() {
            return last.votes.to_vec();
        }
        let is_held = |node| last.ours.contains(node) && remaining.is_some();
        let vote = |node| if is_held(node) { Vote::Held { remaining } } else { Vote::Pending };
        self.engine.cluster.vote_of_each(vote)
    }
}

/// In which of several shards a resource is, with all of its slots. Every process and every version must compute the same: a lock in two
/// shards would have two holders.
///
/// Not by the low bits of the hash, which decide on the fence in the shard: there, half of the fences would have no lock.
pub(super) fn place(resource: &str, shards: usize) -> usize {
    let resource = split_slot(resource).map_or(resource, |(resource, _)| resource);
    // The golden ratio, as in Fibonacci hashing: each bit of the hash has its part in the upper ones.
    let mixed = hash(resource).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(mixed).unwrap_or_default() & (shards - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_in_the_same_shard_in_every_version() {
        let places = |shards| ["a", "stock:42", "export", "x:y"].map(|resource| place(resource, shards));
        assert_eq!(places(2), [1, 0, 0, 0]);
        assert_eq!(places(64), [3, 24, 58, 36]);
    }

    #[test]
    fn resources_are_spread_over_the_shards() {
        for shards in [2, 4, 16, 64] {
            for name in
                [|n: usize| format!("stock:{n}"), |n: usize| format!("{n}"), |n: usize| format!("user-{n:08}/cart")]
            {
                let mut counts = vec![0_usize; shards];
                (0..shards * 1000).for_each(|n| counts[place(&name(n), shards)] += 1);
                assert!(counts.iter().all(|count| (850..1150).contains(count)), "{} {counts:?}", name(0));
            }
        }
    }
}
