use std::time::Duration;

use super::{Holder, LockKeys};
use crate::random::Epoch;

/// How long a node grants a lock to nobody after it evicted its holder: longer than the nodes' last word lives in the holder's process
/// ([`WORD_TTL`](crate::quorum::WORD_TTL)). Until then, further callers there may get the lock without asking the nodes.
pub const EVICTION_GAP: Duration = Duration::from_millis(125);

/// Whom a node is asked to evict from a lock.
///
/// Below, `L` is the lock key, and `F` its fence. A node carries it out as one step, and only if it is in this epoch and
///
/// - nobody holds `L` but `holders`: readers all of them, or [`OwnerId::NOBODY`](crate::node::OwnerId::NOBODY). Otherwise
///   [`Eviction::Superseded`]: a successor stays.
/// - `F < token`. Otherwise [`Eviction::Refused`].
///
/// Then `F` becomes `token`, and `L` belongs to [`OwnerId::NOBODY`](crate::node::OwnerId::NOBODY) for [`EVICTION_GAP`], if one of
/// `holders` had it; the first waiters are woken, and learn from the reply to their [`Acquire`](super::Operation::Acquire) when it will be
/// free. For `barred_for` from now on, the node grants `L` to none of `holders` that is an owner: neither an [`Acquire`](super::Operation::Acquire), which is answered with
/// [`Held`](super::Reply::Held) and a remaining time of zero, nor a [`Replace`](super::Operation::Replace), which is answered with
/// [`Gone`](super::Reply::Gone). What bars them is called their *tombstone*, and is written before anything else: what cannot be barred
/// is not evicted.
#[derive(Clone, Debug)]
pub struct Evict {
    /// The keys of the lock.
    pub keys: LockKeys,
    /// The epoch in which the node was admitted.
    pub epoch: Epoch,
    /// Whom to evict, each once. May be empty: then only the fence is raised, if the lock is free.
    pub holders: Vec<Holder>,
    /// What the fence becomes: larger than every token of the holders, and smaller than the tokens of later ones.
    pub token: u64,
    /// How long the owners are barred: longer than a lock may live that they have elsewhere.
    pub barred_for: Duration,
}

/// A node's reply to an [`Evict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Eviction {
    /// None of the holders has the lock on this node, or can have it again.
    Evicted {
        /// Whether one of them had it. Then nobody has it for [`EVICTION_GAP`].
        deleted: bool,
    },
    /// Somebody else has the lock. Nothing changed.
    Superseded,
    /// The node has assigned the token, or a higher one. Nothing changed.
    Refused {
        /// Its fence.
        fence: u64,
    },
}
