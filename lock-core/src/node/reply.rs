use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::Stream;

use super::{MAX_TOKEN, NodeError, SlotOffer, Slots};

/// The future of a node's reply.
pub type NodeFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A node's reply to an [`Operation`](super::Operation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// To an acquire: the lock is held by the caller on this node.
    Granted {
        /// The last of the tokens that the node reserved for the caller.
        token: u64,
    },
    /// To an acquire: another owner holds the lock, or it is kept for another waiter.
    Held {
        /// How much longer, or until the caller's own reservation begins. `None` for a key that does not expire. Of a slot: until the
        /// first of those expires that the caller may have; if some are free, until those before it have passed.
        remaining: Option<Duration>,
        /// Whether the holder is a stranger: its value is not one that this library writes, so its release wakes nobody.
        stranger: bool,
        /// The caller's position in the queue. `None` if it does not wait, or the queue is full.
        position: Option<Position>,
        /// Which slots the caller may take here instead, if the lock is a slot: a waiter, those that are free, if it is among the first;
        /// another caller, the same if nobody waits.
        offer: Option<SlotOffer>,
    },
    /// To an acquire: the key of the lock holds something else than a string, so it is nobody's lock, and is left alone.
    NotALock,
    /// To a confirm: the proposed token is now the node's fence.
    Confirmed,
    /// To a confirm: the caller does not hold the lock any more, or the node has assigned a higher token.
    Refused {
        /// The node's fence.
        fence: u64,
    },
    /// To an extend, a replace or a downgrade: the caller holds the lock.
    Kept,
    /// To an extend or a downgrade: the caller holds the lock, as a reader, and a writer waits for it.
    Barred,
    /// To an extend, a replace or a downgrade: the caller does not hold the lock.
    Gone,
    /// To a release: the caller held the lock, and the key is deleted.
    Released,
    /// To a release: the caller did not hold the lock.
    NotOwner,
    /// To a leave: the caller has neither a position nor a reservation any more.
    QueueLeft,
}

impl Reply {
    /// The reply, unless a number in it is beyond 2^53 - 1: no node counts that far.
    pub(super) fn check(self) -> Result<Self, NodeError> {
        let is_in_range = match self {
            Self::Granted { token: number } | Self::Refused { fence: number } => number <= MAX_TOKEN,
            Self::Held { remaining, .. } => remaining.unwrap_or_default().as_millis() <= u128::from(MAX_TOKEN),
            _ => true,
        };
        if is_in_range { Ok(self) } else { Err(NodeError::Protocol { reply: format!("{self:?}") }) }
    }
}

/// A waiter's position in the queue of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// How many waiters are before it.
    pub ahead: u32,
    /// Whether it is a new one: the waiter had none, or has let its reservation pass. One that had a position, and was not woken,
    /// learns by this that wake-ups do not arrive.
    pub anew: bool,
}

/// How long a node reserves a free key for one waiter, or lets it take a free slot. Then it is the next one's turn.
pub const RESERVATION_TTL: Duration = Duration::from_millis(100);

/// A node's message to a process that waits for a lock. It grants nothing: an acquire does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wakeup {
    /// The lock key; of several slots, that of the one that is proposed.
    pub lock_key: String,
    /// For how many waiters the key is reserved before this one. With 0, it is reserved for this one now; otherwise in that many
    /// [`RESERVATION_TTL`]s, unless one of them takes the lock.
    pub before: u32,
    /// The slots that it may take now, if the lock is a slot: the one that is proposed is among them.
    pub free: Slots,
}

impl Wakeup {
    /// Reads a message as stores write it: for how many waiters the key is reserved before this one, and the lock key. The slots that are
    /// free follow the number: `0,1,3 export{1}`.
    pub(super) fn parse(message: &str) -> Option<Self> {
        let (numbers, lock_key) = message.split_once(' ')?;
        let mut numbers = numbers.split(',').map(|digits| digits.parse().ok());
        let before = numbers.next()??;
        Some(Self { lock_key: lock_key.to_owned(), before, free: numbers.collect::<Option<_>>()? })
    }
}

/// The wake-ups from a node for one waiter, as they arrive. Ends when the connection is lost.
pub type Wakeups = Pin<Box<dyn Stream<Item = Wakeup> + Send>>;
