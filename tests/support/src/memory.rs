use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{
    Epoch, Keyspace, LockKeys, NodeFuture, Operation, OwnerId, QueuePosition, Reply, ReplySender, Request, WaiterId,
};
use lock_core::{LockManager, LockManagerBuilder, LockNode, MemoryNode, NodeError};

/// Some in-memory masters, for any number of managers.
pub struct MemoryCluster {
    /// The masters.
    pub nodes: Vec<MemoryNode>,
}

impl MemoryCluster {
    /// `count` fresh masters.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { nodes: (0..count).map(|_| MemoryNode::new()).collect() }
    }

    /// The beginnings of a manager over these masters.
    pub fn builder(&self) -> LockManagerBuilder {
        LockManager::builder().nodes(self.nodes.clone())
    }

    /// A manager with the default settings.
    #[must_use]
    pub fn manager(&self) -> LockManager {
        self.builder().connect_lazy().unwrap()
    }

    /// The lock keys on all masters.
    #[must_use]
    pub fn lock_keys(&self) -> Vec<String> {
        self.nodes.iter().flat_map(MemoryNode::lock_keys).collect()
    }

    /// On how many masters the lock is held.
    #[must_use]
    pub fn holding(&self) -> usize {
        self.nodes.iter().filter(|node| !node.lock_keys().is_empty()).count()
    }

    /// Votes on the lock `r` of the default prefix, past every manager.
    pub async fn raw(&self, node: usize) -> RawNode {
        RawNode::admitted(self.nodes[node].clone(), "lock:").await
    }

    /// Makes the fencing number of `resource` on each master what is told here, by a vote past every manager. The numbers
    /// must be higher than those that are there, and the lock must be free.
    pub async fn set_fences(&self, resource: &str, fences: &[u64]) {
        for (node, fence) in fences.iter().enumerate() {
            self.raw(node).await.raise_fence(resource, *fence).await;
        }
    }
}

/// Hands a ballot over to a node, now; the answer when there is one.
pub fn ask(node: &(impl LockNode + ?Sized), request: Request) -> NodeFuture<Result<Reply, NodeError>> {
    let (sender, reply) = ReplySender::channel();
    node.submit(request, sender);
    reply
}

/// A master that is talked to past every manager, in the epoch that it is in.
pub struct RawNode {
    node: Arc<dyn LockNode>,
    keyspace: Arc<Keyspace>,
    epoch: Epoch,
}

impl RawNode {
    /// Looks the epoch of a node up that a manager has established.
    pub async fn admitted(node: impl LockNode, prefix: &str) -> Self {
        let keyspace = Arc::new(Keyspace::new(prefix));
        let seen = node.inspect(&keyspace).await.unwrap();
        let epoch = seen.record.unwrap().epoch;
        Self { node: Arc::new(node), keyspace, epoch }
    }

    /// Votes.
    ///
    /// # Errors
    ///
    /// As the node.
    pub async fn vote(&self, resource: &str, operation: Operation) -> Result<Reply, NodeError> {
        let keys = LockKeys::new(&self.keyspace, resource);
        ask(&*self.node, Request { keys, epoch: self.epoch, waiter: WaiterId::from_bits(1), operation }).await
    }

    /// Makes the fencing number `fence`, which must be higher than it was.
    pub async fn raise_fence(&self, resource: &str, fence: u64) {
        let owner = OwnerId::from_bits(0xF0);
        let acquire = Operation::Acquire { owner, ttl: Duration::from_secs(1), hint: fence, tokens: 1, since: None };
        assert_eq!(self.vote(resource, acquire).await, Ok(Reply::Granted { token: fence }));
        assert_eq!(
            self.vote(resource, Operation::Release { owner, position: QueuePosition::None }).await,
            Ok(Reply::Released)
        );
    }
}
