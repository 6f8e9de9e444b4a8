use std::hash::{Hash, Hasher};

use lock_core::quorum::HoldingVote;

use super::state::{CLIENTS, Client, NODES, Phase, State};

impl State {
    /// The representative of all states that differ only in the names of the nodes. No rule refers to a node by its name, so all of
    /// them have the same runs.
    #[must_use]
    pub(super) fn with_nodes_in_order(self) -> Self {
        match order_of(&std::array::from_fn::<_, NODES, _>(|node| self.sort_key(node))) {
            Some(order) => self.renamed(order),
            None => self,
        }
    }

    /// The representative of all states that differ only in the names of attempts that are alike: those with the same first one.
    #[must_use]
    pub(super) fn with_attempts_in_order(mut self, first_alike: impl Fn(usize) -> usize) -> Self {
        let is_idle = |client: usize| self.clients[client].phase == Phase::Idle;
        let key = |client: usize| (first_alike(client), is_idle(client), self.sort_key_of_attempt(client));
        if let Some(order) = order_of(&std::array::from_fn::<_, CLIENTS, _>(key)) {
            for node in &mut self.nodes {
                if let Some(key) = &mut node.key {
                    key.owner = order.iter().position(|old| *old == key.owner).unwrap_or(key.owner);
                }
                node.readers = order.map(|client| node.readers[client]);
                node.barred = node.barred.renamed(order);
            }
            self.eviction = self.eviction.map(|eviction| Box::new(eviction.with_owners_renamed(order)));
            let mut old = std::mem::take(&mut self.clients);
            self.clients = order.map(|client| std::mem::take(&mut old[client]));
        }
        self
    }

    /// A hash of everything about an attempt that does not depend on the nodes' names. Attempts with equal keys may come in
    /// either order.
    fn sort_key_of_attempt(&self, index: usize) -> u64 {
        let client = &self.clients[index];
        let mut of_all = 0_u64;
        for (node, state) in self.nodes.iter().enumerate() {
            let mut hasher = Mix::default();
            (state.fence, state.epoch, state.is_held_by(index), state.readers[index]).hash(&mut hasher);
            let eviction = self.eviction.as_ref();
            let seen =
                eviction.map(|of| (of.looks[node] == HoldingVote::Held(index), of.readers[node].contains(index)));
            (state.bars(index), seen, eviction.map(|of| of.votes[node])).hash(&mut hasher);
            state.key.map(|key| key.expires).hash(&mut hasher);
            client.hash_at(node, &mut hasher);
            of_all = of_all.wrapping_add(hasher.finish().rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        let mut hasher = Mix(of_all);
        self.is_evicted(index).hash(&mut hasher);
        (client.token, client.renewals, client.downgraded, std::mem::discriminant(&client.phase)).hash(&mut hasher);
        client.confirms.map(|proposal| proposal.token).hash(&mut hasher);
        match &client.phase {
            Phase::Acquiring(attempt) => (attempt.floor, attempt.began).hash(&mut hasher),
            Phase::Holding { until, .. } => until.hash(&mut hasher),
            Phase::Idle | Phase::Ended => {}
        }
        hasher.finish()
    }

    /// A hash of everything on a node and about it. Nodes with equal keys may come in either order.
    fn sort_key(&self, node: usize) -> (u8, u64) {
        let mut hasher = Mix::default();
        let state = &self.nodes[node];
        state.hash(&mut hasher);
        self.clients.iter().for_each(|client| client.hash_at(node, &mut hasher));
        let eviction = self.eviction.as_ref();
        eviction.map(|of| (of.looks[node], of.readers[node], of.votes[node])).hash(&mut hasher);
        (state.fence, hasher.finish())
    }

    fn renamed(mut self, order: [usize; NODES]) -> Self {
        self.nodes = order.map(|node| self.nodes[node]);
        self.clients.iter_mut().for_each(|client| client.rename(order));
        self.eviction = self.eviction.map(|eviction| Box::new(eviction.renamed(order)));
        self
    }
}

impl Client {
    fn hash_at(&self, node: usize, hasher: &mut Mix) {
        (self.acquires[node], self.replaces[node], self.extends.contains(node)).hash(hasher);
        self.downgrades.contains(node).hash(hasher);
        self.confirms.map(|proposal| proposal.nodes.contains(node)).hash(hasher);
        self.replies().map(|replies| replies[node]).hash(hasher);
        match &self.phase {
            Phase::Acquiring(attempt) => (attempt.granted.contains(node), attempt.decider.last_of(node)).hash(hasher),
            Phase::Holding { renewal: Some(renewal), .. } => {
                (renewal.epochs[node], renewal.kept.contains(node), renewal.decider.last_of(node)).hash(hasher);
            }
            _ => {}
        }
    }

    fn rename(&mut self, order: [usize; NODES]) {
        self.acquires = order.map(|node| self.acquires[node]);
        self.replaces = order.map(|node| self.replaces[node]);
        self.extends = self.extends.renamed(order);
        self.downgrades = self.downgrades.renamed(order);
        for proposal in &mut self.confirms {
            proposal.nodes = proposal.nodes.renamed(order);
        }
        match &mut self.phase {
            Phase::Acquiring(attempt) => {
                attempt.replies = order.map(|node| attempt.replies[node]);
                attempt.granted = attempt.granted.renamed(order);
                attempt.decider = attempt.decider.renamed(order);
            }
            Phase::Holding { renewal: Some(renewal), .. } => {
                renewal.replies = order.map(|node| renewal.replies[node]);
                renewal.epochs = order.map(|node| renewal.epochs[node]);
                renewal.kept = renewal.kept.renamed(order);
                renewal.decider = renewal.decider.renamed(order);
            }
            _ => {}
        }
    }
}

/// The indices of the keys in sorted order, or `None` if the keys are sorted.
pub(super) fn order_of<K: Ord, const N: usize>(keys: &[K; N]) -> Option<[usize; N]> {
    let mut order: [usize; N] = std::array::from_fn(|at| at);
    order.sort_by(|one, other| keys[*one].cmp(&keys[*other]));
    (!order.is_sorted()).then_some(order)
}

/// A fast hasher for sorting. A collision costs an additional state, but hides none.
#[derive(Default)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
