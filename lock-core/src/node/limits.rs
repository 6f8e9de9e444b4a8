//! The limits of a node's queues and tokens. [`MemoryNode`](super::MemoryNode) uses them as they are; for
//! [`RedisNode`](super::RedisNode), they are written at the head of the scripts.

use std::time::Duration;

/// How long a queue lives in which nothing changes.
pub(super) const QUEUE_TTL: Duration = Duration::from_secs(10);
/// The most waiters that a queue has. A waiter that finds no room tries again within a second.
pub(super) const MAX_WAITERS: usize = 64;
/// How long a wake-up waits for its process to fetch it.
pub(super) const WAKEUP_TTL: Duration = Duration::from_secs(2);
/// The longest list of queued locks, in bytes. It is searched for the lock of every request.
pub(super) const MAX_LIST_BYTES: usize = 2048;
/// The largest token, 2^53 - 1. Beyond it, Lua and JavaScript cannot tell a number from the next one.
pub(super) const MAX_TOKEN: u64 = (1 << 53) - 1;
