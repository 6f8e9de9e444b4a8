use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::listening::Listening;
use crate::error::NodeError;
use crate::limits::MAX_PERMITS;
use crate::node::{SlotOffer, Wakeup};

/// The first and the longest pause before listening to a node again; pauses double.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long it may take until a node can wake this process.
const TIMEOUT: Duration = Duration::from_secs(2);
/// After how many failures in a row a node counts as one that cannot wake this process. A connection that broke is soon there again.
const MAX_FAILURES: u32 = 4;

impl Listening {
    /// Listens to the nodes, and passes each wake-up to the local queue of its lock. It begins when a caller first waits.
    pub(super) async fn listen(self: Arc<Self>) {
        join_all((0..self.cluster.size()).map(|node| self.listen_to(node))).await;
    }

    async fn listen_to(&self, node: usize) {
        let cluster = &self.cluster;
        let member = &cluster.members[node];
        let (mut failures, mut pause) = (0, BACKOFF.0);
        // The work may have moved here from another runtime, with the connection.
        self.has_ended(node);
        self.wake_waiting();
        loop {
            self.started().await;
            cluster.wait_until_reachable(node).await;
            let listening = member.node.wakeups(&cluster.keyspace, cluster.waiter);
            match timeout(TIMEOUT, listening).await.unwrap_or(Err(NodeError::TimedOut)) {
                Ok(mut wakeups) => {
                    (failures, pause) = (0, BACKOFF.0);
                    self.can_wake(node);
                    self.wake_waiting();
                    while let Some(wakeup) = wakeups.next().await {
                        self.receive(node, wakeup);
                    }
                    self.has_ended(node);
                    self.wake_waiting();
                }
                Err(error) => {
                    failures += 1;
                    let is_final = matches!(error, NodeError::Refused(_) | NodeError::TimedOut);
                    if failures >= MAX_FAILURES || is_final {
                        self.cannot_wake(node, &error);
                        self.wake_waiting();
                    }
                }
            }
            sleep(cluster.random.jitter(pause)).await;
            pause = (pause * 2).min(BACKOFF.1);
        }
    }

    /// Passes a wake-up on. A lock that nobody waits for is left to other processes at once: until its reservation passes, nobody
    /// else can have it from this node.
    fn receive(&self, node: usize, Wakeup { lock_key, before, mut free }: Wakeup) {
        let Some(turns) = self.turns.upgrade() else { return };
        if before == 0 {
            self.heard(node);
        }
        let keys = self.cluster.keyspace.keys_of(&lock_key);
        // A node is not trusted to name a slot that there may be.
        if keys.slot().is_some_and(|slot| slot >= MAX_PERMITS) {
            return;
        }
        let offer = keys.slot().map(|proposed| {
            free.insert(proposed);
            SlotOffer { proposed, free }
        });
        match turns.queues.get(keys.queue()) {
            Some(queue) => queue.wakeups.add(node, before, offer),
            None => turns.engine.leave_queue_that_called(&keys, node),
        }
    }

    /// Those that wait may have to enter the queues, or enter them again.
    fn wake_waiting(&self) {
        let Some(turns) = self.turns.upgrade() else { return };
        let mut waiting = turns.queues.all();
        // In the same order in every run, so that a simulation replays.
        waiting.sort_by(|(one, _), (other, _)| one.queue().cmp(other.queue()));
        waiting.iter().for_each(|(_, queue)| queue.wakeups.changed.notify_waiters());
    }
}
