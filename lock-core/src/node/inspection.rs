use std::time::Duration;

use super::{MAX_TOKEN, NodeError, NodeRecord};

/// What an inspection found out about a node. Whether the node votes follows from this.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inspection {
    /// The random id that the server drew when it started.
    pub run_id: String,
    /// Major and minor version of Redis that the server is, or is compatible with.
    pub version: (u32, u32),
    /// Master or replica.
    pub role: Role,
    /// `maxmemory-policy`. Every policy but `noeviction` deletes locks.
    pub eviction_policy: String,
    /// Whether every write is on disk before it is acknowledged (`appendonly yes`, `appendfsync always`), as the server says now.
    pub durable: bool,
    /// The node's clock, in microseconds since the Unix epoch.
    pub clock_micros: u64,
    /// The record of the node.
    pub record: FoundRecord,
}

impl Inspection {
    /// The inspection, unless a number in it is beyond 2^53 - 1: no node counts that far, and what is learned from one node is
    /// written to the others.
    pub(crate) fn check(self) -> Result<Self, NodeError> {
        let numbers = self.record.get().map_or_else(Vec::new, NodeRecord::numbers);
        match numbers.into_iter().chain([self.clock_micros]).max().filter(|highest| *highest > MAX_TOKEN) {
            Some(number) => Err(NodeError::Protocol { reply: format!("{number} in an inspection") }),
            None => Ok(self),
        }
    }
}

/// The record that an inspection found.
#[allow(clippy::large_enum_variant, reason = "there is one for each node")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FoundRecord {
    /// None: the node is new, or lost everything.
    None,
    /// One of the format before this one.
    Former(FormerRecord),
    /// One of another format.
    OtherFormat(u32),
    /// This one.
    Record(NodeRecord),
}

impl FoundRecord {
    /// The record, if it is of this format.
    #[must_use]
    pub fn get(&self) -> Option<&NodeRecord> {
        match self {
            Self::Record(record) => Some(record),
            Self::None | Self::Former(_) | Self::OtherFormat(_) => None,
        }
    }
}

/// What a record of format 1 says about the set that the node was a member of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FormerRecord {
    /// The number of nodes.
    pub nodes: usize,
    /// The longest time to live of any lock.
    pub max_ttl: Duration,
    /// The name of the set.
    pub set_name: String,
}

/// The role that a server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Accepts writes of its own.
    Master,
    /// Replicates another server.
    Replica,
}
