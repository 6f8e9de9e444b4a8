use std::hash::{Hash, Hasher};

use super::state::{Standing, World};
use crate::state::NODES;
use crate::symmetry::{Mix, order_of};

impl World {
    /// The one of the states that differ in the nodes' names alone that stands for all of them.
    pub(super) fn representative(mut self) -> Self {
        let Some(order) = order_of(&std::array::from_fn(|node| self.sort_key(node))) else { return self };
        self.nodes = order.map(|node| self.nodes[node]);
        for process in &mut self.processes {
            process.heard = process.heard.renamed(order);
            for attempt in &mut process.tries {
                attempt.acquires = attempt.acquires.renamed(order);
                attempt.confirms.iter_mut().for_each(|confirm| confirm.nodes = confirm.nodes.renamed(order));
            }
            if let Some(asking) = process.asking() {
                asking.decider = asking.decider.renamed(order);
                asking.granted = asking.granted.renamed(order);
                asking.open = asking.open.renamed(order);
                asking.round.1 = asking.round.1.renamed(order);
            }
        }
        self
    }

    fn sort_key(&self, node: usize) -> u64 {
        let mut hasher = Mix::default();
        debug_assert!(node < NODES);
        self.nodes[node].hash(&mut hasher);
        for process in &self.processes {
            process.heard.contains(node).hash(&mut hasher);
            for attempt in &process.tries {
                attempt.acquires.contains(node).hash(&mut hasher);
                attempt.confirms.map(|confirm| confirm.nodes.contains(node)).hash(&mut hasher);
            }
            if let Standing::Asking(asking) = &process.standing {
                let waits = (asking.open.contains(node), asking.round.1.contains(node));
                (asking.granted.contains(node), waits, asking.decider.last_of(node)).hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}
