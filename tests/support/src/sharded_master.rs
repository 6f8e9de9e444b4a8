use std::sync::Arc;

use lock_core::{LockNode, MemoryNode, forward_to_node};

/// A master whose shards are nodes of their own, so that a fault may concern one of them alone.
#[derive(Clone)]
pub struct ShardedMaster(Arc<[MemoryNode]>);

impl ShardedMaster {
    /// A master with room for this many shards.
    #[must_use]
    pub fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| MemoryNode::new()).collect())
    }

    /// The node of a shard.
    #[must_use]
    pub fn node(&self, shard: usize) -> &MemoryNode {
        &self.0[shard]
    }
}

impl LockNode for ShardedMaster {
    forward_to_node!(self => self.0[0]; name inspect write_record read_fences submit submit_all look evict wakeups
        disconnected last_words disconnect node_timeout);

    fn shard(&self, shard: u32) -> Option<Arc<dyn LockNode>> {
        let node: &MemoryNode = self.0.get(usize::try_from(shard).ok()?)?;
        Some(Arc::new(node.clone()))
    }
}
