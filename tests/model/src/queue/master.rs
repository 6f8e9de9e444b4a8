//! A node with a queue: the rules that are told at [`lock_core::Request`].

use lock_core::quorum::AcquireVote;

use super::setting::QueueRules;
use super::state::TRIES;
use crate::node::HELD;
use crate::setting::Rules;
use crate::state::{Key, Node};

/// A node, its queue and whose turn it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Master {
    /// What it is without a queue.
    pub lock: Node,
    /// Who waits, one bit a process: who waits longer has the smaller number.
    pub queue: u8,
    /// For whom the free key is kept.
    pub turn: Option<usize>,
    /// Who was called, one bit a process. The calls are on their way for good.
    pub called: u8,
}

/// What becomes of a place in the queue when a key is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It is given up.
    Leave,
    /// It is kept, or taken.
    Keep,
}

/// The process of an attempt.
pub(super) fn process_of(owner: usize) -> usize {
    owner / TRIES
}

/// A key that is there until something ends it.
pub(super) fn key(owner: usize) -> Key {
    Key { owner, expires: 1 }
}

impl Master {
    /// Whether there is a queue or a turn.
    fn is_waited_for(&self) -> bool {
        self.turn.is_some() || self.queue != 0
    }

    fn first(&self) -> Option<usize> {
        (self.queue != 0).then(|| self.queue.trailing_zeros() as usize)
    }

    pub(super) fn acquire(&mut self, owner: usize, waiter: usize, rules: QueueRules) -> AcquireVote {
        let ours = self.lock.is_held_by(owner);
        if !ours && (self.lock.key.is_some() || self.is_waited_for()) {
            self.queue |= 1 << waiter;
        }
        let kept = self.turn.map_or(self.first() != Some(waiter) && self.queue != 0, |turn| turn != waiter);
        if !ours && self.lock.key.is_none() && kept {
            if self.turn.is_none() {
                self.offer(rules);
            }
            return HELD;
        }
        let vote = self.lock.acquire(key(owner), self.lock.epoch, 0, 1).unwrap_or(AcquireVote::NoReply);
        if !ours && vote != HELD {
            self.turn = None;
            self.queue &= !(1 << waiter);
        }
        vote
    }

    /// `owner` is none for the release that only gives up a place.
    pub(super) fn release(&mut self, owner: Option<usize>, waiter: usize, place: Place, rules: QueueRules) {
        let holder = self.lock.key.map(|key| key.owner);
        match owner {
            _ if rules == QueueRules::ReleaseByWaiter && holder.map(process_of) == Some(waiter) => self.lock.key = None,
            Some(owner) => self.lock.release(owner, Rules::Shipped),
            None => {}
        }
        if !self.is_waited_for() && place == Place::Leave {
            return;
        }
        match place {
            Place::Keep => self.queue |= 1 << waiter,
            Place::Leave => {
                self.queue &= !(1 << waiter);
                self.turn = self.turn.filter(|turn| *turn != waiter);
            }
        }
        if self.lock.key.is_none() && self.turn.is_none() {
            self.offer(rules);
        }
    }

    fn offer(&mut self, rules: QueueRules) {
        let Some(first) = self.first() else { return };
        self.turn = Some(first);
        self.called |= 1 << first;
        if rules != QueueRules::OfferKeepsPlace {
            self.queue &= !(1 << first);
        }
    }

    pub(super) fn lapse(&mut self, rules: QueueRules) {
        if rules != QueueRules::TurnWithoutEnd {
            self.turn = None;
        }
    }
}
