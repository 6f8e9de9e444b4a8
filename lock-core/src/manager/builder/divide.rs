//! How the locks of a manager are divided into shards, and which masters have each.

use std::collections::HashSet;
use std::sync::Arc;

use super::ConfigError;
use crate::cluster::{MAX_NODES, ShardSource};
use crate::node::{Division, Keyspace, LockNode};
use crate::resource::check_node_name;

/// The most shards.
pub(super) const MAX_SHARDS: u32 = 64;

/// The shards of a manager.
pub(super) struct Divided {
    pub(super) count: u32,
    /// Where a shard is, or would be if there were more of them.
    pub(super) find: Box<dyn Fn(u32) -> ShardSource + Send + Sync>,
}

impl Divided {
    /// All shards are on all masters.
    pub(super) fn on_all(
        nodes: Vec<Arc<dyn LockNode>>,
        count: u32,
        prefix: &str,
        in_cluster: bool,
    ) -> Result<Self, ConfigError> {
        if !is_count(count) {
            return Err(ConfigError::InvalidShards { shards: count });
        }
        if let Some(node) = nodes.iter().find(|node| count > 1 && node.shard(0).is_none()) {
            return Err(ConfigError::UndividedNode { node: node.name().to_owned() });
        }
        Ok(Self::shared(nodes, count, prefix, in_cluster))
    }

    /// As [`on_all`](Self::on_all), where it is known that there may be so many.
    pub(super) fn shared(nodes: Vec<Arc<dyn LockNode>>, count: u32, prefix: &str, in_cluster: bool) -> Self {
        let prefix = prefix.to_owned();
        let find = move |shard| ShardSource {
            keyspace: if in_cluster {
                Keyspace::in_cluster(&prefix, shard)
            } else {
                Keyspace::of_shard(&prefix, shard)
            },
            nodes: match count {
                1 if shard == 0 => nodes.clone(),
                _ => nodes.iter().filter_map(|node| node.shard(shard)).collect(),
            },
            division: Division::Shards(count),
        };
        Self { count, find: Box::new(find) }
    }

    /// Each shard has masters of its own.
    pub(super) fn in_sets(sets: Vec<Vec<Arc<dyn LockNode>>>, prefix: &str) -> Result<Self, ConfigError> {
        let count = u32::try_from(sets.len()).unwrap_or(u32::MAX);
        if !is_count(count) {
            return Err(ConfigError::InvalidSets { sets: sets.len() });
        }
        let mut names = HashSet::new();
        if let Some(node) = sets.iter().flatten().find(|node| !names.insert(node.name().to_owned())) {
            return Err(ConfigError::DuplicateNode { node: node.name().to_owned() });
        }
        let sets = sets.into_iter().map(check_nodes).collect::<Result<Vec<_>, _>>()?;
        let keyspace = Keyspace::new(prefix);
        let find = move |shard| ShardSource {
            keyspace: keyspace.clone(),
            nodes: usize::try_from(shard).ok().and_then(|shard| sets.get(shard).cloned()).unwrap_or_default(),
            division: Division::Set { place: shard, of: count },
        };
        Ok(Self { count, find: Box::new(find) })
    }
}

fn is_count(shards: u32) -> bool {
    shards.is_power_of_two() && shards <= MAX_SHARDS
}

/// Checks the masters of a manager: an odd number of them, each named once. One that has to be alone is.
pub(super) fn check_nodes(nodes: Vec<Arc<dyn LockNode>>) -> Result<Vec<Arc<dyn LockNode>>, ConfigError> {
    // It stands on a line of the record of each master.
    let invalid = |node: &Arc<dyn LockNode>| Some((node.name().to_owned(), check_node_name(node.name()).err()?));
    if let Some((name, reason)) = nodes.iter().find_map(invalid) {
        return Err(ConfigError::InvalidName { field: "node", name, reason });
    }
    let mut names = HashSet::new();
    if let Some(node) = nodes.iter().find(|node| !names.insert(node.name())) {
        return Err(ConfigError::DuplicateNode { node: node.name().to_owned() });
    }
    if let Some(alone) = nodes.iter().find(|node| node.is_alone() && nodes.len() > 1) {
        let others = nodes.iter().filter(|other| !Arc::ptr_eq(other, alone));
        let others = others.map(|other| other.name().to_owned()).collect();
        return Err(ConfigError::NotAlone { node: alone.name().to_owned(), others });
    }
    match nodes.len() {
        0 => Err(ConfigError::NoNodes),
        count if count > MAX_NODES => Err(ConfigError::TooManyNodes { nodes: count, most: MAX_NODES }),
        count if count % 2 == 0 => Err(ConfigError::EvenNodes { nodes: count }),
        _ => Ok(nodes),
    }
}
