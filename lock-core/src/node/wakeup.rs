use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::Stream;

use super::Slots;

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

/// The wake-ups from a node for one waiter, as they arrive. Ends when the connection is lost. Once it is dropped, the node cannot
/// wake the waiter any more.
pub type Wakeups = Pin<Box<dyn Stream<Item = Wakeup> + Send>>;
