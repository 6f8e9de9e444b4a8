//! How a node with a queue executes a request.

use lock_core::quorum::AcquireVote;

use super::line::MAX_LINE;
use super::rules::{Queue, Waiter};
use super::setting::QueueMutant;
use super::state::ATTEMPTS;
use crate::node::HELD;
use crate::state::{Key, Node};

/// A node and its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueueNode {
    /// The node without its queue.
    pub lock: Node,
    /// The waiting processes, and for whom the free key is reserved.
    pub queue: Queue,
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

/// A process as a waiter. They began to wait in the order of their numbers.
fn waiter(process: usize) -> Waiter {
    let id = u8::try_from(process).unwrap_or(u8::MAX);
    Waiter { since: id, reads: false, id, polls: false }
}

impl QueueNode {
    pub(super) fn acquire(&mut self, owner: usize, process: usize, mutant: Option<QueueMutant>) -> AcquireVote {
        let caller = waiter(process);
        if !self.lock.is_held_by(owner) {
            if self.lock.key.is_none()
                && self.queue.reservation().is_none()
                && self.queue.begins_with_another(Some(caller.id))
            {
                self.queue.enter(caller, MAX_LINE, mutant);
                self.offer(caller.id, mutant);
            }
            let is_reserved_for_another = self.queue.reservation().is_some_and(|first| first != caller.id);
            if self.lock.key.is_some() || is_reserved_for_another {
                self.queue.enter(caller, MAX_LINE, mutant);
                return HELD;
            }
            self.queue.acquired(caller.id, mutant);
        }
        self.lock.acquire(key(owner), self.lock.epoch, 1, None).unwrap_or(AcquireVote::NoReply)
    }

    /// Without an `owner`, only the position in the queue is given up.
    pub(super) fn release(
        &mut self,
        owner: Option<usize>,
        process: usize,
        position: QueuePosition,
        mutant: Option<QueueMutant>,
    ) {
        let caller = waiter(process);
        let holder = self.lock.key.map(|key| key.owner);
        match owner {
            _ if mutant == Some(QueueMutant::ReleaseByWaiterId) && holder.map(process_of) == Some(process) => {
                self.lock.key = None;
            }
            Some(owner) => self.lock.release(owner, None),
            None => {}
        }
        match position {
            QueuePosition::Keep => _ = self.queue.enter(caller, MAX_LINE, mutant),
            QueuePosition::Leave if self.queue.is_empty() => return,
            QueuePosition::Leave => self.queue.leave(caller.id),
        }
        if self.lock.key.is_none() && self.queue.reservation().is_none() {
            self.offer(caller.id, mutant);
        }
    }

    fn offer(&mut self, caller: u8, mutant: Option<QueueMutant>) {
        let wakeups = &mut self.wakeups;
        let wake = |id: u8, _before: u8| {
            *wakeups |= 1 << id;
            true
        };
        self.queue.offer(caller, |_, _| true, wake, mutant);
    }
}
