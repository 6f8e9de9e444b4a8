use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Round};
use crate::cluster::NodeSet;
use crate::node::{LockKeys, Operation};

/// How long a request to leave a queue is awaited. A position that could not be given up expires on its own.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The positions of one manager in the nodes' queues for one lock.
///
/// They belong to the [`Turn`](crate::waiting::Turn). An attempt updates them by what the nodes reply.
#[derive(Default)]
pub(crate) struct QueuePositions {
    /// When the manager began to wait, by the cluster clock. `None` while it does not wait.
    pub(crate) since: Option<NonZeroU64>,
    /// The nodes that may have a position for it.
    pub(crate) nodes: NodeSet,
}

impl Engine {
    /// Gives up the queue positions on these nodes. Each is asked once, in the background: a position that stays expires on
    /// its own. When this returns, the requests are sent.
    pub(crate) fn leave_queues(self: &Arc<Self>, keys: &LockKeys, nodes: NodeSet) {
        if nodes.is_empty() {
            return;
        }
        let mut round = Round::new(&self.cluster, keys, LEAVE_TIMEOUT);
        for node in nodes.iter() {
            round.send(node, Operation::LeaveQueue);
        }
        round.await_all();
        while round.take().is_some() {}
        if !round.is_done() {
            self.spawn(async move { while round.next_in_time().await.is_some() {} });
        }
    }
}
