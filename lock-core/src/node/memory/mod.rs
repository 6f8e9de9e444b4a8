//! A master in this process, with switches for the faults that real ones have.

mod node;
mod queue;
mod store;

pub use self::node::MemoryNode;
