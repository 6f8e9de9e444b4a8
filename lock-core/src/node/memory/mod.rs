//! A master in this process, with switches for the faults that real masters have.
//!
//! `node` is the [`LockNode`](super::LockNode), with its switches. Requests reach the `store` through the `state`, which may delay
//! them. The store has two halves: the `ledger` and the `record` must be right, the `waiting` room may be wrong. It follows the same
//! rules as the scripts for Redis.

mod ledger;
mod ledger_lock;
mod node;
mod record;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod waiting;
mod waiting_queue;
mod waiting_slots;

pub use self::node::{MemoryBackup, MemoryNode};
