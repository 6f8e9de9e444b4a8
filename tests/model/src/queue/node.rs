//! How a node with a queue executes a request: the rules of [`lock_core::node::Operation`].

use lock_core::quorum::AcquireVote;

use super::setting::QueueMutant;
use super::state::ATTEMPTS;
use crate::node::HELD;
use crate::state::{Key, Node};

/// A node, its queue and its reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueueNode {
    /// The node without its queue.
    pub lock: Node,
    /// The waiting processes, one bit for each. Lower bits have waited for longer.
    pub queue: u8,
    /// The process for which the free key is reserved.
    pub reservation: Option<usize>,
    /// The processes to which a wake-up was sent, one bit for each. It may arrive at any time.
    pub wakeups: u8,
}

/// What becomes of the position in the queue when a key is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueuePosition {
    /// It is given up.
    Leave,
    /// It is kept or taken.
    Keep,
}

/// The process whose attempt has this owner id.
pub(super) fn process_of(owner: usize) -> usize {
    owner / ATTEMPTS
}

/// A key that exists until an action ends it.
pub(super) fn key(owner: usize) -> Key {
    Key { owner, expires: 1 }
}

impl QueueNode {
    /// Whether there is a queue or a reservation.
    fn has_queue(&self) -> bool {
        self.reservation.is_some() || self.queue != 0
    }

    fn first(&self) -> Option<usize> {
        (self.queue != 0).then(|| self.queue.trailing_zeros() as usize)
    }

    pub(super) fn acquire(&mut self, owner: usize, waiter: usize, mutant: Option<QueueMutant>) -> AcquireVote {
        let held_by_caller = self.lock.is_held_by(owner);
        if !held_by_caller && (self.lock.key.is_some() || self.has_queue()) {
            self.queue |= 1 << waiter;
        }
        let kept_for_another = match self.reservation {
            Some(reserved_for) => reserved_for != waiter,
            None => self.queue != 0 && self.first() != Some(waiter),
        };
        if !held_by_caller && self.lock.key.is_none() && kept_for_another {
            if self.reservation.is_none() {
                self.offer(mutant);
            }
            return HELD;
        }
        let vote = self.lock.acquire(key(owner), self.lock.epoch, 1).unwrap_or(AcquireVote::NoReply);
        if !held_by_caller && vote != HELD {
            self.reservation = None;
            self.queue &= !(1 << waiter);
        }
        vote
    }

    /// Without an `owner`, only the position in the queue is given up.
    pub(super) fn release(
        &mut self,
        owner: Option<usize>,
        waiter: usize,
        position: QueuePosition,
        mutant: Option<QueueMutant>,
    ) {
        let holder = self.lock.key.map(|key| key.owner);
        match owner {
            _ if mutant == Some(QueueMutant::ReleaseByWaiterId) && holder.map(process_of) == Some(waiter) => {
                self.lock.key = None;
            }
            Some(owner) => self.lock.release(owner, None),
            None => {}
        }
        if !self.has_queue() && position == QueuePosition::Leave {
            return;
        }
        match position {
            QueuePosition::Keep => self.queue |= 1 << waiter,
            QueuePosition::Leave => {
                self.queue &= !(1 << waiter);
                self.reservation = self.reservation.filter(|reservation| *reservation != waiter);
            }
        }
        if self.lock.key.is_none() && self.reservation.is_none() {
            self.offer(mutant);
        }
    }

    fn offer(&mut self, mutant: Option<QueueMutant>) {
        let Some(first) = self.first() else { return };
        self.reservation = Some(first);
        self.wakeups |= 1 << first;
        if mutant != Some(QueueMutant::OfferKeepsPosition) {
            self.queue &= !(1 << first);
        }
    }

    pub(super) fn lapse(&mut self, mutant: Option<QueueMutant>) {
        if mutant != Some(QueueMutant::ReservationNeverLapses) {
            self.reservation = None;
        }
    }
}
