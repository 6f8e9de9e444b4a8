use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Lease;
use super::lease::WeakLease;
use crate::error::LossReason;

/// What makes the loss of one lock of a set the loss of all.
pub(crate) struct Bond {
    /// The leases that were acquired for the set. They end with it.
    own: Vec<WeakLease>,
    /// Those that the set shares with outer scopes. They end it, and not the other way round.
    outer: Vec<WeakLease>,
    /// Whether the set was released: then each lease ends by itself.
    released: AtomicBool,
}

impl Bond {
    /// Binds leases that were acquired for a set to each other, and to those that it shares with outer scopes. One of them may
    /// have been lost before, so they have to be checked after this.
    pub(crate) fn bind(own: &[Lease], outer: &[Lease]) {
        if own.len() + outer.len() < 2 {
            return;
        }
        let bond = Arc::new(Self {
            own: own.iter().map(Lease::downgrade).collect(),
            outer: outer.iter().map(Lease::downgrade).collect(),
            released: AtomicBool::new(false),
        });
        own.iter().for_each(|lease| lease.bond_with(&bond));
        for lease in outer {
            let mut sets = lease.inner_sets();
            sets.retain(|set| set.strong_count() > 0);
            sets.push(Arc::downgrade(&bond));
        }
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

    /// One of the leases ended for this reason: so do those of the set.
    pub(super) fn end(&self, reason: LossReason) {
        if self.is_released() {
            return;
        }
        let reason = match reason {
            // These are about the set as a whole.
            LossReason::MaxHold | LossReason::ShutDown => reason,
            LossReason::Expired | LossReason::Gone | LossReason::SetLost | LossReason::Released => LossReason::SetLost,
        };
        for lease in self.own.iter().filter_map(WeakLease::upgrade) {
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
    fn leases(&self) -> impl Iterator<Item = Lease> {
        self.own.iter().chain(&self.outer).filter_map(WeakLease::upgrade)
    }
}
