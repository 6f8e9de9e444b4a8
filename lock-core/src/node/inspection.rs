use std::time::Duration;

use crate::random::Epoch;

/// What is seen of a node before it may vote.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The random id that the server drew when it started.
    pub run_id: String,
    /// Major and minor version of Redis that the server is, or is compatible with.
    pub version: (u32, u32),
    /// Master or replica.
    pub role: Role,
    /// `maxmemory-policy`; every one but `noeviction` deletes locks.
    pub eviction_policy: String,
    /// Whether every write is on disk before it is answered (`appendonly yes`, `appendfsync always`).
    pub durable: bool,
    /// The node's clock, in microseconds since the Unix epoch.
    pub clock_micros: u64,
    /// The record that makes the node a member of a set.
    pub meta: Option<Meta>,
    /// How long the node's quarantine lasts yet.
    pub quarantine: Option<Duration>,
}

/// What a server says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes writes of its own.
    Master,
    /// Follows another server.
    Replica,
}

/// A node's record of the set it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The run id of the server that the record was written for.
    pub run_id: String,
    /// The epoch of the node's data.
    pub epoch: Epoch,
    /// The set.
    pub config: SetConfig,
}

/// What all clients of one set of masters must agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetConfig {
    /// The version of the format of keys and scripts.
    pub format: u32,
    /// The number of masters: a majority of it is the quorum.
    pub nodes: usize,
    /// The longest time to live of any lock: a node that forgot must not vote for this long.
    pub max_ttl: Duration,
    /// The name of the set.
    pub name: String,
}

impl SetConfig {
    /// The format that this version of the library reads and writes.
    pub const FORMAT: u32 = 1;

    /// The first field in which another record differs: its name, ours, theirs.
    pub(crate) fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let fields = [
            ("format", self.format.to_string(), other.format.to_string()),
            ("number of nodes", self.nodes.to_string(), other.nodes.to_string()),
            ("max_ttl", format!("{:?}", self.max_ttl), format!("{:?}", other.max_ttl)),
            ("set_name", format!("{:?}", self.name), format!("{:?}", other.name)),
        ];
        fields.into_iter().find(|(_, ours, theirs)| ours != theirs)
    }
}
