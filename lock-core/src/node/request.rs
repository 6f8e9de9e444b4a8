use std::time::Duration;

use crate::node::{LockKeys, SetConfig};
use crate::random::{Epoch, OwnerId};

/// A request, on which lock, to a node in which epoch.
#[derive(Clone, Debug)]
pub struct Ballot {
    /// The keys of the lock.
    pub keys: LockKeys,
    /// The epoch that the node was admitted in. A node in another one answers
    /// [`NodeError::Unadmitted`](crate::NodeError::Unadmitted).
    pub epoch: Epoch,
    /// What is asked.
    pub request: Request,
}

/// What can be asked of a node. Each is atomic on its node, and none touches a lock of another owner.
///
/// `L` is the lock key, `F` the fencing number, 0 when there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// `L` is ours: [`Reply::Granted`] with `F` unchanged, for it is the same attempt again. `L` exists:
    /// [`Reply::Held`]. Else `F` becomes `max(F + 1, hint)`, `L` ours for `ttl`: [`Reply::Granted`]. The only request
    /// that a node in quarantine refuses.
    Acquire {
        /// Who asks.
        owner: OwnerId,
        /// How long the key lives.
        ttl: Duration,
        /// The cluster clock in microseconds, or 0 where it is not known.
        hint: u64,
    },
    /// `L` is ours and `F ≤ fence`: `F` becomes `fence`, [`Reply::Confirmed`]. Else [`Reply::Refused`].
    Confirm {
        /// Who asks.
        owner: OwnerId,
        /// The number that is to be the token.
        fence: u64,
    },
    /// `L` is ours: it lives for `ttl` from now, or as long as it lives already if that is longer: [`Reply::Kept`].
    /// Else [`Reply::Gone`].
    Extend {
        /// Who asks.
        owner: OwnerId,
        /// How long the key lives.
        ttl: Duration,
    },
    /// `L` is missing: it becomes ours for `ttl`, and `F` becomes `max(F, fence)`. [`Reply::Kept`] if `L` is ours after
    /// that, else [`Reply::Gone`]. Puts a lock back on a node that lost it, after a majority renewed; it never counts
    /// in the renewal that led to it.
    Replace {
        /// Who asks.
        owner: OwnerId,
        /// How long the key lives.
        ttl: Duration,
        /// The token of the lease.
        fence: u64,
    },
    /// `L` is ours: it is deleted, [`Reply::Released`]. Else [`Reply::NotOwner`].
    Release {
        /// Who asks.
        owner: OwnerId,
    },
}

/// What a node answers to a [`Request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// To an acquire: the lock is ours on this node, with this fencing number.
    Granted {
        /// The fencing number.
        fence: u64,
    },
    /// To an acquire: someone else holds it.
    Held {
        /// How long their key lives yet; `None` for a key that does not expire.
        remaining: Option<Duration>,
    },
    /// To a confirm: the number is the node's own now.
    Confirmed,
    /// To a confirm: not ours any more, or the node has seen a higher number.
    Refused {
        /// The node's fencing number.
        fence: u64,
    },
    /// To an extend or a replace: the key is ours.
    Kept,
    /// To an extend or a replace: the key is not ours.
    Gone,
    /// To a release: the key was ours and is deleted.
    Released,
    /// To a release: the key was not ours; nothing changed.
    NotOwner,
}

/// The record that makes a node a member of a set. It is written in one step, and only if the record that is there has
/// the expected epoch: of two clients that establish a node at once, one does.
#[derive(Clone, Debug)]
pub struct Establish {
    /// The epoch of the record that is to be replaced; `None` when there is none.
    pub expected: Option<Epoch>,
    /// The run id of the server that the record is for.
    pub run_id: String,
    /// The epoch that begins.
    pub epoch: Epoch,
    /// The set.
    pub config: SetConfig,
    /// How long the node must not grant locks; zero for a node that can not have forgotten any.
    pub quarantine: Duration,
}
