use std::sync::Arc;

use super::{ConfigError, LockManagerBuilder};
use crate::node::LockNode;
#[cfg(feature = "redis")]
use crate::node::RedisNode;

/// A master that a builder was given. What other settings make of it is not known before all of them are.
pub(super) enum NamedNode {
    #[cfg(feature = "redis")]
    Redis(RedisNode),
    Other(Arc<dyn LockNode>),
}

impl NamedNode {
    pub(super) fn name(&self) -> &str {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(node) => node.name(),
            Self::Other(node) => node.name(),
        }
    }
}

impl LockManagerBuilder {
    /// The masters, as all settings want them.
    pub(super) fn take_nodes(&mut self) -> Result<Vec<Arc<dyn LockNode>>, ConfigError> {
        let finish = |named: Result<NamedNode, ConfigError>| match named? {
            #[cfg(feature = "redis")]
            NamedNode::Redis(node) => Ok(Arc::new(match self.replication {
                Some((replicas, timeout)) => node.replicated(replicas, timeout)?,
                None => node,
            }) as Arc<dyn LockNode>),
            #[cfg(feature = "redis")]
            NamedNode::Other(node) if self.replication.is_some() => {
                Err(ConfigError::ReplicatedNode { node: node.name().to_owned() })
            }
            NamedNode::Other(node) => Ok(node),
        };
        std::mem::take(&mut self.nodes).into_iter().map(finish).collect()
    }
}
