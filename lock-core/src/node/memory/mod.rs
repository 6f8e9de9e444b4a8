//! A master in this process, with switches for the faults that real masters have.
//!
//! `node` is the [`LockNode`](super::LockNode), `faults` its switches. Requests pass through `delay` to the `store`, which has two
//! halves: the `ledger` and the `record` must be right, the `waiting` room may be wrong. The rules are those of the scripts for Redis.

mod delay;
mod faults;
mod ledger;
mod ledger_lock;
mod ledger_tombstones;
mod node;
mod record;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod waiting;
mod waiting_queue;

pub use self::faults::MemoryBackup;
pub use self::node::MemoryNode;
