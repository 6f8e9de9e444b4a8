use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Engine, NodeReply, Round};
use crate::cluster::NodeSet;
use crate::mutex::Mutex;
use crate::node::{ByQueue, LockKeys, Operation};
use crate::task::OnDrop;

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

/// The requests to leave a queue that are in flight: which queue, of which node. With until when each is awaited: a runtime that nobody
/// drives must not keep a later request back.
#[derive(Default)]
pub(super) struct Leaving(Mutex<HashMap<(ByQueue, usize), Instant>>);

impl Engine {
    /// Gives up the queue positions on these nodes. Each is asked once, in the background: a position that stays expires on
    /// its own. When this returns, the requests are sent.
    pub(crate) fn leave_queues(self: &Arc<Self>, keys: &LockKeys, nodes: NodeSet) {
        if nodes.is_empty() {
            return;
        }
        let mut round = Round::until(&self.cluster, keys, Instant::now() + LEAVE_TIMEOUT);
        for node in nodes.iter() {
            round.send(node, Operation::LeaveQueue);
        }
        let mut silent = nodes;
        while let Some(NodeReply { node, .. }) = round.take() {
            silent.remove(node);
        }
        if !silent.is_empty() {
            let in_flight = silent.iter().map(|node| (node, self.note_leaving(keys, node)));
            let mut in_flight: HashMap<_, _> = in_flight.collect();
            self.spawn(async move {
                while let Some(NodeReply { node, .. }) = round.next_in_time().await {
                    in_flight.remove(&node);
                }
            });
        }
    }

    /// A node called this process, and nobody waits here: gives up the position there, unless a request for that is in flight.
    ///
    /// Until a node has carried it out, it calls again whenever something changes. With 64 processes and 16 permits, three of four
    /// requests to leave a queue were answers to such calls.
    pub(crate) fn leave_queue_that_called(self: &Arc<Self>, keys: &LockKeys, node: usize) {
        if !self.leaving.is_leaving(keys, node) {
            self.leave_queues(keys, [node].into_iter().collect());
        }
    }

    /// A request to leave a queue is in flight, until what is returned is dropped.
    fn note_leaving(self: &Arc<Self>, keys: &LockKeys, node: usize) -> OnDrop<impl Fn() + use<>> {
        let (engine, request) = (Arc::clone(self), (ByQueue(keys.clone()), node));
        engine.leaving.0.lock().insert(request.clone(), Instant::now() + LEAVE_TIMEOUT);
        // A later request to the same node may be in flight still. Then a call is answered by one more.
        OnDrop(move || _ = engine.leaving.0.lock().remove(&request))
    }
}

impl Leaving {
    fn is_leaving(&self, keys: &LockKeys, node: usize) -> bool {
        let until = self.0.lock().get(&(ByQueue(keys.clone()), node)).copied();
        until.is_some_and(|until| Instant::now() < until)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::MemoryNode;
    use crate::engine::release::tests::engine_of;
    use crate::resource::Resource;

    #[tokio::test(start_paused = true)]
    async fn a_queue_is_being_left_until_the_node_has_replied_or_its_time_is_over() {
        let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
        let engine = engine_of(nodes.clone()).await;
        let keys = engine.cluster.keyspace.keys(&Resource::parse("r").unwrap());
        nodes[1].set_delay(LEAVE_TIMEOUT / 2);
        nodes[2].set_delay(2 * LEAVE_TIMEOUT);
        engine.leave_queues(&keys, NodeSet::all(3));
        let leaving = || (0..3).filter(|node| engine.leaving.is_leaving(&keys, *node)).collect::<Vec<_>>();
        assert_eq!(leaving(), [1, 2]);
        sleep(LEAVE_TIMEOUT * 3 / 4).await;
        assert_eq!(leaving(), [2]);
        sleep(LEAVE_TIMEOUT).await;
        assert!(engine.leaving.0.lock().is_empty());

        // As by a task on a runtime that nobody drives any more.
        let _in_flight = engine.note_leaving(&keys, 0);
        assert_eq!(leaving(), [0]);
        sleep(LEAVE_TIMEOUT).await;
        assert_eq!(leaving(), []);
    }
}
