use std::fmt;

use super::node::PairingNode;

/// How many slots there are.
pub(super) const SLOTS: usize = 2;
pub(super) const NODES: usize = 3;
/// How many processes wait.
pub(super) const WAITERS: usize = 3;
/// Who has the slots in the beginning: nobody of those that wait.
pub(super) const FIRST_HOLDERS: [u8; SLOTS] = [10, 11];

/// What a node lets a waiter do: take any of the slots that are free, of which one is proposed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Offer {
    pub(super) proposed: u8,
    pub(super) free: [bool; SLOTS],
}

/// A request on its way to a node. Those of one process are executed in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Request {
    /// With whether the attempt that it belongs to is decided.
    Acquire {
        slot: u8,
        is_late: bool,
    },
    /// A release, which keeps the position in the queue if the attempt failed.
    Release {
        slot: u8,
        keeps: bool,
    },
    Leave,
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    Waiting,
    /// With the votes.
    Trying {
        slot: u8,
        votes: [Option<bool>; NODES],
    },
    Holding {
        slot: u8,
    },
    /// It has released its slot.
    Gone,
    Dead,
}

/// A process that waits until it has had a slot once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Waiter {
    pub(super) phase: Phase,
    /// What it knows of each node since its last attempt began.
    pub(super) offers: [Option<Offer>; NODES],
    /// The requests that are on their way to each node.
    pub(super) requests: [Vec<Request>; NODES],
    /// The last wake-up of each node that is on its way. An earlier one does not matter any more.
    pub(super) wakeups: [Option<Offer>; NODES],
}

/// The state of the model of the pairing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PairingState {
    pub(super) nodes: [PairingNode; NODES],
    /// In the order in which they began to wait.
    pub(super) waiters: [Waiter; WAITERS],
    /// Which of the first holders have released.
    pub(super) released: [bool; SLOTS],
    /// The releases of the first holders that are on their way: slots by node.
    pub(super) releases: [[bool; SLOTS]; NODES],
    /// How often all timers have fired since a waiter got a slot, or somebody released one.
    pub(super) rounds: u8,
    /// Whether two held one slot.
    pub(super) shared: bool,
}

impl PairingState {
    /// Whether nothing is on its way, and nobody is about to do anything before its timer fires.
    pub(super) fn is_quiet(&self) -> bool {
        let is_quiet = |waiter: &Waiter| {
            waiter.requests.iter().all(Vec::is_empty)
                && waiter.wakeups.iter().all(Option::is_none)
                && !matches!(waiter.phase, Phase::Trying { .. })
                && waiter.slot_to_try().is_none()
        };
        self.waiters.iter().all(is_quiet) && self.releases.iter().flatten().all(|release| !release)
    }

    /// Whether a slot is free on a majority while somebody lives that waits.
    pub(super) fn has_idle_slot(&self) -> bool {
        let is_free = |slot: usize| self.nodes.iter().filter(|node| node.is_free(slot)).count() > NODES / 2;
        self.waiters.iter().any(|waiter| waiter.phase == Phase::Waiting) && (0..SLOTS).any(is_free)
    }

    /// Whether a slot is free that somebody waits for, and nobody takes it before a timer fires.
    pub(super) fn is_idle(&self) -> bool {
        self.has_idle_slot() && self.is_quiet()
    }

    pub(super) fn somebody_died(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.phase == Phase::Dead)
    }

    /// The state with the nodes in an order of their own: they differ only in their names.
    pub(super) fn representative(&self) -> Self {
        let mut order = [0, 1, 2];
        order.sort_by_cached_key(|node| {
            let of = |waiter: &Waiter| {
                let vote = match waiter.phase {
                    Phase::Trying { votes, .. } => votes[*node],
                    _ => None,
                };
                (vote, waiter.offers[*node], waiter.requests[*node].clone(), waiter.wakeups[*node])
            };
            (self.nodes[*node].clone(), self.releases[*node], self.waiters.each_ref().map(of))
        });
        let mut state = self.clone();
        for (to, from) in order.into_iter().enumerate() {
            state.nodes[to] = self.nodes[from].clone();
            state.releases[to] = self.releases[from];
            for (waiter, before) in state.waiters.iter_mut().zip(&self.waiters) {
                waiter.offers[to] = before.offers[from];
                waiter.requests[to].clone_from(&before.requests[from]);
                waiter.wakeups[to] = before.wakeups[from];
                if let (Phase::Trying { votes, .. }, Phase::Trying { votes: before, .. }) =
                    (&mut waiter.phase, before.phase)
                {
                    votes[to] = before[from];
                }
            }
        }
        state
    }
}

impl Waiter {
    /// The slot that it tries as soon as it can: if a majority lets it take one, the one that most propose of those that a majority has
    /// free.
    pub(super) fn slot_to_try(&self) -> Option<u8> {
        let is_let_in = self.offers.iter().flatten().count() > NODES / 2;
        self.best_slot().filter(|slot| {
            self.phase == Phase::Waiting && is_let_in && self.count(|offer| offer.free[usize::from(*slot)]) > NODES / 2
        })
    }

    /// The slot that is most likely to be granted.
    pub(super) fn best_slot(&self) -> Option<u8> {
        let score = |slot: u8| {
            let free = self.count(|offer| offer.free[usize::from(slot)]);
            (free > NODES / 2, self.count(|offer| offer.proposed == slot), free)
        };
        let slots = (0..SLOTS as u8).filter(|slot| score(*slot).2 > 0);
        slots.max_by_key(|slot| (score(*slot), std::cmp::Reverse(*slot)))
    }

    fn count(&self, condition: impl Fn(&Offer) -> bool) -> usize {
        self.offers.iter().flatten().filter(|offer| condition(offer)).count()
    }
}

impl fmt::Display for PairingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            write!(f, "{node:?}; ")?;
        }
        for waiter in &self.waiters {
            write!(f, "{:?} {:?} {:?} {:?}; ", waiter.phase, waiter.offers, waiter.requests, waiter.wakeups)?;
        }
        write!(f, "on their way {:?}, rounds {}", self.releases, self.rounds)
    }
}
