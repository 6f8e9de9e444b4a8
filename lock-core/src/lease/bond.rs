use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::tied::Tied;
use crate::error::LossReason;

/// What makes the loss of one lock of a set the loss of all.
pub(super) struct Bond {
    /// The leases that were acquired for the set. They end with it.
    own: Vec<Weak<dyn Tied>>,
    /// Those that the set shares with outer scopes. They end it, and not the other way round.
    outer: Vec<Weak<dyn Tied>>,
    /// Whether the set was released: then each lease ends by itself.
    released: AtomicBool,
}

impl Bond {
    /// Of a set that is complete.
    pub(super) fn new(own: Vec<Weak<dyn Tied>>, outer: Vec<Weak<dyn Tied>>) -> Self {
        Self { own, outer, released: AtomicBool::new(false) }
    }

    /// Whether every lock is still held. Ends the leases of the set if one is not.
    pub(super) fn is_valid(&self) -> bool {
        let valid = self.leases().all(|lease| lease.is_valid_alone());
        if !valid {
            self.end(LossReason::SetLost);
        }
        valid
    }

    /// The remaining validity of the lock that has the least.
    pub(super) fn remaining(&self) -> Duration {
        self.leases().map(|lease| lease.remaining_alone()).min().unwrap_or_default()
    }

    /// One of the leases ended for this reason, and so do all others of the set.
    pub(super) fn end(&self, reason: LossReason) {
        if self.is_released() {
            return;
        }
        let reason = match reason {
            // These are about the set as a whole.
            LossReason::MaxHold | LossReason::ShutDown => reason,
            LossReason::Expired | LossReason::Gone | LossReason::SetLost | LossReason::Released => LossReason::SetLost,
        };
        for lease in self.own.iter().filter_map(Weak::upgrade) {
            lease.end_alone(reason);
        }
    }

    /// The set is being released.
    pub(super) fn release(&self) {
        self.released.store(true, Ordering::Release);
    }

    pub(super) fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    /// The leases that were not dropped: those were lost, which ended the others, or released.
    fn leases(&self) -> impl Iterator<Item = Arc<dyn Tied>> {
        self.own.iter().chain(&self.outer).filter_map(Weak::upgrade)
    }
}
