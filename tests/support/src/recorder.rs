use std::sync::{Arc, Mutex, PoisonError};

use lock_core::node::{
    FenceReading, Inspection, Keyspace, NodeFuture, NodeRecord, Operation, OwnerId, RecordWrite, ReplySender, Request,
    WaiterId, Wakeups,
};
use lock_core::{LockNode, NodeError};

/// A node that records the requests it gets.
#[derive(Clone)]
pub struct Recorder<N> {
    node: N,
    requests: Arc<Mutex<Vec<Operation>>>,
}

impl<N: LockNode> Recorder<N> {
    /// Records the requests to `node` from now on.
    pub fn new(node: N) -> Self {
        Self { node, requests: Arc::default() }
    }

    /// The operations of all requests, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Operation> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The owner ids of all acquires, in order: one for each attempt.
    #[must_use]
    pub fn owners(&self) -> Vec<OwnerId> {
        let owner = |request| if let Operation::Acquire { owner, .. } = request { Some(owner) } else { None };
        self.requests().into_iter().filter_map(owner).collect()
    }

    /// How many extends there were.
    #[must_use]
    pub fn renewals(&self) -> usize {
        self.requests().iter().filter(|request| matches!(request, Operation::Extend { .. })).count()
    }
}

impl<N: LockNode> LockNode for Recorder<N> {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn inspect(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Inspection, NodeError>> {
        self.node.inspect(keyspace)
    }

    fn write_record(
        &self,
        keyspace: &Arc<Keyspace>,
        write: RecordWrite,
    ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
        self.node.write_record(keyspace, write)
    }

    fn read_fences(&self, keyspace: &Arc<Keyspace>) -> NodeFuture<Result<Option<FenceReading>, NodeError>> {
        self.node.read_fences(keyspace)
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.operation);
        self.node.submit(request, reply_to);
    }

    fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Wakeups, NodeError>> {
        self.node.wakeups(keyspace, waiter)
    }

    fn disconnected(&self) -> NodeFuture<()> {
        self.node.disconnected()
    }

    fn disconnect(&self) {
        self.node.disconnect();
    }
}
