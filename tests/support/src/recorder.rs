use std::sync::{Arc, Mutex, PoisonError};

use lock_core::LockNode;
use lock_core::node::{Keyspace, Operation, OwnerId, ReplySender, Request};

/// A node that records the requests it gets, except for test votes.
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
    lock_core::forward_to_node!(self => self.node; name inspect write_record read_fences wakeups disconnected disconnect look evict);

    fn submit(&self, request: Request, reply_to: ReplySender) {
        if request.keys.fence() != Keyspace::TEST_FENCE {
            self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.operation);
        }
        self.node.submit(request, reply_to);
    }
}
