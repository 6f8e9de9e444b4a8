use std::sync::{Arc, Mutex, PoisonError};

use lock_core::node::{
    Establish, Inspection, Keyspace, NodeFuture, Operation, OwnerId, ReplySender, Request, WaiterId, Wakeup,
};
use lock_core::{LockNode, NodeError};

/// A node that writes down what it is asked.
#[derive(Clone)]
pub struct Recorder<N> {
    node: N,
    requests: Arc<Mutex<Vec<Operation>>>,
}

impl<N: LockNode> Recorder<N> {
    /// Listens to what `node` is asked from now on.
    pub fn new(node: N) -> Self {
        Self { node, requests: Arc::default() }
    }

    /// What it was asked, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Operation> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Who asked for the lock, attempt by attempt.
    #[must_use]
    pub fn owners(&self) -> Vec<OwnerId> {
        let owner = |request| if let Operation::Acquire { owner, .. } = request { Some(owner) } else { None };
        self.requests().into_iter().filter_map(owner).collect()
    }

    /// How often it was asked to extend.
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

    fn establish(&self, keyspace: &Arc<Keyspace>, record: Establish) -> NodeFuture<Result<bool, NodeError>> {
        self.node.establish(keyspace, record)
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.operation);
        self.node.submit(request, reply_to);
    }

    fn wakeups(&self, keyspace: &Arc<Keyspace>, waiter: WaiterId) -> NodeFuture<Result<Vec<Wakeup>, NodeError>> {
        self.node.wakeups(keyspace, waiter)
    }

    fn disconnected(&self) -> NodeFuture<()> {
        self.node.disconnected()
    }
}
