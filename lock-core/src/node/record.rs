use std::time::Duration;

use crate::random::Epoch;

/// A node's record of the set that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
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
    /// The number of masters; more than half of them are a quorum.
    pub nodes: usize,
    /// The longest time to live of any lock: for at least this long, a node that forgot its locks must not grant new ones.
    pub max_ttl: Duration,
    /// The name of the set.
    pub name: String,
}

impl SetConfig {
    /// The format that this version of the library reads and writes.
    pub const FORMAT: u32 = 1;

    /// The first field in which another record differs: its name, our value, their value.
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

/// The record that makes a node a member of a set. It is written in one step, and only if the present record has the
/// expected epoch: if two clients establish a node at the same time, one of them succeeds.
#[derive(Clone, Debug)]
pub struct Establish {
    /// The epoch of the record to replace; `None` if there is no record.
    pub expected: Option<Epoch>,
    /// The run id of the server that the record is for.
    pub run_id: String,
    /// The new epoch.
    pub epoch: Epoch,
    /// The set.
    pub config: SetConfig,
    /// How long the node must not grant locks; zero for a node that cannot have forgotten any.
    pub quarantine: Duration,
}
