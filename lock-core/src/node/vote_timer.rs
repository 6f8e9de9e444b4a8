use std::sync::Arc;

use tokio::time::Instant;

use super::{Keyspace, NodeError, Operation, Reply, Request};
use crate::observer::{LockEvent, Reporter, VoteOutcome};

/// Tells the observers how long a node takes to vote.
pub(crate) struct VoteReporter {
    reporter: Arc<Reporter>,
    node: String,
}

/// Measures one vote. It goes with the request, so that votes count for which nobody waits any more: else the slowest nodes would
/// be the ones that are never measured.
pub(super) struct VoteTimer {
    reporter: Arc<VoteReporter>,
    sent: Instant,
}

impl VoteReporter {
    pub(crate) fn new(reporter: &Arc<Reporter>, node: &str) -> Arc<Self> {
        Arc::new(Self { reporter: Arc::clone(reporter), node: node.to_owned() })
    }

    /// Starts when a request is submitted. `None` if nobody wants to know.
    pub(super) fn time(self: &Arc<Self>, request: &Request) -> Option<VoteTimer> {
        let is_test = request.keys.fence() == Keyspace::TEST_FENCE;
        let is_vote = matches!(request.operation, Operation::Acquire { .. }) && !is_test;
        let timer = || VoteTimer { reporter: Arc::clone(self), sent: Instant::now() };
        (is_vote && self.reporter.is_observed()).then(timer)
    }
}

impl VoteTimer {
    /// The node replied.
    pub(super) fn stop(self, reply: &Result<Reply, NodeError>) {
        let VoteReporter { reporter, node } = &*self.reporter;
        let duration = self.sent.elapsed();
        let outcome = match reply {
            Ok(Reply::Granted { .. }) => VoteOutcome::Granted,
            Ok(_) => VoteOutcome::Held,
            Err(_) => VoteOutcome::Failed,
        };
        reporter.report(&LockEvent::NodeVoted { node, outcome, duration });
    }
}
