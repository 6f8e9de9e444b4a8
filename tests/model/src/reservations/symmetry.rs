use std::hash::{Hash, Hasher};
use std::mem::take;

use super::node::{ReservationsKey, ReservationsRequest};
use super::setting::ReservationsSetting;
use super::state::{PROCESSES, ReservationsPhase, ReservationsState, to_u8};
use crate::nodes::Nodes;
use crate::queue::Waiter;
use crate::state::NODES;
use crate::symmetry::{Mix, order_of};

impl ReservationsState {
    /// The representative of all states that differ only in the names of the nodes, in how much time passed between the
    /// beginnings of two waits and, if they are symmetric, in the names of the processes.
    pub(super) fn representative(mut self, setting: &ReservationsSetting) -> Self {
        self.rank_times();
        if setting.is_symmetric() {
            self.order_processes(setting);
        }
        if let Some(order) = order_of(&std::array::from_fn::<_, NODES, _>(|node| self.sort_key(node))) {
            self.rename_nodes(order);
        }
        self
    }

    /// All times at which someone began to wait, as far as anyone knows.
    pub(super) fn times(&self) -> Vec<u8> {
        let mut times = Vec::new();
        for process in &self.processes {
            times.extend([process.since, process.began]);
            times.extend(process.requests.iter().flatten().filter_map(time_of));
        }
        times.extend(self.nodes.iter().flat_map(|node| node.queue.iter().map(|waiter| waiter.since)));
        times
    }

    /// Only the order of times matters.
    fn rank_times(&mut self) {
        let mut times = self.times();
        times.push(0);
        times.sort_unstable();
        times.dedup();
        let rank = |time: u8| to_u8(times.partition_point(|other| *other < time));
        for process in &mut self.processes {
            (process.since, process.began) = (rank(process.since), rank(process.began));
            for request in process.requests.iter_mut().flatten() {
                if let ReservationsRequest::Acquire(Some(since)) | ReservationsRequest::Release(Some(since)) = request {
                    *since = rank(*since);
                }
            }
        }
        for node in &mut self.nodes {
            node.queue.waiters = node.queue.waiters.map(|packed| {
                let waiter = Waiter::from_packed(packed);
                Waiter { since: rank(waiter.since), ..waiter }.packed()
            });
        }
    }

    fn order_processes(&mut self, setting: &ReservationsSetting) {
        let key = |index: usize| {
            let process = &self.processes[index];
            let mut hasher = Mix::default();
            (process.frozen, process.is_late, process.passed, std::mem::discriminant(&process.phase)).hash(&mut hasher);
            let at_nodes = self.nodes.iter().enumerate().map(|(at, node)| {
                let mut hasher = Mix::default();
                let owns = (node.key.is_some_and(|key| usize::from(key.owner) == index), node.readers & 1 << index);
                let owns = (owns.0, owns.1 != 0, node.queue.heard & 1 << index != 0);
                let place = (
                    node.queue.place(to_u8(index)),
                    node.queue.reserved.iter().position(|id| usize::from(id) == index),
                );
                (
                    owns,
                    place,
                    &process.requests[at],
                    process.wakeups[at],
                    process.hears.contains(at),
                    process.waking.contains(at),
                )
                    .hash(&mut hasher);
                hasher.finish().rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            });
            (
                (index >= setting.processes, setting.reads(index)),
                process.phase == ReservationsPhase::Dead,
                process.since,
                process.began,
                hasher.finish(),
                at_nodes.fold(0, u64::wrapping_add),
            )
        };
        let Some(order) = order_of(&std::array::from_fn::<_, PROCESSES, _>(key)) else { return };
        let renamed = |id: u8| order.iter().position(|old| *old == usize::from(id)).map_or(id, to_u8);
        let all = |ids: u8| order.iter().enumerate().fold(0, |set, (new, old)| set | (ids >> old & 1) << new);
        for process in &mut self.processes {
            if let ReservationsPhase::Acquiring(attempt) = &mut process.phase {
                attempt.behind = all(attempt.behind);
            }
        }
        let mut old = take(&mut self.processes);
        self.processes = order.map(|index| take(&mut old[index]));
        for node in &mut self.nodes {
            node.key = node.key.map(|key| ReservationsKey { owner: renamed(key.owner), ..key });
            (node.readers, node.queue.heard) = (all(node.readers), all(node.queue.heard));
            node.queue.reserved = node.queue.reserved.map(renamed);
            node.queue.waiters = node.queue.waiters.map(|packed| {
                let waiter = Waiter::from_packed(packed);
                Waiter { id: renamed(waiter.id), ..waiter }.packed()
            });
        }
    }

    /// A hash of everything on a node and about it. Nodes with equal keys may come in either order.
    fn sort_key(&self, node: usize) -> u64 {
        let mut hasher = Mix::default();
        self.nodes[node].hash(&mut hasher);
        for process in &self.processes {
            let sets = [process.hears, process.waking, process.positions, process.placed];
            sets.map(|nodes| nodes.contains(node)).hash(&mut hasher);
            (&process.requests[node], process.wakeups[node]).hash(&mut hasher);
            match process.phase {
                ReservationsPhase::Acquiring(attempt) => {
                    let sets = [attempt.granted, attempt.held, attempt.reserved];
                    (sets.map(|nodes| nodes.contains(node)), attempt.remaining[node]).hash(&mut hasher);
                }
                ReservationsPhase::Waiting { reserved: nodes, .. } | ReservationsPhase::Holding { held: nodes } => {
                    nodes.contains(node).hash(&mut hasher);
                }
                ReservationsPhase::Idle | ReservationsPhase::Dead => {}
            }
        }
        hasher.finish()
    }

    /// Node `order[i]` becomes node `i`.
    fn rename_nodes(&mut self, order: [usize; NODES]) {
        self.nodes = order.map(|node| self.nodes[node]);
        for process in &mut self.processes {
            let rename = |nodes: &mut Nodes| *nodes = nodes.renamed(order);
            [&mut process.hears, &mut process.waking, &mut process.positions, &mut process.placed]
                .into_iter()
                .for_each(rename);
            process.wakeups = order.map(|node| process.wakeups[node]);
            process.requests = order.map(|node| take(&mut process.requests[node]));
            match &mut process.phase {
                ReservationsPhase::Acquiring(attempt) => {
                    [&mut attempt.granted, &mut attempt.held, &mut attempt.reserved].into_iter().for_each(rename);
                    attempt.remaining = order.map(|node| attempt.remaining[node]);
                }
                ReservationsPhase::Waiting { reserved: nodes, .. } | ReservationsPhase::Holding { held: nodes } => {
                    rename(nodes);
                }
                ReservationsPhase::Idle | ReservationsPhase::Dead => {}
            }
        }
    }
}

fn time_of(request: &ReservationsRequest) -> Option<u8> {
    match request {
        ReservationsRequest::Acquire(since) | ReservationsRequest::Release(since) => *since,
        ReservationsRequest::Leave => None,
    }
}
