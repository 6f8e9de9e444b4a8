use super::node::PairingNode;
use super::state::{FIRST_HOLDERS, NODES, Offer, PairingState, Phase, Request, SLOTS, WAITERS, Waiter};

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairingAction {
    /// A first holder sends its release to all nodes, which is then executed on each.
    End {
        slot: usize,
    },
    Released {
        slot: usize,
        node: usize,
    },
    /// A waiter tries the slot that a majority lets it take.
    Try {
        waiter: usize,
    },
    /// A node executes the next request of a waiter, which has the reply at once.
    Execute {
        waiter: usize,
        node: usize,
    },
    /// A wake-up arrives.
    Wake {
        waiter: usize,
        node: usize,
    },
    /// A waiter that has a slot releases it.
    Release {
        waiter: usize,
    },
    Die {
        waiter: usize,
    },
    /// All timers fire: those whose time at a node is over are passed, and the others try again. Those that know of no slot try these.
    Timers {
        slots: [u8; WAITERS],
    },
}

impl PairingState {
    /// The first holders have both slots on all nodes, but for those that are `missing`: pairs of node and slot; and everybody waits.
    pub(super) fn begin(missing: &[(usize, usize)], stuck: &[(usize, usize)], keeps: bool) -> Self {
        let node = |node: usize| {
            let has = |slot: usize| !missing.contains(&(node, slot));
            let holder = |slot: usize| if stuck.contains(&(node, slot)) { 20 } else { FIRST_HOLDERS[slot] };
            PairingNode::new(std::array::from_fn(|slot| has(slot).then(|| holder(slot))), keeps)
        };
        let waiter = || Waiter {
            phase: Phase::Waiting,
            offers: [None; NODES],
            requests: Default::default(),
            wakeups: [None; NODES],
        };
        let mut state = Self {
            nodes: std::array::from_fn(node),
            waiters: [waiter(), waiter(), waiter()],
            released: [false; SLOTS],
            releases: [[false; SLOTS]; NODES],
            rounds: 0,
            shared: false,
        };
        (0..NODES).for_each(|node| state.at_node(node, |node, tell| node.pair(None, tell)));
        state
    }

    /// What may happen next.
    pub(super) fn steps(&self, dies: bool, steps: &mut Vec<PairingAction>) {
        for slot in 0..SLOTS {
            if !self.released[slot] {
                steps.push(PairingAction::End { slot });
            }
            let on_its_way = (0..NODES).filter(|node| self.releases[*node][slot]);
            steps.extend(on_its_way.map(|node| PairingAction::Released { slot, node }));
        }
        for (waiter, of) in self.waiters.iter().enumerate() {
            for node in 0..NODES {
                if !of.requests[node].is_empty() {
                    steps.push(PairingAction::Execute { waiter, node });
                }
                if of.wakeups[node].is_some() {
                    steps.push(PairingAction::Wake { waiter, node });
                }
            }
            if of.slot_to_try().is_some() && of.requests.iter().all(Vec::is_empty) {
                steps.push(PairingAction::Try { waiter });
            }
            if dies && !self.somebody_died() && matches!(of.phase, Phase::Waiting | Phase::Trying { .. }) {
                steps.push(PairingAction::Die { waiter });
            }
        }
        if self.rounds < MAX_ROUNDS && self.is_idle() {
            let slots = (0..1 << WAITERS).map(|choice| std::array::from_fn(|waiter| choice >> waiter & 1));
            steps.extend(slots.map(|slots| PairingAction::Timers { slots }));
        }
    }

