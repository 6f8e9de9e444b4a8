use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::Stream;

/// How long a node reserves a free key for one waiter. Then it is reserved for the next.
pub const RESERVATION_TTL: Duration = Duration::from_millis(100);

/// A node's message to a process that waits for a lock. It grants nothing: an acquire does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wakeup {
    /// The lock key.
    pub lock_key: String,
    /// For how many waiters the key is reserved before this one. With 0, it is reserved for this one now; otherwise in that many
    /// [`RESERVATION_TTL`]s, unless one of them takes the lock.
    pub before: u32,
}

/// The wake-ups from a node for one waiter, as they arrive. Ends when the connection is lost. Once it is dropped, the node cannot
/// wake the waiter any more.
pub type Wakeups = Pin<Box<dyn Stream<Item = Wakeup> + Send>>;
