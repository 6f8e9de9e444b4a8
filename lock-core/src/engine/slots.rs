use std::time::Duration;

use tokio::time::timeout;

use super::Engine;
use crate::node::{LockKeys, LockState};
use crate::quorum::majority;

/// What a look at the slots of a resource found out. A hint: an attempt decides.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotsSeen {
    /// The slots that a majority of the nodes has free.
    pub(crate) free: Vec<u32>,
    /// The slot that will be free first if nobody releases one, and in what time.
    pub(crate) next: Option<(u32, Duration)>,
}

impl Engine {
    /// Looks at all slots of a resource, on all nodes at once; for the node timeout at most.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    pub(crate) async fn look_at_slots(&self, keys: &LockKeys, permits: u32, ttl: Duration) -> SlotsSeen {
        let slots: Vec<LockKeys> = (0..permits).map(|slot| keys.with_slot(slot)).collect();
        let epochs = self.cluster.epochs();
        let look = self.cluster.look(&epochs, &slots, false, Duration::ZERO);
        let looked = timeout(self.node_timeout(ttl), look).await.unwrap_or_default();
        let seen: Vec<_> = looked.into_iter().flatten().filter(|states| states.len() == slots.len()).collect();
        judge(&seen, permits, majority(self.cluster.size()))
    }
}

/// What the nodes have of each slot, seen together.
fn judge(seen: &[Vec<LockState>], permits: u32, majority: usize) -> SlotsSeen {
    let mut slots = SlotsSeen::default();
    for (slot, index) in (0..permits).zip(0..) {
        let states = seen.iter().filter_map(|states| states.get(index));
        // When each node has it free; never, if its key does not expire.
        let mut free_in: Vec<Duration> = states.filter_map(LockState::free_in).collect();
        free_in.sort_unstable();
        match free_in.get(majority - 1) {
            Some(free_in) if free_in.is_zero() => slots.free.push(slot),
            Some(free_in) if slots.next.is_none_or(|(_, next)| *free_in < next) => slots.next = Some((slot, *free_in)),
            _ => {}
        }
    }
    slots
}
