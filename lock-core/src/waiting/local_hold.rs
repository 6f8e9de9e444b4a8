use std::sync::Arc;

use super::handover::may_hand_over;
use super::local_queue::LocalQueue;
use super::turn::{Handover, Turn, Turns};
use crate::engine::Grant;
use crate::node::{LockKeys, QueuePosition};

/// What the holder of a lock has in its manager, and passes on when it releases.
pub(crate) enum LocalHold {
    /// The turn: nobody else of this manager may have the lock, so none of them asks the nodes.
    Turn(Turn),
    /// A slot. The turn was passed on when it was taken: others of this manager may have other slots.
    Slot(LocalSlot),
}

impl Turns {
    /// What a caller has that took a slot, or was handed one; nothing for a lock without slots.
    pub(crate) fn hold_slot(self: &Arc<Self>, keys: &LockKeys) -> Option<LocalHold> {
        keys.slot().map(|_| LocalHold::Slot(LocalSlot::new(self, keys)))
    }
}

impl LocalHold {
    /// Hands the lock over to the next waiter if that one can use it as it is.
    ///
    /// # Errors
    ///
    /// Returns both if there is no such waiter.
    #[expect(clippy::result_large_err, reason = "not an error to propagate: the caller goes on with both")]
    pub(crate) fn hand_over(self, grant: Grant) -> Result<(), (Self, Grant)> {
        match self {
            Self::Turn(turn) => turn.hand_over(grant).map_err(|(turn, grant)| (Self::Turn(turn), grant)),
            Self::Slot(slot) => slot.hand_over(grant).map_err(|(slot, grant)| (Self::Slot(slot), grant)),
        }
    }

    /// What becomes of the position in the nodes' queues when the lock is released: the one that the holder of a slot had is
    /// another caller's by then.
    pub(crate) fn position(&self) -> QueuePosition {
        match self {
            Self::Turn(_) => QueuePosition::Leave,
            Self::Slot(_) => QueuePosition::None,
        }
    }

    /// Gives up the positions in the nodes' queues.
    pub(crate) fn leave_queues(&mut self) {
        match self {
            Self::Turn(turn) => turn.leave_queues(),
            Self::Slot(_) => {}
        }
    }
}

/// A slot that a caller of this manager holds. Dropped, it is the first that the next caller tries.
pub(crate) struct LocalSlot {
    turns: Arc<Turns>,
    keys: LockKeys,
    /// Whether the next holder has one of its own.
    was_handed_over: bool,
}

impl LocalSlot {
    pub(super) fn new(turns: &Arc<Turns>, keys: &LockKeys) -> Self {
        Self { turns: Arc::clone(turns), keys: keys.clone(), was_handed_over: false }
    }

    /// Hands the slot over to the first caller that waits: the one at the front, unless it makes an attempt just now.
    #[expect(clippy::result_large_err, reason = "as above")]
    fn hand_over(mut self, grant: Grant) -> Result<(), (Self, Grant)> {
        let mut grant = grant;
        if !may_hand_over(&grant) {
            return Err((self, grant));
        }
        let pop = |queue: &mut LocalQueue<Handover>, grant: &Grant| queue.pop_for_slot(|terms| terms.accept(grant));
        // Of a queue that ended meanwhile, nobody is left.
        let queue = self.turns.queues.get(self.keys.queue());
        while let Some(next) = queue.as_ref().and_then(|queue| queue.with(|queue| pop(queue, &grant))) {
            // What cannot be sent comes back unchanged.
            let Err(Handover::Slot(unsent)) = next.send(Handover::Slot(grant)) else {
                self.was_handed_over = true;
                return Ok(());
            };
            grant = unsent;
        }
        Err((self, grant))
    }
}

impl Drop for LocalSlot {
    fn drop(&mut self) {
        if let Some(slot) = self.keys.slot().filter(|_| !self.was_handed_over) {
            self.turns.last_slots.put_back(self.keys.queue(), slot);
        }
    }
}
