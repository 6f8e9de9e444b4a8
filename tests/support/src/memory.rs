use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{
    Epoch, Keyspace, Kind, LockKeys, NodeFuture, Operation, OwnerId, QueuePosition, Reply, ReplySender, Request,
    WaiterId, Wakeups,
};
use lock_core::{LockManager, LockManagerBuilder, LockNode, MemoryNode, NodeError};

/// In-memory nodes, for any number of managers.
pub struct MemoryCluster {
    /// The nodes.
    pub nodes: Vec<MemoryNode>,
}

impl MemoryCluster {
    /// `count` new nodes.
    #[must_use]
    pub fn new(count: usize) -> Self {
        crate::events::keep_two_subscribers();
        Self { nodes: (0..count).map(|_| MemoryNode::new()).collect() }
    }

    /// Five new nodes, and two managers over them for locks that live this long at most.
    pub async fn with_two_managers(ttl: Duration, wait: Duration) -> (Self, [LockManager; 2]) {
        let cluster = Self::new(5);
        let builder = || cluster.builder().ttl(ttl).max_ttl(ttl).wait(wait);
        let managers = [builder().connect().await.unwrap(), builder().connect().await.unwrap()];
        (cluster, managers)
    }

    /// A builder of managers over these nodes.
    pub fn builder(&self) -> LockManagerBuilder {
        LockManager::builder().nodes(self.nodes.clone())
    }

    /// A manager with the default settings.
    #[must_use]
    pub fn manager(&self) -> LockManager {
        self.builder().connect_lazy().unwrap()
    }

    /// The lock keys on all nodes.
    #[must_use]
    pub fn lock_keys(&self) -> Vec<String> {
        self.nodes.iter().flat_map(MemoryNode::lock_keys).collect()
    }

    /// How many nodes have a lock key.
    #[must_use]
    pub fn holding(&self) -> usize {
        self.nodes.iter().filter(|node| !node.lock_keys().is_empty()).count()
    }

    /// A node without a manager in between, for locks with the default prefix.
    pub async fn raw(&self, node: usize) -> RawNode {
        RawNode::admitted(self.nodes[node].clone(), "lock:").await
    }

    /// Sets the fence of `resource` on each node. Each must be larger than the present one, and the lock must be free.
    pub async fn set_fences(&self, resource: &str, fences: &[u64]) {
        for (node, fence) in fences.iter().enumerate() {
            self.raw(node).await.raise_fence(resource, *fence).await;
        }
    }
}

/// Submits a request to a node at once. The future is for the reply.
pub fn ask(node: &(impl LockNode + ?Sized), request: Request) -> NodeFuture<Result<Reply, NodeError>> {
    let (sender, reply) = ReplySender::channel();
    node.submit(request, sender);
    reply
}

/// A node without a manager in between: requests are sent in its present epoch.
pub struct RawNode {
    node: Arc<dyn LockNode>,
    keyspace: Arc<Keyspace>,
    epoch: Epoch,
}

impl RawNode {
    /// Inspects a node that a manager has established, for its epoch.
    pub async fn admitted(node: impl LockNode, prefix: &str) -> Self {
        let keyspace = Arc::new(Keyspace::new(prefix));
        let inspection = node.inspect(&keyspace).await.unwrap();
        let epoch = inspection.record.get().unwrap().epoch.unwrap();
        Self { node: Arc::new(node), keyspace, epoch }
    }

    /// Sends a request, and awaits the reply.
    ///
    /// # Errors
    ///
    /// Those of the node.
    pub async fn send(&self, resource: &str, operation: Operation) -> Result<Reply, NodeError> {
        let keys = LockKeys::new(&self.keyspace, resource);
        ask(&*self.node, Request { keys, epoch: self.epoch, waiter: WaiterId::from_bits(1), polls: false, operation })
            .await
    }

    /// Listens for the wake-ups of the process that these requests come from.
    pub async fn listen(&self) -> Wakeups {
        self.node.wakeups(&self.keyspace, WaiterId::from_bits(1)).await.expect("the node is up")
    }

    /// Raises the fence of `resource` to `fence`, which must be larger than the present one.
    pub async fn raise_fence(&self, resource: &str, fence: u64) {
        let owner = OwnerId::from_bits(0xF0);
        let acquire = Operation::Acquire {
            owner,
            ttl: Duration::from_secs(1),
            hint: fence,
            tokens: 1,
            since: None,
            kind: Kind::Write,
        };
        assert_eq!(self.send(resource, acquire).await, Ok(Reply::Granted { token: fence }));
        assert_eq!(
            self.send(resource, Operation::Release { owner, position: QueuePosition::None }).await,
            Ok(Reply::Released)
        );
    }
}
