use std::num::NonZeroU64;
use std::time::Duration;

use super::{Kind, LockKeys};
use crate::random::{Epoch, OwnerId, WaiterId};

/// An operation on a lock, addressed to a node in a certain epoch.
#[derive(Clone, Debug)]
pub struct Request {
    /// The keys of the lock.
    pub keys: LockKeys,
    /// The epoch in which the node was admitted. A node in another epoch replies
    /// [`NodeError::Unadmitted`](crate::NodeError::Unadmitted).
    pub epoch: Epoch,
    /// The manager that asks. Positions in the node's queues belong to it: one for each manager, however many callers wait
    /// in that manager.
    pub waiter: WaiterId,
    /// Whether the manager polls, because this node cannot wake it (see [`LockNode::wakeups`](super::LockNode::wakeups)). It keeps
    /// its position in the queue, and has its reservation without being woken.
    pub polls: bool,
    /// What to do.
    pub operation: Operation,
}

/// What a node can be asked to do with a lock. Each operation is atomic on its node, and none touches the lock of another
/// owner.
///
/// Below, `L` is the lock key. `F` is its fence: the highest token that the node has assigned to any lock with this fence
/// (see [`Keyspace::FENCES`](super::Keyspace::FENCES)), or 0 if it has assigned none.
///
/// # Readers
///
/// A lock has one holder that writes, or several that read. While readers hold it, `L` itself is a marker ([`OwnerId::SHARED`]), which
/// lives for as long as the longest of them; each of them is an entry beside it, with an end of its own. Entries count only while `L`
/// is the marker, and a new marker begins without entries. So a marker or an entry that is lost ends readers, and brings none back.
///
/// Below, `L` is *held by* an owner if it contains the owner id, or if it is the marker and the owner has an entry that has not expired.
///
/// A writer that waits bars the readers that began to wait after it, unless nothing was heard of it for 2.5 s. It bars
/// none that waited before it. When readers begin to hold the lock, those at the head of the queue are woken, to join them.
///
/// # The queue
///
/// For each lock, a node keeps a queue of the managers that wait, ordered by when they began to wait and then by their ids, so
/// that all nodes have the same order. Queue and reservations only ever make a node grant less, so no promise rests on them: a message
/// that is late or lost costs time. Both expire on their own.
///
/// A free key is *offered* to the first waiters in the queue: it is *reserved* for each of them, one after another, for
/// [`RESERVATION_TTL`](super::RESERVATION_TTL), and some of them are [woken](super::LockNode::wakeups). A waiter that nobody listens
/// for is removed, and the next takes its position. When one of them takes the lock, the reservations end; those before it, which let
/// theirs pass, leave the queue with it.
///
/// # Slots
///
/// The slots of a resource are locks that share a queue, and none is reserved for anybody. The first waiters, as many as there are slots
/// free on the node, may each take any of them: they are *called*. Another slot is proposed to each, so that they do not all try the same
/// one ([`SlotOffer`](super::SlotOffer)). After each change of a slot or of the queue, those are woken for whom something has changed. A
/// waiter that was called, and does not come within [`RESERVATION_TTL`](super::RESERVATION_TTL), leaves the queue.
///
/// # Adding an operation
///
/// The compiler asks for it in the codec, the batch, the message and the memory node. It does not ask for the rest: its reply
/// in [`Reply`](super::Reply) and in the codecs, `ledger.lua` and its header, `ledger.sql`, the random requests of the tests that
/// compare nodes (`conformance`, `fake_redis`), and `docs/protocol.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Takes the lock.
    ///
    /// - `L` is held by this owner: [`Reply::Granted`](super::Reply::Granted) with `F` unchanged, because this is the same
    ///   attempt again.
    /// - `L` is held by another owner, or kept for another waiter: [`Reply::Held`](super::Reply::Held). A caller that waits
    ///   enters the queue.
    /// - Otherwise `F` becomes `max(F + 1, hint) + tokens - 1`, `L` is set for `ttl`, and the reply is
    ///   [`Reply::Granted`](super::Reply::Granted).
    /// - A reader that finds the marker, and is not barred, joins: it gets an entry for `ttl`, and `F` as it stands.
    ///
    /// `L` is kept for another waiter if it is reserved for that waiter, or if it is not reserved and the queue, with the caller in
    /// it, begins with that waiter. In the second case `L` is offered. A slot is kept for others if the caller is not called, or if it is
    /// proposed to one that cannot have the slot which is proposed to the caller.
    Acquire {
        /// The owner id of the attempt.
        owner: OwnerId,
        /// How long the key lives.
        ttl: Duration,
        /// The cluster clock in microseconds, or 0 if it is not known.
        hint: u64,
        /// How many tokens to reserve, at least 1. `F` becomes the last of them.
        tokens: u32,
        /// When the caller began to wait, in microseconds of the cluster clock: the same value on all nodes, so that they
        /// agree on the order. `None` for a caller that does not wait.
        since: Option<NonZeroU64>,
        /// Whether it reads or writes.
        kind: Kind,
    },
    /// Sets `F` to `token` if `L` is held by this owner and `F ≤ token`:
    /// [`Reply::Confirmed`](super::Reply::Confirmed). Otherwise [`Reply::Refused`](super::Reply::Refused).
    Confirm {
        /// The owner id of the attempt.
        owner: OwnerId,
        /// The proposed token.
        token: u64,
    },
    /// Extends `L` to at least `ttl` from now if it is held by this owner: [`Reply::Kept`](super::Reply::Kept), or
    /// [`Reply::Barred`](super::Reply::Barred) for a reader that a writer waits for. Otherwise [`Reply::Gone`](super::Reply::Gone).
    Extend {
        /// The owner id of the lease.
        owner: OwnerId,
        /// How long the key lives from now on. A longer remaining time stays.
        ttl: Duration,
    },
    /// Puts `L` on a node that lost it, or never had it, after a majority was renewed: if `L` is missing, it is set for `ttl`, and `F`
    /// becomes `max(F, token)`. [`Reply::Kept`](super::Reply::Kept) if this owner holds `L` afterwards, otherwise
    /// [`Reply::Gone`](super::Reply::Gone). It never counts in the renewal that led to it. A reader also joins other readers, whichever
    /// waits; if there are none, and `F` is larger than its token, `F` becomes `F + 1`, because those who join it must not have the token
    /// of a writer that came between.
    Replace {
        /// The owner id of the lease.
        owner: OwnerId,
        /// How long the key lives.
        ttl: Duration,
        /// The token of the lease.
        token: u64,
        /// Whether it reads or writes.
        kind: Kind,
    },
    /// Turns the writer that holds `L` into a reader, in one step, for at least `ttl` from now. It replies as to an extend, and a reader
    /// is extended.
    Downgrade {
        /// The owner id of the lease.
        owner: OwnerId,
        /// How long it lives from now on. A longer remaining time stays.
        ttl: Duration,
    },
    /// Deletes `L` if it is held by this owner: [`Reply::Released`](super::Reply::Released). Otherwise
    /// [`Reply::NotOwner`](super::Reply::NotOwner). If `L` is free afterwards and not reserved, it is offered.
    ///
    /// Of a reader, its entry is deleted, and `L` if it was the last; otherwise `L` lives for as long as the longest that is left.
    Release {
        /// The owner id of the lease or of the attempt.
        owner: OwnerId,
        /// What becomes of the caller's position in the queue, before anything is offered.
        position: QueuePosition,
    },
    /// Gives up the caller's position in the queue and its reservation: [`Reply::QueueLeft`](super::Reply::QueueLeft). If `L` is
    /// free afterwards and not reserved, it is offered.
    LeaveQueue,
}

impl Operation {
    /// The owner id that it is about; `None` for one that is about the queue alone.
    pub fn owner(&self) -> Option<OwnerId> {
        match *self {
            Self::Acquire { owner, .. }
            | Self::Confirm { owner, .. }
            | Self::Extend { owner, .. }
            | Self::Replace { owner, .. }
            | Self::Downgrade { owner, .. }
            | Self::Release { owner, .. } => Some(owner),
            Self::LeaveQueue => None,
        }
    }
}

/// What becomes of a manager's position in a node's queue when it releases a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueuePosition {
    /// The manager has none.
    None,
    /// It is given up, together with the reservation.
    Leave,
    /// It is kept, or taken.
    Keep {
        /// The beginning of the wait.
        since: NonZeroU64,
        /// What it waits for.
        kind: Kind,
    },
}
