use std::hash::{Hash as _, Hasher as _};

use super::setting::PERMITS;
use super::state::{CLIENTS, ClientId, PermitsPhase, PermitsState};
use crate::state::NODES;
use crate::symmetry::{Mix, order_of};

impl PermitsState {
    /// The representative of states that differ only in the names of slots, clients and nodes. No rule refers to one of them by its
    /// name, so all of them have the same runs.
    #[must_use]
    pub(super) fn representative(mut self) -> Self {
        if let Some(order) = order_of(&std::array::from_fn::<_, PERMITS, _>(|slot| self.key_of_slot(slot))) {
            self.rename_slots(order);
        }
        if let Some(order) = order_of(&std::array::from_fn::<_, CLIENTS, _>(|client| self.key_of_client(client))) {
            self.rename_clients(order);
        }
        if let Some(order) = order_of(&std::array::from_fn::<_, NODES, _>(|node| self.key_of_node(node))) {
            self.rename_nodes(order);
        }
        self
    }

    /// A hash of what is known of a slot, whichever the clients and the nodes are.
    fn key_of_slot(&self, slot: usize) -> u64 {
        let mut hasher = Mix::default();
        (self.granted[slot], self.claimed[slot]).hash(&mut hasher);
        let taken: u8 = self.nodes.iter().map(|node| u8::from(node[slot].key.is_some())).sum();
        let fences: u8 = self.nodes.iter().map(|node| node[slot].fence).sum();
        let busy = |tries| self.clients.iter().filter(|client| client.slot() == Some((slot, tries))).count();
        (taken, fences, busy(true), busy(false)).hash(&mut hasher);
        hasher.finish()
    }

    /// A hash of what a client does, whichever the nodes are.
    fn key_of_client(&self, index: ClientId) -> u64 {
        let mut hasher = Mix::default();
        let client = &self.clients[index];
        (client.left, std::mem::discriminant(&client.phase), client.slot()).hash(&mut hasher);
        match &client.phase {
            PermitsPhase::Trying(attempt) => {
                let unasked = (0..NODES).filter(|node| attempt.unasked.contains(*node)).count();
                (attempt.floor, unasked).hash(&mut hasher);
            }
            PermitsPhase::Holding { token, .. } => token.hash(&mut hasher),
            PermitsPhase::Releasing { nodes, .. } => {
                (0..NODES).filter(|node| nodes.contains(*node)).count().hash(&mut hasher);
            }
            _ => {}
        }
        self.queue.iter().position(|(waiter, _)| *waiter == index).hash(&mut hasher);
        let keys = |slot: usize| self.nodes.iter().filter(|node| node[slot].is_held_by(index)).count();
        std::array::from_fn::<_, PERMITS, _>(keys).hash(&mut hasher);
        self.counted.iter().filter(|counted| counted.contains(&index)).count().hash(&mut hasher);
        hasher.finish()
    }

    /// A hash of everything on a node and about it.
    fn key_of_node(&self, node: usize) -> u64 {
        let mut hasher = Mix::default();
        (&self.nodes[node], &self.counted[node]).hash(&mut hasher);
        for client in &self.clients {
            match &client.phase {
                PermitsPhase::Trying(attempt) => {
                    (attempt.unasked.contains(node), attempt.decider.last_of(node)).hash(&mut hasher);
                }
                PermitsPhase::Releasing { nodes, .. } => nodes.contains(node).hash(&mut hasher),
                _ => {}
            }
        }
        hasher.finish()
    }

    /// Slot `order[i]` becomes slot `i`.
    fn rename_slots(&mut self, order: [usize; PERMITS]) {
        let renamed = |slot: usize| order.iter().position(|old| *old == slot).unwrap_or(slot);
        self.nodes = self.nodes.map(|node| order.map(|slot| node[slot]));
        self.claimed = order.map(|slot| self.claimed[slot]);
        self.granted = order.map(|slot| self.granted[slot]);
        self.queue.iter_mut().for_each(|(_, slot)| *slot = renamed(*slot));
        for client in &mut self.clients {
            match &mut client.phase {
                PermitsPhase::Trying(attempt) => attempt.slot = renamed(attempt.slot),
                PermitsPhase::Holding { slot, .. } | PermitsPhase::Releasing { slot, .. } => *slot = renamed(*slot),
                _ => {}
            }
        }
    }

    fn rename_clients(&mut self, order: [usize; CLIENTS]) {
        let renamed = |client: ClientId| order.iter().position(|old| *old == client).unwrap_or(client);
        let keys = self.nodes.iter_mut().flatten().filter_map(|slot| slot.key.as_mut());
        keys.for_each(|key| key.owner = renamed(key.owner));
        self.queue.iter_mut().for_each(|(waiter, _)| *waiter = renamed(*waiter));
        for counted in &mut self.counted {
            counted.iter_mut().for_each(|client| *client = renamed(*client));
            counted.sort_unstable();
        }
        let mut old = std::mem::take(&mut self.clients);
        self.clients = order.map(|client| std::mem::take(&mut old[client]));
    }

    fn rename_nodes(&mut self, order: [usize; NODES]) {
        self.nodes = order.map(|node| self.nodes[node]);
        let mut old = std::mem::take(&mut self.counted);
        self.counted = order.map(|node| std::mem::take(&mut old[node]));
        for client in &mut self.clients {
            match &mut client.phase {
                PermitsPhase::Trying(attempt) => {
                    attempt.unasked = attempt.unasked.renamed(order);
                    attempt.decider = attempt.decider.renamed(order);
                }
                PermitsPhase::Releasing { nodes, .. } => *nodes = nodes.renamed(order),
                _ => {}
            }
        }
    }
}
