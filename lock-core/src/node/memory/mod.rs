//! A master in this process, with switches for the faults that real masters have.
//!
//! `node` is the [`LockNode`](super::LockNode), `faults` its switches. Requests pass through `delay` to the `store`, which has the
//! locks, and a `queue` for each lock that is waited for.

mod delay;
mod faults;
mod node;
mod queue;
mod state;
mod store;

pub use self::node::MemoryNode;
