use std::sync::Arc;

use tokio::time::Instant;

use super::{Keyspace, LockNode, NodeError, Operation, Reply, Request};
use crate::observer::{NodeVoted, Reporter, VoteOutcome};

/// Measures how long a node takes to vote. It goes with the request, so that votes count for which nobody waits any more: else the
/// slowest nodes would be the ones that are never measured.
pub(super) struct VoteTimer {
    reporter: Arc<Reporter>,
    node: Arc<dyn LockNode>,
    sent: Instant,
}

impl VoteTimer {
    /// Starts when a request is submitted. `None` if nobody wants to know.
    pub(super) fn start(reporter: &Arc<Reporter>, node: &Arc<dyn LockNode>, request: &Request) -> Option<Box<Self>> {
        let is_test = request.keys.fence() == Keyspace::TEST_FENCE;
        let is_vote = matches!(request.operation, Operation::Acquire { .. }) && !is_test;
        let timer = || Self { reporter: Arc::clone(reporter), node: Arc::clone(node), sent: Instant::now() };
        (is_vote && reporter.is_observed()).then(|| Box::new(timer()))
    }

    /// The node replied.
    pub(super) fn stop(self, reply: &Result<Reply, NodeError>) {
        let (node, duration) = (self.node.name(), self.sent.elapsed());
        let outcome = match reply {
            Ok(Reply::Granted { .. }) => VoteOutcome::Granted,
            Ok(_) => VoteOutcome::Held,
            Err(_) => VoteOutcome::Failed,
        };
        self.reporter.report(|observer| observer.node_voted(&NodeVoted { node, outcome, duration }));
    }
}
