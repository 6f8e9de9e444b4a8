use std::sync::Arc;

use super::handover::{Handover, may_hand_over};
use super::local_queue::LocalQueue;
use super::{LocalQueues, Turn};
use crate::engine::Grant;
use crate::node::{LockKeys, QueuePosition};

/// What the holder of a lock has in its manager, and passes on when it releases.
pub(crate) enum LocalHold {
    /// The turn: nobody else of this manager may have the lock, so none of them asks the nodes.
    Turn(Turn),
    /// A slot. The turn was passed on when it was taken: others of this manager may have other slots.
    Slot(LocalSlot),
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

    /// What becomes of the position in the nodes' queues when the lock is released: that of a slot's holder is long another's.
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
    queues: Arc<LocalQueues>,
    keys: LockKeys,
}

impl LocalSlot {
    pub(super) fn new(queues: &Arc<LocalQueues>, keys: &LockKeys) -> Self {
        Self { queues: Arc::clone(queues), keys: keys.clone() }
    }

    /// Hands the slot over to the first caller that waits: the one at the front, unless it makes an attempt just now.
    #[expect(clippy::result_large_err, reason = "as above")]
    fn hand_over(self, grant: Grant) -> Result<(), (Self, Grant)> {
        let (mut slot, mut grant) = (self, grant);
        if !may_hand_over(&grant) {
            return Err((slot, grant));
        }
        let pop = |queue: &mut LocalQueue, grant: &Grant| queue.pop_for_slot(|terms| terms.accept(grant));
        loop {
            let next = slot.queues.lock().get_mut(slot.keys.queue()).and_then(|queue| pop(queue, &grant));
            let Some(next) = next else { return Err((slot, grant)) };
            // What cannot be sent comes back unchanged.
            let Err(Handover::Slot(unsent, back)) = next.send(Handover::Slot(grant, slot)) else { return Ok(()) };
            (grant, slot) = (unsent, back);
        }
    }
}

impl Drop for LocalSlot {
    fn drop(&mut self) {
        if let Some(slot) = self.keys.slot() {
            self.queues.last_slots.put_back(self.keys.queue(), slot);
        }
    }
}
