use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::handover::HandoverTerms;
use crate::cluster::NodeSet;
use crate::node::RESERVATION_TTL;

/// The wake-ups that arrived for one lock since the last attempt began; or for each slot of a resource, since the last attempt to
/// take that one.
///
/// They are kept from the moment a local queue exists, and not only while its first caller sleeps: a node may wake this process while
/// the replies to the attempt that entered its queue are still on their way. That wake-up is the only one, and if it were dropped the
/// caller would sleep until its timer.
#[derive(Default)]
pub(super) struct PendingWakeups {
    /// By slot: at most as many as there may be permits.
    states: Mutex<BTreeMap<Option<u32>, WakeupState>>,
    /// The nodes that woke this process for any of them, since the last attempt began.
    called: Mutex<NodeSet>,
    changed: Notify,
}

#[derive(Clone, Copy, Default)]
pub(super) struct WakeupState {
    /// Which slot it is, if the lock has slots.
    pub(super) slot: Option<u32>,
    /// The nodes that reserve the key for us, and since when the first of them does.
    pub(super) reserved: NodeSet,
    pub(super) reserved_at: Option<Instant>,
    /// When they reserve it for us if nobody before us takes the lock.
    pub(super) next_at: Option<Instant>,
}

impl WakeupState {
    /// Whether the reservation of a slot has passed. Without slots, the next attempt clears the only state there is; an attempt at one
    /// slot says nothing about the others.
    fn has_passed(&self, now: Instant) -> bool {
        self.slot.is_some() && self.reserved_at.max(self.next_at).is_none_or(|at| at + RESERVATION_TTL <= now)
    }
}

impl PendingWakeups {
    /// Adds the wake-up of a node. `before` is how many reservations come before ours.
    pub(super) fn add(&self, slot: Option<u32>, node: usize, before: u32) {
        self.lock_called().insert(node);
        {
            let mut states = self.lock();
            let state = states.entry(slot).or_default();
            state.slot = slot;
            match before {
                0 => {
                    state.reserved.insert(node);
                    state.reserved_at.get_or_insert_with(Instant::now);
                }
                _ => state.next_at = Some(Instant::now() + before * RESERVATION_TTL),
            }
        }
        self.notify();
    }

    /// Forgets the wake-ups for one slot, or for the lock.
    pub(super) fn clear(&self, slot: Option<u32>) {
        self.lock().remove(&slot);
    }

    /// The slot that most nodes reserve, of those that the caller may have; or the lock.
    pub(super) fn best(&self, terms: HandoverTerms) -> WakeupState {
        let (mut states, now) = (self.lock(), Instant::now());
        states.retain(|_, state| !state.has_passed(now));
        let fitting = states.values().filter(|state| terms.has_slot(state.slot));
        fitting.max_by_key(|state| state.reserved.len()).copied().unwrap_or_default()
    }

    /// Takes the slots that nodes reserve, and that satisfy a condition.
    pub(super) fn take_reserved(&self, condition: impl Fn(u32) -> bool) -> Vec<(u32, NodeSet)> {
        let mut taken = Vec::new();
        self.lock().retain(|slot, state| match slot {
            Some(slot) if condition(*slot) => {
                taken.push((*slot, state.reserved));
                false
            }
            _ => true,
        });
        taken
    }

    /// The nodes from which a wake-up arrived since the last attempt began.
    pub(super) fn called(&self) -> NodeSet {
        *self.lock_called()
    }

    /// The same, as an attempt begins.
    pub(super) fn take_called(&self) -> NodeSet {
        std::mem::take(&mut *self.lock_called())
    }

    /// Resolves when something changes after this call.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Has the caller that sleeps look again at what it waits for.
    pub(super) fn notify(&self) {
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Option<u32>, WakeupState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_called(&self) -> MutexGuard<'_, NodeSet> {
        self.called.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
