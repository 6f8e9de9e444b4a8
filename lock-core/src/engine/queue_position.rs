use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Round};
use crate::cluster::NodeSet;
use crate::mutex::Mutex;
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

/// The queues that a manager is leaving, and the nodes that have not replied: as many as such requests are in flight.
#[derive(Default)]
pub(super) struct Leaving(Mutex<BTreeMap<String, NodeSet>>);

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
            let in_flight = LeaveInFlight::begin(self, keys, nodes);
            self.spawn(async move {
                while round.next_in_time().await.is_some() {}
                drop(in_flight);
            });
        }
    }

    /// A node called this process, and nobody waits here: gives up the position there, unless a request for that is in flight.
    ///
    /// Until a node has carried it out, it calls again whenever something changes. With 64 processes and 16 permits, three of four
    /// requests to leave a queue were answers to such calls.
    pub(crate) fn leave_queue_that_called(self: &Arc<Self>, keys: &LockKeys, node: usize) {
        let is_leaving = self.leaving.0.lock().get(keys.queue()).is_some_and(|nodes| nodes.contains(node));
        if !is_leaving {
            self.leave_queues(keys, [node].into_iter().collect());
        }
    }
}

/// Requests to leave a queue that are in flight: until this is dropped.
struct LeaveInFlight {
    engine: Arc<Engine>,
    queue: String,
    nodes: NodeSet,
}

impl LeaveInFlight {
    fn begin(engine: &Arc<Engine>, keys: &LockKeys, nodes: NodeSet) -> Self {
        let (engine, queue) = (Arc::clone(engine), keys.queue().to_owned());
        let mut leaving = engine.leaving.0.lock();
        let all = leaving.entry(queue.clone()).or_default();
        *all = all.union(nodes);
        drop(leaving);
        Self { engine, queue, nodes }
    }
}

impl Drop for LeaveInFlight {
    fn drop(&mut self) {
        let mut leaving = self.engine.leaving.0.lock();
        if let Some(nodes) = leaving.get_mut(&self.queue) {
            // A later request to the same node may be in flight still. Then a call is answered by one more.
            *nodes = nodes.without(self.nodes);
            if nodes.is_empty() {
                leaving.remove(&self.queue);
            }
        }
    }
}
