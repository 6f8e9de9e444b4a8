use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::bond::Bond;
use super::shared_grant::SharedGrant;
use super::term::Term;
use super::tied::Tied;
use crate::error::LossReason;
use crate::kind::Kind;
use crate::mutex::Mutex;
use crate::observer::Hold;
use crate::options::LockOptions;
use crate::resource::Resource;
use crate::waiting::LocalHold;

/// What the clones of a lease share.
pub(super) struct State {
    /// Tells leases apart.
    pub(super) id: u64,
    pub(super) manager: u64,
    /// What was asked for.
    pub(super) requested: Resource,
    /// The same; or the slot of it.
    pub(super) resource: Resource,
    pub(super) options: LockOptions,
    /// Whether its writer was downgraded, and reads from then on.
    pub(super) downgraded: AtomicBool,
    pub(super) hold: Hold,
    pub(super) term: Term,
    /// For how many guards it is held. The last of them releases.
    pub(super) holders: AtomicUsize,
    /// What the nodes hold for this lease. Readers of this process may share it.
    pub(super) grant: Arc<SharedGrant>,
    /// Whether it has given up its share of the grant.
    pub(super) has_given_up: AtomicBool,
    /// The turn in the local queue, or the slot. Given up when the lease ends: the next caller need not wait for a guard that holds
    /// nothing any more.
    pub(super) local_hold: Mutex<Option<LocalHold>>,
    /// The set that the lease was acquired for.
    pub(super) bond: OnceLock<Arc<Bond>>,
    /// The sets of inner scopes that share the lease: they are lost with it.
    pub(super) inner_sets: Mutex<Vec<Weak<Bond>>>,
}

impl State {
    pub(super) fn kind(&self) -> Kind {
        if self.downgraded.load(Ordering::Acquire) { Kind::Read } else { self.options.kind }
    }

    /// The set that the lease was acquired for, unless that is released.
    pub(super) fn bond(&self) -> Option<&Bond> {
        self.bond.get().map(|bond| &**bond).filter(|bond| !bond.is_released())
    }

    pub(super) fn take_local_hold(&self) -> Option<LocalHold> {
        self.local_hold.lock().take()
    }
}

impl Tied for State {
    fn is_valid_alone(&self) -> bool {
        self.term.check().inspect_err(|reason| self.end(*reason)).is_ok()
    }

    fn remaining_alone(&self) -> Duration {
        self.term.remaining()
    }

    fn end(&self, reason: LossReason) {
        if self.end_alone(reason)
            && reason != LossReason::Released
            && let Some(bond) = self.bond()
        {
            bond.end(reason);
        }
    }

    fn end_alone(&self, reason: LossReason) -> bool {
        let first = self.term.end(reason);
        // The guard takes it before it ends the lease; otherwise it is passed on now.
        drop(self.take_local_hold());
        if first {
            if self.kind() == Kind::Read {
                self.grant.is_read_no_more_by(self.id);
            }
            self.hold.end(reason, self.term.age());
            let inner_sets = std::mem::take(&mut *self.inner_sets.lock());
            // They have a `max_hold` of their own.
            let reason = if reason == LossReason::MaxHold { LossReason::SetLost } else { reason };
            inner_sets.iter().filter_map(Weak::upgrade).for_each(|set| set.end(reason));
        }
        first
    }
}
