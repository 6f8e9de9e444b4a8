use std::time::Duration;

/// How long a node keeps a free key for the waiter that it woke.
pub const RESERVATION_TTL: Duration = Duration::from_millis(100);

/// A node's message to a process that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wakeup {
    /// The lock key.
    pub lock_key: String,
    /// What the process is woken for.
    pub kind: WakeupKind,
}

/// What a process is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WakeupKind {
    /// The free key is reserved for you. The node grants nothing by this: an acquire does.
    Reserved,
    /// You are next if the waiter for which the key is reserved does not claim it within [`RESERVATION_TTL`].
    Next,
}
