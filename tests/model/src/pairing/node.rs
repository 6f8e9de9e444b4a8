use super::state::{Offer, SLOTS, WAITERS};

/// What a node has of the slots, and of those that wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PairingNode {
    pub(super) holders: [Option<u8>; SLOTS],
    /// Who waits, in the order in which they began.
    pub(super) queue: [bool; WAITERS],
    /// What it told each of them, if it may take a slot.
    pub(super) told: [Option<Offer>; WAITERS],
    /// Of the former rule: for whom each slot is kept.
    kept: [Option<u8>; SLOTS],
    /// Whether it follows the former rule: a free slot is kept for one waiter, in the order in which the slots were released.
    keeps: bool,
}

/// Tells a waiter something: `false` if its process has ended.
type Tell<'a> = &'a mut dyn FnMut(usize, Offer) -> bool;

impl PairingNode {
    pub(super) fn new(holders: [Option<u8>; SLOTS], keeps: bool) -> Self {
        Self { holders, queue: [true; WAITERS], told: [None; WAITERS], kept: [None; SLOTS], keeps }
    }

    pub(super) fn is_free(&self, slot: usize) -> bool {
        self.holders[slot].is_none()
    }

    /// Executes an acquire: whether it is granted.
    pub(super) fn acquire(&mut self, slot: u8, waiter: usize, tell: Tell<'_>) -> bool {
        let at = usize::from(slot);
        let nobody_else_waits = (0..WAITERS).all(|other| other == waiter || !self.queue[other]);
        if !self.is_free(at) || !nobody_else_waits {
            self.queue[waiter] = true;
            self.pair(Some(waiter), tell);
            let is_let_in = if self.keeps { self.kept[at] == Some(waiter as u8) } else { self.told[waiter].is_some() };
            if !self.is_free(at) || !is_let_in {
                return false;
            }
        }
        self.holders[at] = Some(waiter as u8);
        self.leave(waiter, tell);
        true
    }

    /// Executes a release. With `keeps`, the waiter keeps its position, and is told again what it may take.
    pub(super) fn release(&mut self, slot: u8, owner: u8, keeps: bool, tell: Tell<'_>) {
        let (at, waiter) = (usize::from(slot), usize::from(owner));
        if self.holders[at] == Some(owner) {
            self.holders[at] = None;
        }
        if waiter < WAITERS {
            self.queue[waiter] = keeps;
            self.told[waiter] = None;
        }
        self.pair(None, tell);
    }

    /// A waiter gives its position up.
    pub(super) fn leave(&mut self, waiter: usize, tell: Tell<'_>) {
        self.remove(waiter);
        self.pair(None, tell);
    }

    /// The time of those is over that do not come: `is_dead` ones that were told; by the former rule, of all for whom a slot is kept.
    pub(super) fn pass(&mut self, is_dead: impl Fn(usize) -> bool, tell: Tell<'_>) {
        for waiter in 0..WAITERS {
            let is_over = if self.keeps { self.kept.contains(&Some(waiter as u8)) } else { is_dead(waiter) };
            if is_over && self.told[waiter].is_some() {
                self.remove(waiter);
            }
        }
        self.pair(None, tell);
    }

    fn remove(&mut self, waiter: usize) {
        (self.queue[waiter], self.told[waiter]) = (false, None);
    }

    /// Lets the first waiters in, as many as there are free slots, and proposes another slot to each.
    pub(super) fn pair(&mut self, caller: Option<usize>, tell: Tell<'_>) {
        if self.keeps {
            return self.keep(caller, tell);
        }
        let free = self.holders.map(|holder| holder.is_none());
        let mut left: Vec<u8> = (0..SLOTS as u8).filter(|slot| free[usize::from(*slot)]).collect();
        for waiter in 0..WAITERS {
            let offer = left.first().filter(|_| self.queue[waiter]).map(|proposed| Offer { proposed: *proposed, free });
            if let Some(offer) = offer {
                if caller != Some(waiter) && self.told[waiter] != Some(offer) && !tell(waiter, offer) {
                    self.remove(waiter);
                    continue;
                }
                left.remove(0);
            }
            self.told[waiter] = offer;
        }
    }

    /// The former rule.
    fn keep(&mut self, caller: Option<usize>, tell: Tell<'_>) {
        for slot in 0..SLOTS {
            self.kept[slot] = self.kept[slot].filter(|of| self.queue[usize::from(*of)] && self.is_free(slot));
        }
        for slot in 0..SLOTS {
            while self.is_free(slot) && self.kept[slot].is_none() {
                let has_none = |waiter: &usize| self.queue[*waiter] && !self.kept.contains(&Some(*waiter as u8));
                let Some(waiter) = (0..WAITERS).find(has_none) else { break };
                let offer = Offer { proposed: slot as u8, free: std::array::from_fn(|other| other == slot) };
                self.told[waiter] = Some(offer);
                if caller != Some(waiter) && !tell(waiter, offer) {
                    self.remove(waiter);
                    continue;
                }
                self.kept[slot] = Some(waiter as u8);
            }
        }
        for waiter in 0..WAITERS {
            if !self.kept.contains(&Some(waiter as u8)) {
                self.told[waiter] = None;
            }
        }
    }
}
