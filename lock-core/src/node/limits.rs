//! The limits of a node's queues and tokens. [`MemoryNode`](super::MemoryNode) uses them as they are; the scripts and functions of servers
//! have their names, which are replaced by the values before a server gets them.

use std::time::Duration;

use super::NodeError;
pub(crate) use crate::token::MAX_TOKEN;

/// How long a queue lives in which nothing changes. Waiters come again every second.
pub(super) const QUEUE_TTL: Duration = Duration::from_secs(10);
/// The most waiters that a queue has. The youngest that finds no room tries again within a second.
pub(super) const MAX_WAITERS: usize = 4096;
/// How long a node remembers for whom a key was reserved: longer than all reservations together.
pub(super) const RESERVED_TTL: Duration = Duration::from_secs(10);
/// For how many waiters a free key is reserved, one after another.
pub(crate) const MAX_RESERVATIONS: u32 = 9;
/// How many of the first waiters are looked at when slots are free: more than there are slots.
pub(super) const MAX_PAIRED: usize = 108;
/// How many waiters that nobody listens for are removed at once, when a key is free.
pub(super) const MAX_GONE: usize = 64;

/// The most owners of a lock that are remembered as evicted. Beyond it, nobody else is evicted until they are forgotten.
pub(super) const MAX_EVICTED: usize = 4096;
/// For how long a waiting writer bars readers when nothing is heard of it. Waiters come again every second.
pub(super) const WRITER_HEARD: Duration = Duration::from_millis(2500);
/// How many writers are looked up in the queue, beginning with the ones that were heard last.
pub(super) const MAX_HEARD: usize = 64;
/// The most readers that a look at a lock returns.
pub(crate) const MAX_READERS_SEEN: usize = 1024;
/// How many readers are woken at once, when others hold the lock.
pub(super) const MAX_WOKEN_READERS: usize = 128;

/// What the names of limits stand for in the scripts of Redis and the functions of PostgreSQL. Times are in milliseconds.
pub(super) fn named() -> [(&'static str, String); 12] {
    let millis = |duration: Duration| duration.as_millis().to_string();
    [
        ("EVICTION_GAP", millis(super::EVICTION_GAP)),
        ("MAX_EVICTED", MAX_EVICTED.to_string()),
        ("MAX_GONE", MAX_GONE.to_string()),
        ("MAX_PAIRED", MAX_PAIRED.to_string()),
        ("MAX_READERS_SEEN", MAX_READERS_SEEN.to_string()),
        ("MAX_RESERVATIONS", MAX_RESERVATIONS.to_string()),
        ("MAX_TOKEN", MAX_TOKEN.to_string()),
        ("MAX_WAITERS", MAX_WAITERS.to_string()),
        ("MAX_WOKEN_READERS", MAX_WOKEN_READERS.to_string()),
        ("QUEUE_TTL", millis(QUEUE_TTL)),
        ("RESERVED_TTL", millis(RESERVED_TTL)),
        ("WRITER_HEARD", millis(WRITER_HEARD)),
    ]
}

/// Reads a number that a node sent. One that is larger than any token is refused: Lua cannot tell it from the next one.
pub(super) fn parse_number(digits: &str) -> Option<u64> {
    digits.parse().ok().filter(|number| *number <= MAX_TOKEN)
}

/// A number of waiters, as replies and wake-ups have it.
pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Refuses a number that no node has counted to.
pub(super) fn check_number(number: u64, what: &str) -> Result<(), NodeError> {
    if number <= MAX_TOKEN { Ok(()) } else { Err(NodeError::Protocol { reply: format!("{number} {what}") }) }
}

/// The last of the tokens that an acquire gets from a fence. The hint of a clock only ever raises them.
pub(super) fn next_token(fence: u64, hint: u64, tokens: u32) -> Result<u64, NodeError> {
    let next = hint.max(fence.saturating_add(1)).saturating_add(u64::from(tokens).saturating_sub(1));
    if next > MAX_TOKEN { Err(used_up()) } else { Ok(next) }
}

/// There is no token beyond [`MAX_TOKEN`].
pub(super) fn used_up() -> NodeError {
    rejected("the fence is used up")
}

/// There would be more than [`MAX_EVICTED`] of a lock.
pub(super) fn too_many_evicted() -> NodeError {
    rejected("too many owners were evicted")
}

fn rejected(detail: &str) -> NodeError {
    NodeError::Rejected { code: "ERR".into(), detail: detail.into() }
}

/// Whether the waiter that comes after this many others is woken when a key is free: the first three, some of those behind them,
/// and the last. If all before it are frozen, each costs one reservation; so does one that was not woken.
pub(super) fn is_woken(before: usize, is_last: bool) -> bool {
    matches!(before, 0 | 1 | 2 | 4) || is_last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_that_is_used_up_grants_no_token_beyond_the_highest() {
        assert_eq!(next_token(7, 0, 1), Ok(8));
        assert_eq!(next_token(7, 100, 10), Ok(109));
        assert_eq!(next_token(MAX_TOKEN - 1, 0, 1), Ok(MAX_TOKEN));
        for (fence, hint, tokens) in
            [(MAX_TOKEN, 0, 1), (MAX_TOKEN - 1, 0, 2), (0, MAX_TOKEN, 2), (u64::MAX, 0, u32::MAX)]
        {
            assert_eq!(next_token(fence, hint, tokens), Err(used_up()), "{fence} {hint} {tokens}");
        }
    }
}
