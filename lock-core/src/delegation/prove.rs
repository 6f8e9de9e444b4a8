use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use super::credential::Credential;
use crate::cluster::Epochs;
use crate::engine::Engine;
use crate::error::{NodeError, NodeVote, Vote};
use crate::kind::Kind;
use crate::node::{Holder, LockKeys, LockState, MAX_READERS_SEEN};
use crate::quorum::{KeyVote, OUTAGE_GRACE, Tally, Verdict, validity};
use crate::random::OwnerId;

/// What a look at all nodes says about a delegated lock.
pub(crate) enum Proof {
    /// The lock is this owner's.
    Held {
        owner: OwnerId,
        /// When the nodes were asked.
        sent: Instant,
        /// How long each node of a majority has the key from then on, by its own clock, at least.
        remaining: Duration,
    },
    /// It is not, or nobody who has it made the delegation.
    Refuted(Vec<NodeVote>),
    /// Too few nodes replied.
    Unknown(Vec<NodeVote>),
}

/// Looks at the lock on all nodes. They have as long as it takes until they count as away: a look leaves nothing behind on them. Meanwhile,
/// the members may change, or the first connections be made: then it looks once more.
///
/// # Cancel safety
///
/// Nothing is lost if the future is dropped.
pub(crate) async fn prove(engine: &Engine, keys: &LockKeys, credential: &Credential) -> Proof {
    let (cluster, until) = (&engine.cluster, Instant::now() + OUTAGE_GRACE);
    let (was_joining, (epochs, roster)) = (cluster.is_any_joining(), cluster.epochs());
    let proof = look(engine, keys, credential, epochs, until).await;
    let Proof::Unknown(votes) = &proof else { return proof };
    let errors = votes.iter().filter_map(|vote| match &vote.vote {
        Vote::Failed(error) => Some(error),
        _ => None,
    });
    let others_vote = async {
        if was_joining {
            cluster.all_joined().await;
        }
        cluster.is_overtaken(roster, errors).await || was_joining
    };
    if timeout_at(until, others_vote).await == Ok(true) {
        return look(engine, keys, credential, cluster.epochs().0, until).await;
    }
    proof
}

async fn look(engine: &Engine, keys: &LockKeys, credential: &Credential, epochs: Epochs, until: Instant) -> Proof {
    let cluster = &engine.cluster;
    // Before the looks: what a master says is left counts from when it was asked, or from earlier.
    let sent = Instant::now();
    let mut looks: FuturesUnordered<_> = (epochs.into_iter().zip(&cluster.members).enumerate())
        .map(|(node, (epoch, member))| {
            let look = async { member.look(keys, Some(epoch?)).await };
            async move { (node, timeout_at(until, look).await) }
        })
        .collect();
    let mut tally = Tally::new(cluster.size());
    let (mut owner, mut votes) = (None, Vec::new());
    while let Some((node, reply)) = looks.next().await {
        let (vote, shown) = match reply.unwrap_or(Err(NodeError::TimedOut)) {
            Ok(state) => vote(credential, &state, &mut owner),
            Err(error) => {
                cluster.report(node, &error);
                (KeyVote::NoReply, Vote::Failed(error))
            }
        };
        votes.push(cluster.vote(node, shown));
        match (tally.vote(node, vote), owner) {
            (Some(Verdict::Held), Some(owner)) => {
                let remaining = tally.held_for();
                // Otherwise it may have expired since, and nothing else was proven.
                let is_held = validity(remaining, sent.elapsed()).is_some();
                return if is_held { Proof::Held { owner, sent, remaining } } else { Proof::Unknown(votes) };
            }
            (Some(Verdict::Lost), _) => return Proof::Refuted(votes),
            _ => {}
        }
    }
    Proof::Unknown(votes)
}

/// What a node's state of the lock proves. All that prove something have the same owner: no two make the same credential. A lock to
/// write that was downgraded proves nothing any more.
fn vote(credential: &Credential, state: &LockState, owner: &mut Option<OwnerId>) -> (KeyVote, Vote) {
    let has_signed = |owner: &OwnerId| credential.is_signed_by(*owner);
    let signer = match (credential.claims.kind, &state.holder) {
        (Kind::Write | Kind::Permit { .. }, Some(Holder::Owner(holder))) => {
            state.remaining.filter(|_| has_signed(holder)).map(|remaining| (*holder, remaining))
        }
        (Kind::Read, Some(Holder::Readers)) => {
            state.readers.iter().find(|reader| has_signed(&reader.owner)).map(|reader| (reader.owner, reader.remaining))
        }
        _ => None,
    };
    match signer {
        Some((signer, remaining)) => {
            *owner = Some(signer);
            (KeyVote::HeldFor(remaining), Vote::Granted { token: state.fence })
        }
        // There may be more readers than a look returns.
        None if state.readers.len() >= MAX_READERS_SEEN => (KeyVote::NoReply, Vote::Pending),
        None => (KeyVote::Gone, shown(state)),
    }
}

/// What an error says of a lock that is not held by the maker of the delegation.
fn shown(state: &LockState) -> Vote {
    match (&state.holder, state.remaining) {
        (Some(Holder::NotALock), _) => Vote::NotALock,
        // After an eviction, nobody can have it for a moment.
        (None, None) => Vote::Free,
        (_, remaining) => Vote::Held { remaining },
    }
}
