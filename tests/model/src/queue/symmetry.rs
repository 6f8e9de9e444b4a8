use std::hash::{Hash, Hasher};

use super::state::{ProcessPhase, QueueState};
use crate::state::NODES;
use crate::symmetry::{Mix, order_of};

impl QueueState {
    /// The representative of all states that differ only in the names of the nodes.
    pub(super) fn representative(mut self) -> Self {
        let Some(order) = order_of(&std::array::from_fn(|node| self.sort_key(node))) else { return self };
        self.nodes = order.map(|node| self.nodes[node]);
        for process in &mut self.processes {
            process.wakeups_from = process.wakeups_from.renamed(order);
            for sent in &mut process.sent {
                sent.acquires = sent.acquires.renamed(order);
                sent.confirms.iter_mut().for_each(|confirm| confirm.nodes = confirm.nodes.renamed(order));
            }
            if let Some(attempt) = process.attempt() {
                attempt.decider = attempt.decider.renamed(order);
                attempt.granted = attempt.granted.renamed(order);
                attempt.awaited = attempt.awaited.renamed(order);
                attempt.round.1 = attempt.round.1.renamed(order);
            }
        }
        self
    }

    /// A hash of everything on a node and about it. Nodes with equal keys may come in either order.
    fn sort_key(&self, node: usize) -> u64 {
        let mut hasher = Mix::default();
        debug_assert!(node < NODES);
        self.nodes[node].hash(&mut hasher);
        for process in &self.processes {
            process.wakeups_from.contains(node).hash(&mut hasher);
            for sent in &process.sent {
                sent.acquires.contains(node).hash(&mut hasher);
                sent.confirms.map(|confirm| confirm.nodes.contains(node)).hash(&mut hasher);
            }
            if let ProcessPhase::Acquiring(attempt) = &process.phase {
                let awaited = (attempt.awaited.contains(node), attempt.round.1.contains(node));
                (attempt.granted.contains(node), awaited, attempt.decider.last_of(node)).hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}
