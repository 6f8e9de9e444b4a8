use std::num::NonZeroU64;
use std::time::Duration;

use crate::node::{LockKeys, SetConfig};
use crate::random::{Epoch, OwnerId, WaiterId};

/// A request, on which lock, to a node in which epoch.
#[derive(Clone, Debug)]
pub struct Ballot {
    /// The keys of the lock.
    pub keys: LockKeys,
    /// The epoch that the node was admitted in. A node in another one answers
    /// [`NodeError::Unadmitted`](crate::NodeError::Unadmitted).
    pub epoch: Epoch,
    /// Who asks: the place in the queues goes by it, one for each manager, however many callers wait in it.
    pub waiter: WaiterId,
    /// What is asked.
    pub request: Request,
}

/// What can be asked of a node. Each is atomic on its node, and none touches a lock of another owner.
///
/// `L` is the lock key, `F` its fence: the highest number that the node has given to any lock that has this fence (see
/// [`Keyspace::FENCES`](crate::Keyspace::FENCES)), 0 when there is none.
///
/// # The queue
///
/// For each lock a node keeps a queue of those who wait, by since when they do, and whose *turn* it is: the waiter for whom
/// a free key is kept for 100 ms. Queue and turn only ever make a node grant less, so nothing that is promised rests on
/// them: a message that is late or lost costs time. Both end by themselves.
///
/// A free key is *offered* to the first in line: it leaves the queue, the turn becomes its, and its process is
/// [called](crate::LockNode::calls); and the second is told that it is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// `L` is ours: [`Reply::Granted`] with `F` as it stands, for it is the same attempt again. `L` exists, or is kept for
    /// another waiter: [`Reply::Held`], and one that waits enters the queue. Else `F` becomes
    /// `max(F + 1, hint) + tokens - 1`, `L` ours for `ttl`: [`Reply::Granted`]. The only request that a node in quarantine
    /// refuses.
    ///
    /// `L` is kept for another if the turn is another's; or if it is nobody's, but the queue, with the caller in it, begins
    /// with another. Then `L` is offered.
    Acquire {
        /// Who asks.
        owner: OwnerId,
        /// How long the key lives.
        ttl: Duration,
        /// The cluster clock in microseconds, or 0 where it is not known.
        hint: u64,
        /// How many tokens to reserve, at least 1: `F` is the last of them.
        tokens: u32,
        /// Since when the caller waits, in microseconds of the cluster clock and not 0: the same on all nodes, so that they
        /// agree who is first. `None` for one that does not wait.
        since: Option<NonZeroU64>,
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
    /// `L` is ours: it is deleted, [`Reply::Released`]. Else [`Reply::NotOwner`]. If `L` is free after that and it is
    /// nobody's turn, it is offered.
    Release {
        /// Who asks.
        owner: OwnerId,
        /// What becomes of the caller's place in the queue, before anything is offered.
        place: Place,
    },
}

/// What becomes of a place in the queue when a key is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The caller has none.
    None,
    /// It is given up.
    Leave,
    /// It is kept, or taken, as of this time.
    Keep(NonZeroU64),
}

/// A node's word to a process that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The lock key.
    pub lock: String,
    /// What for.
    pub turn: Turn,
}

/// Whose turn it is on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// Ours: the free key is kept for us. This is no vote; an acquire is.
    Ours,
    /// Another's, and ours when that one does not come: [`TURN_LIFE`] from now.
    Next,
}

/// How long a node keeps a free key for a waiter that it called.
pub const TURN_LIFE: Duration = Duration::from_millis(100);

/// What a node answers to a [`Request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// To an acquire: the lock is ours on this node, with this fencing number.
    Granted {
        /// The fencing number: the last of the tokens that were reserved.
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
