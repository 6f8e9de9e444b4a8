use std::time::Duration;

use super::NodeRecord;

/// What an inspection found out about a node. The node is admitted, or not, by this.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The random id that the server drew when it started.
    pub run_id: String,
    /// Major and minor version of Redis that the server is, or is compatible with.
    pub version: (u32, u32),
    /// Master or replica.
    pub role: Role,
    /// `maxmemory-policy`. Every policy but `noeviction` deletes locks.
    pub eviction_policy: String,
    /// Whether every write is on disk before it is acknowledged (`appendonly yes`, `appendfsync always`).
    pub durable: bool,
    /// The node's clock, in microseconds since the Unix epoch.
    pub clock_micros: u64,
    /// The record that makes the node a member of a set.
    pub record: Option<NodeRecord>,
    /// How much longer the node is in quarantine.
    pub quarantine: Option<Duration>,
}

/// The role that a server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Accepts writes of its own.
    Master,
    /// Replicates another server.
    Replica,
}
