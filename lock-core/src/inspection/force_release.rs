use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::report::holding_vote;
use crate::cluster::LOOK_TIMEOUT;
use crate::engine::Engine;
use crate::error::{LockError, NodeError, NodeVote, Vote};
use crate::lease::LeaseRegistry;
use crate::node::{EVICTION_GAP, Evict, Eviction, Holder, HolderTag, LockKeys, LockState, MAX_READERS_SEEN};
use crate::quorum::{EvictVerdict, HoldingVote, drift, eviction, eviction_token, to_evict};
use crate::token::FencingToken;

/// How often the nodes are asked, while attempts of others or tokens of other locks get in between.
const MAX_ROUNDS: u32 = 8;
/// The longest pause between two rounds.
const PAUSE: Duration = Duration::from_millis(40);
/// How long the other nodes have when a majority has replied. What they do not reply in time they may still carry out.
const STRAGGLERS: Duration = Duration::from_millis(100);

/// A lock that was taken from its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForcedRelease {
    /// A token that is larger than every token of the former holder, and smaller than the tokens of later holders. Nobody else has it.
    ///
    /// Claim it at the resource to shut the former holder out at once.
    pub token: FencingToken,
    /// The holders that were evicted. Empty if nobody held the lock.
    pub evicted: Vec<HolderTag>,
    /// The names of the nodes on which the key was deleted.
    pub freed_on: Vec<String>,
}

/// Evicts the holders of a lock.
pub(crate) struct ForceRelease {
    pub(crate) engine: Arc<Engine>,
    pub(crate) leases: Arc<LeaseRegistry>,
    pub(crate) keys: LockKeys,
    pub(crate) resource: String,
    pub(crate) max_ttl: Duration,
    pub(crate) seen: Arc<OnceLock<Seen>>,
}

/// Whom the first look found, and the highest fence. If the work begins again on another runtime, it must evict nobody else.
#[derive(Clone)]
pub(crate) struct Seen {
    holders: Vec<Holder>,
    /// Whether they are readers.
    is_shared: bool,
    highest: u64,
    /// Until when nobody has the lock because of an earlier eviction.
    free_at: Instant,
}

impl ForceRelease {
    pub(crate) async fn run(self) -> Result<ForcedRelease, LockError> {
        let began = Instant::now();
        let cluster = &self.engine.cluster;
        cluster.first_contact().await;
        // The work has begun before, on a runtime that is gone. An owner that acquired the lock since is a successor, and must keep it.
        if let Some(seen) = self.seen.get().cloned() {
            return self.evict(began, seen).await;
        }
        let (_, states) = cluster.look_by_present_roster(&self.keys, false, STRAGGLERS).await;
        let votes: Vec<HoldingVote<&Holder>> = states.iter().map(|state| holding_vote(state.as_ref())).collect();
        let Some(holders) = to_evict(&votes) else {
            return Err(self.no_quorum(began, &states));
        };
        if holders.contains(&&Holder::NotALock) {
            return Err(self.not_a_lock(began, &states));
        }
        // Of a lock that is read, all readers.
        let is_shared = holders.contains(&&Holder::Readers);
        let named = states.iter().flatten().map(|state| state.readers.len()).max().unwrap_or_default();
        if is_shared && named >= MAX_READERS_SEEN {
            // Those that were not named would keep the lock.
            return Err(LockError::TooManyReaders { resource: self.resource, readers: named });
        }
        let readers = states.iter().flatten().flat_map(|state| &state.readers).filter(|_| is_shared);
        let writers = holders.into_iter().filter(|holder| **holder != Holder::Readers).cloned();
        let mut holders: Vec<_> = writers.chain(readers.map(|reader| Holder::Owner(reader.owner))).collect();
        let mut named = HashSet::new();
        // A reader is on several nodes, and is named once.
        holders.retain(|holder| named.insert(holder.clone()));
        let highest = states.iter().flatten().map(|state| state.fence).max().unwrap_or_default();
        let nobodys = states.iter().flatten().filter(|state| state.holder.is_none());
        let free_at = Instant::now() + nobodys.filter_map(LockState::free_in).max().unwrap_or_default();
        let seen = self.seen.get_or_init(|| Seen { holders, is_shared, highest, free_at }).clone();
        self.evict(began, seen).await
    }

