//! A master in this process, with switches for the faults that real masters have.
//!
//! `node` is the [`LockNode`](super::LockNode), `faults` its switches. Requests pass through `delay` to the `store`, which has the
//! locks, `readers` of those that are read, a `queue` for each lock that is waited for, and `tombstones` of those who were evicted.

mod delay;
mod faults;
mod node;
mod queue;
mod readers;
mod state;
mod store;
mod tombstones;

pub use self::faults::MemoryBackup;
pub use self::node::MemoryNode;