    pub(super) fn after(&self, step: PairingAction) -> Self {
        let mut state = self.clone();
        match step {
            PairingAction::End { slot } => {
                (state.released[slot], state.rounds) = (true, 0);
                state.releases.iter_mut().for_each(|release| release[slot] = true);
            }
            PairingAction::Released { slot, node } => {
                state.releases[node][slot] = false;
                state.at_node(node, |node, tell| node.release(slot as u8, FIRST_HOLDERS[slot], false, tell));
            }
            PairingAction::Try { waiter } => {
                if let Some(slot) = state.waiters[waiter].slot_to_try() {
                    state.begin_attempt(waiter, slot);
                }
            }
            PairingAction::Execute { waiter, node } => state.execute(waiter, node),
            PairingAction::Wake { waiter, node } => {
                let of = &mut state.waiters[waiter];
                of.offers[node] = of.wakeups[node].take();
                if matches!(of.phase, Phase::Holding { .. } | Phase::Gone) {
                    // Nobody of the process waits.
                    of.offers[node] = None;
                    of.requests[node].push(Request::Leave);
                }
            }
            PairingAction::Release { waiter } => {
                if let Phase::Holding { slot } = state.waiters[waiter].phase {
                    (state.waiters[waiter].phase, state.rounds) = (Phase::Gone, 0);
                    let release = Request::Release { slot, keeps: false };
                    state.waiters[waiter].requests.iter_mut().for_each(|requests| requests.push(release));
                }
            }
            PairingAction::Die { waiter } => {
                let of = &mut state.waiters[waiter];
                (of.phase, of.offers, of.wakeups) = (Phase::Dead, [None; NODES], [None; NODES]);
                of.requests.iter_mut().flatten().for_each(late);
            }
            PairingAction::Timers { slots } => {
                state.rounds += 1;
                let phases = state.waiters.each_ref().map(|waiter| waiter.phase);
                for node in 0..NODES {
                    state.at_node(node, |node, tell| node.pass(|waiter| phases[waiter] == Phase::Dead, tell));
                }
                for (waiter, fallback) in slots.into_iter().enumerate() {
                    if state.waiters[waiter].phase == Phase::Waiting {
                        let slot = state.waiters[waiter].best_slot().unwrap_or(fallback);
                        state.begin_attempt(waiter, slot);
                    }
                }
            }
        }
        state
    }

    fn begin_attempt(&mut self, waiter: usize, slot: u8) {
        let of = &mut self.waiters[waiter];
        (of.phase, of.offers) = (Phase::Trying { slot, votes: [None; NODES] }, [None; NODES]);
        let acquire = Request::Acquire { slot, is_late: false };
        of.requests.iter_mut().for_each(|requests| requests.push(acquire));
    }

    /// A node executes the next request of a waiter.
    fn execute(&mut self, waiter: usize, node: usize) {
        match self.waiters[waiter].requests[node].remove(0) {
            Request::Leave => self.at_node(node, |node, tell| node.leave(waiter, tell)),
            Request::Release { slot, keeps } => {
                let keeps = keeps && self.waiters[waiter].phase != Phase::Dead;
                self.at_node(node, |node, tell| node.release(slot, waiter as u8, keeps, tell));
            }
            Request::Acquire { slot, is_late } => {
                let is_granted = self.at_node(node, |node, tell| node.acquire(slot, waiter, tell));
                let offer = self.nodes[node].told[waiter];
                let of = &mut self.waiters[waiter];
                if is_late {
                    if !is_granted && matches!(of.phase, Phase::Holding { .. } | Phase::Gone) {
                        of.requests[node].push(Request::Leave);
                    }
                    return;
                }
                if !is_granted {
                    (of.offers[node], of.wakeups[node]) = (offer, None);
                }
                let Phase::Trying { votes, .. } = &mut of.phase else { return };
                votes[node] = Some(is_granted);
                let votes = *votes;
                self.decide(waiter, slot, votes);
            }
        }
    }

    fn decide(&mut self, waiter: usize, slot: u8, votes: [Option<bool>; NODES]) {
        let count = |vote: bool| votes.iter().filter(|of| **of == Some(vote)).count();
        let (is_won, is_lost) = (count(true) > NODES / 2, count(false) > NODES / 2);
        if !is_won && !is_lost {
            return;
        }
        self.shared |= is_won && self.waiters.iter().any(|other| other.phase == Phase::Holding { slot });
        let of = &mut self.waiters[waiter];
        of.phase = if is_won { Phase::Holding { slot } } else { Phase::Waiting };
        for (requests, vote) in of.requests.iter_mut().zip(votes) {
            requests.iter_mut().for_each(late);
            match vote {
                Some(false) if is_won => requests.push(Request::Leave),
                Some(true) | None if is_lost => requests.push(Request::Release { slot, keeps: true }),
                _ => {}
            }
        }
        if is_won {
            self.rounds = 0;
            of.offers = [None; NODES];
        }
    }

    /// Does something on a node that may tell waiters what they may take.
    fn at_node<T>(
        &mut self,
        node: usize,
        work: impl FnOnce(&mut PairingNode, &mut dyn FnMut(usize, Offer) -> bool) -> T,
    ) -> T {
        let waiters = &mut self.waiters;
        work(&mut self.nodes[node], &mut |waiter, offer| {
            let of: &mut Waiter = &mut waiters[waiter];
            let lives = of.phase != Phase::Dead;
            of.wakeups[node] = lives.then_some(offer);
            lives
        })
    }
}

/// How often all timers may fire until a slot that is free is taken.
pub(super) const MAX_ROUNDS: u8 = 2;

fn late(request: &mut Request) {
    if let Request::Acquire { is_late, .. } = request {
        *is_late = true;
    }
}
