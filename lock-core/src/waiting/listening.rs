use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::turn::Turns;
use crate::cluster::{Cluster, NodeSet, OrderedWatch};
use crate::error::NodeError;
use crate::quorum::majority;

/// Which nodes can wake this process, as far as that is known. Each member of the cluster has its own state; here is what concerns
/// all of them.
pub(super) struct Listening {
    pub(super) cluster: Arc<Cluster>,
    /// Whom the nodes wake. Weak, because the background work outlives the manager that it works for.
    pub(super) turns: Weak<Turns>,
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

    /// Resolves when this process is to listen.
    pub(super) async fn started(&self) {
        self.wanted.wait_for(|wanted| *wanted).await;
    }

    /// Whether it is not known yet if a majority can wake this process. A position would be of no use: a node deletes it when it finds
    /// nobody to wake.
    pub(super) fn is_connecting(&self) -> bool {
        !self.was_woken.load(Ordering::Relaxed) && !self.cluster.no_majority_wakes()
    }

    /// A node can wake this process from now on.
    pub(super) fn can_wake(&self, node: usize) {
        self.cluster.members[node].set_wakes(true);
        if self.cluster.majority_wakes() {
            self.logged_silent.store(false, Ordering::Relaxed);
            self.was_woken.store(true, Ordering::Relaxed);
        }
    }

    /// A node cannot wake this process any more: the connection ended.
    pub(super) fn has_ended(&self, node: usize) {
        self.cluster.members[node].set_wakes(false);
    }

    /// A node answers, and cannot wake this process. That is logged when it makes this process poll.
    pub(super) fn cannot_wake(&self, node: usize, error: &NodeError) {
        self.cluster.members[node].set_silent();
        if self.cluster.no_majority_wakes() && !self.logged_silent.swap(true, Ordering::Relaxed) {
            let silent = self.cluster.members.iter().filter(|member| member.is_silent());
            let nodes: Vec<&str> = silent.map(|member| member.node.name()).collect();
            log_event!(warn: "lock.node_does_not_call", ?nodes, %error,
                "nodes cannot wake this process when a lock is free; callers that wait poll it instead");
        }
    }

    /// A wake-up for a lock that is reserved now arrived.
    pub(super) fn heard(&self, node: usize) {
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
