use std::collections::HashSet;
use std::sync::Arc;

use super::ConfigError;
use crate::cluster::MAX_NODES;
use crate::node::LockNode;
use crate::resource::check_node_name;

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