    /// Asks the nodes to evict the holders, until a majority did with the same token; and waits until the lock can be had.
    ///
    /// A round asks the nodes that vote by one roster, and counts for itself. If the members change, the next round asks those that vote by
    /// the new one.
    async fn evict(&self, began: Instant, seen: Seen) -> Result<ForcedRelease, LockError> {
        let Seen { holders, is_shared, mut highest, mut free_at } = seen;
        let cluster = &self.engine.cluster;
        let (mut freed, mut round) = (vec![false; cluster.size()], 0);
        loop {
            round += 1;
            let (epochs, roster) = cluster.epochs();
            let Some(token) = eviction_token(highest, cluster.clock()) else {
                let used_up = NodeError::Rejected { code: "ERR".into(), detail: "the fence is used up".into() };
                return Err(self.no_quorum(began, &vec![Err::<(), _>(used_up); epochs.len()]));
            };
            let (keys, barred_for) = (&self.keys, self.barred_for());
            let evict = |epoch| Evict { keys: keys.clone(), epoch, holders: holders.clone(), token, barred_for };
            let replies = cluster.evict(&epochs, evict, STRAGGLERS).await;
            for (freed, reply) in freed.iter_mut().zip(&replies) {
                *freed |= matches!(reply, Ok(Eviction::Evicted { deleted: true }));
            }
            // Also if this round deleted no key: another forced release may have, since this one saw the holders.
            if !holders.is_empty() && replies.iter().any(|reply| matches!(reply, Ok(Eviction::Evicted { .. }))) {
                free_at = Instant::now() + EVICTION_GAP;
            }
            let answers: Vec<Option<Eviction>> = replies.iter().map(|reply| reply.as_ref().ok().copied()).collect();
            match eviction(&answers) {
                EvictVerdict::Evicted => {
                    let forced = self.evicted(token, &holders, &freed);
                    // Who force-releases a lock wants it to be had. Before that, the nodes give it to nobody.
                    sleep_until(free_at).await;
                    // Who was handed the lock, or joined its readers, at the moment of the eviction, has its lease by now.
                    self.leases.revoke_evicted(&holders);
                    return Ok(forced);
                }
                EvictVerdict::Again { above } if round < MAX_ROUNDS => highest = highest.max(above),
                EvictVerdict::NoQuorum => {
                    let errors = replies.iter().filter_map(|reply| reply.as_ref().err());
                    if round == MAX_ROUNDS || !cluster.is_overtaken(roster, errors).await {
                        return Err(self.no_quorum(began, &replies));
                    }
                }
                verdict @ (EvictVerdict::Again { .. } | EvictVerdict::Superseded) => {
                    // Readers have it still, beside another one that joined them.
                    if verdict == EvictVerdict::Superseded && !is_shared {
                        self.leases.revoke_evicted(&holders);
                    }
                    return Err(self.superseded(began, &replies));
                }
            }
            // With jitter: another forced release may be racing for the same fence.
            sleep(self.engine.cluster.random.jitter(PAUSE)).await;
        }
    }

    /// Longer than any lock of the set may live after the last node has evicted: a majority may take as long as it is given.
    fn barred_for(&self) -> Duration {
        let membership = self.engine.cluster.membership();
        let longest = membership.roster().map_or(self.max_ttl, |roster| roster.quarantine_ttl.max(self.max_ttl));
        longest + drift(longest) + LOOK_TIMEOUT
    }

    fn evicted(&self, token: u64, holders: &[Holder], freed: &[bool]) -> ForcedRelease {
        self.leases.revoke_evicted(holders);
        let freed_on = freed.iter().enumerate().filter(|(_, freed)| **freed);
        let freed_on = freed_on.map(|(node, _)| self.engine.cluster.name(node).to_owned());
        let evicted: Vec<HolderTag> = holders.iter().map(Holder::tag).collect();
        let forced = ForcedRelease { token: FencingToken::new(token), evicted, freed_on: freed_on.collect() };
        let key = self.engine.cluster.reporter.shown(self.keys.lock_key());
        log_event!(warn: "lock.force_released", key, token, evicted = ?forced.evicted, freed_on = ?forced.freed_on,
            "a lock was taken from its holder");
        forced
    }

    fn no_quorum<T>(&self, began: Instant, replies: &[Result<T, NodeError>]) -> LockError {
        let votes = self.votes(replies, |_| None);
        LockError::NoQuorum { resource: self.resource.clone(), waited: began.elapsed(), votes }
    }

    fn not_a_lock(&self, began: Instant, states: &[Result<LockState, NodeError>]) -> LockError {
        let is_not = |state: &LockState| (state.holder == Some(Holder::NotALock)).then_some(Vote::NotALock);
        let votes = self.votes(states, is_not);
        LockError::NotALock { resource: self.resource.clone(), waited: began.elapsed(), votes }
    }

    /// Somebody else has the lock by now.
    fn superseded(&self, began: Instant, replies: &[Result<Eviction, NodeError>]) -> LockError {
        let is_held = |reply: &Eviction| (*reply == Eviction::Superseded).then_some(Vote::Held { remaining: None });
        let (resource, votes) = (self.resource.clone(), self.votes(replies, is_held));
        let typical_hold = self.leases.typical_hold(&resource);
        LockError::Contended { resource, waited: began.elapsed(), free_in: None, typical_hold, votes }
    }

    /// The votes of the nodes that failed, and of those whose reply is one.
    fn votes<T>(&self, replies: &[Result<T, NodeError>], vote: impl Fn(&T) -> Option<Vote>) -> Vec<NodeVote> {
        let votes = replies.iter().map(|reply| match reply {
            Ok(reply) => vote(reply),
            Err(error) => Some(Vote::Failed(error.clone())),
        });
        votes.enumerate().filter_map(|(node, vote)| Some(self.engine.cluster.vote(node, vote?))).collect()
    }
}
