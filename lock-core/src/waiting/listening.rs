use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::turn::Turns;
use crate::cluster::{Cluster, NodeSet, OrderedWatch};
use crate::error::NodeError;
use crate::limits::MAX_PERMITS;
use crate::node::{SlotOffer, Wakeup};
use crate::quorum::majority;

/// The first and the longest pause before listening to a node again; pauses double.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long it may take until a node can wake this process.
const TIMEOUT: Duration = Duration::from_secs(2);
/// After how many failures in a row a node counts as one that cannot wake this process. A connection that broke is soon there again.
const MAX_FAILURES: u32 = 4;

/// Which nodes can wake this process, as far as that is known. Each member of the cluster has its own state; here is what concerns
/// all of them.
pub(super) struct Listening {
    cluster: Arc<Cluster>,
    /// Whom the nodes wake. Weak, because the background work outlives the manager that it works for.
    turns: Weak<Turns>,
    /// Whether a caller has waited. Before that, nobody listens.
    wanted: OrderedWatch<bool>,
    /// Whether a majority could wake this process, once.
    was_woken: AtomicBool,
    /// Whether it was logged that no majority can.
    logged_silent: AtomicBool,
    /// Whether it was logged that the wake-ups of too many nodes do not arrive.
    logged_unheard: AtomicBool,
}

impl Listening {
    pub(super) fn new(cluster: &Arc<Cluster>, turns: &Weak<Turns>) -> Self {
        Self {
            cluster: Arc::clone(cluster),
            turns: Weak::clone(turns),
            wanted: OrderedWatch::new(false),
            was_woken: AtomicBool::default(),
            logged_silent: AtomicBool::default(),
            logged_unheard: AtomicBool::default(),
        }
    }

    /// Makes sure that this process listens.
    pub(super) fn start(&self) {
        self.wanted.replace(true);
    }

    /// Whether it is not known yet if a majority can wake this process. A position would be of no use: a node deletes it when it finds
    /// nobody to wake.
    pub(super) fn is_connecting(&self) -> bool {
        !self.was_woken.load(Ordering::Relaxed) && !self.cluster.no_majority_wakes()
    }

    /// A node can wake this process from now on.
    fn can_wake(&self, node: usize) {
        self.cluster.members[node].set_wakes(true);
        if self.cluster.majority_wakes() {
            self.logged_silent.store(false, Ordering::Relaxed);
            self.was_woken.store(true, Ordering::Relaxed);
        }
    }

    /// A node cannot wake this process any more: the connection ended.
    fn has_ended(&self, node: usize) {
        self.cluster.members[node].set_wakes(false);
        self.wake_waiting();
    }

    /// A node answers, and cannot wake this process. That is logged when it makes this process poll.
    fn cannot_wake(&self, node: usize, error: &NodeError) {
        self.cluster.members[node].set_silent();
        if self.cluster.no_majority_wakes() && !self.logged_silent.swap(true, Ordering::Relaxed) {
            let silent = self.cluster.members.iter().filter(|member| member.is_silent());
            let nodes: Vec<&str> = silent.map(|member| member.node.name()).collect();
            log_event!(warn: "lock.node_does_not_call", ?nodes, %error,
                "nodes cannot wake this process when a lock is free; callers that wait poll it instead");
        }
    }

    /// A wake-up for a lock that is reserved now arrived.
    fn heard(&self, node: usize) {
        let member = &self.cluster.members[node];
        if member.is_heard() {
            return;
        }
        member.heard();
        if self.majority_is_heard() {
            self.logged_unheard.store(false, Ordering::Relaxed);
        }
    }

    /// These nodes offered a lock to this process, and it did not hear of that: it polls until wake-ups of a majority arrive.
    ///
    /// A connection can be up and deliver nothing: a proxy that drops messages, or a node that cannot reach this process with its own.
    /// Only a reservation that passed shows it.
    pub(super) fn not_heard(&self, nodes: NodeSet) {
        nodes.iter().for_each(|node| self.cluster.members[node].not_heard());
        if !nodes.is_empty() && !self.majority_is_heard() && !self.logged_unheard.swap(true, Ordering::Relaxed) {
            let unheard = self.cluster.members.iter().filter(|member| !member.is_heard());
            let nodes: Vec<&str> = unheard.map(|member| member.node.name()).collect();
            log_event!(warn: "lock.node_does_not_call", ?nodes, error = "their wake-ups do not arrive in time",
                "nodes offered a lock that this process waits for, and it did not hear of that; callers that wait poll it instead");
        }
    }

    fn majority_is_heard(&self) -> bool {
        self.cluster.heard_nodes().len() >= majority(self.cluster.size())
    }

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
        loop {
            self.wanted.wait_for(|wanted| *wanted).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockManager, MemoryNode};

    #[tokio::test(start_paused = true)]
    async fn in_an_outage_it_is_not_known_whether_a_majority_can_wake_this_process() {
        let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
        let locks = LockManager::builder().nodes(nodes.clone()).connect().await.unwrap();
        let guard = locks.lock("r").acquire().await.unwrap();
        let cluster = Arc::clone(&guard.lease().engine().unwrap().cluster);
        let listening = Listening::new(&cluster, &Weak::new());
        cluster.members[2].set_silent();
        assert!(listening.is_connecting());
        nodes[0].set_down(true);
        cluster.published_until(|| cluster.problem(0).is_some()).await;
        assert!(!listening.is_connecting(), "one of three may");
        nodes[1].set_down(true);
        cluster.published_until(|| cluster.problem(1).is_some()).await;
        assert!(listening.is_connecting());
    }
}
