use std::iter;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::time::Instant;

use super::shared_grant::SharedGrant;
use super::term::Term;
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

    /// Whether the lock is still held, whatever became of other locks of its set.
    pub(super) fn is_valid_alone(&self, now: Instant) -> bool {
        self.term.check(now).inspect_err(|reason| self.end(*reason)).is_ok()
    }

    /// Ends the lease for good; unless it was released, also the other leases of its set.
    pub(super) fn end(&self, reason: LossReason) {
        if self.end_alone(reason)
            && reason != LossReason::Released
            && let Some(bond) = self.bond()
        {
            bond.end(reason);
        }
    }

    /// Ends the lease, but no other of its set. Returns whether it had not ended before.
    fn end_alone(&self, reason: LossReason) -> bool {
        // Before anything is passed on: the caller that gets the turn must not find this lease valid.
        let first = self.term.end(reason);
        // The guard takes it before it ends the lease; otherwise it is passed on now.
        drop(self.take_local_hold());
        if first {
            self.hold.end(reason, self.term.since);
            let inner_sets = std::mem::take(&mut *self.inner_sets.lock());
            // They have a `max_hold` of their own.
            let reason = if reason == LossReason::MaxHold { LossReason::SetLost } else { reason };
            // A set that was acquired inside this scope rests on this lock as on its own.
            inner_sets.iter().filter_map(Weak::upgrade).for_each(|set| set.end(reason));
        }
        first
    }
}

/// What makes the loss of one lock of a set the loss of all.
pub(super) struct Bond {
    /// The leases that were acquired for the set. They end with it.
    own: Vec<Weak<State>>,
    /// Those that the set shares with outer scopes. They end it, and not the other way round.
    outer: Vec<Weak<State>>,
    /// Whether the set was released: then each lease ends by itself.
    released: AtomicBool,
}

impl Bond {
    /// Of a set that is complete.
    pub(super) fn new(own: Vec<Weak<State>>, outer: Vec<Weak<State>>) -> Self {
        Self { own, outer, released: AtomicBool::new(false) }
    }

    /// Whether every lock is still held, or the set was released. Ends the leases of the set if one is not.
    pub(super) fn is_valid(&self, now: Instant) -> bool {
        // All are asked, and by the clock: the lease that has run out may not have been looked at by anybody yet. One of an outer scope may
        // belong to a set itself.
        let is_valid_in_its_set =
            |lease: Arc<State>| lease.is_valid_alone(now) && lease.bond().is_none_or(|bond| bond.is_valid(now));
        if self.own().all(|lease| lease.is_valid_alone(now)) && self.outer().all(is_valid_in_its_set) {
            return true;
        }
        self.end(LossReason::SetLost);
        // Asked after the locks: the set is released before the first of them is.
        self.is_released()
    }

    /// The lock that has the least validity left, unless the set was released.
    pub(super) fn shortest(&self) -> Option<Arc<State>> {
        let outer = self.outer().flat_map(|lease| {
            let of_its_set = lease.bond().and_then(Self::shortest);
            iter::once(lease).chain(of_its_set)
        });
        let shortest = self.own().chain(outer).min_by_key(|lease| lease.term.remaining());
        // As above.
        shortest.filter(|_| !self.is_released())
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
        for lease in self.own() {
            // Alone, because the bond is what is calling. To end each with its set would come back here for every lease.
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

    // Those that were dropped were lost, which ended the others, or released.

    fn own(&self) -> impl Iterator<Item = Arc<State>> {
        self.own.iter().filter_map(Weak::upgrade)
    }

    fn outer(&self) -> impl Iterator<Item = Arc<State>> {
        self.outer.iter().filter_map(Weak::upgrade)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockManager;

    #[tokio::test]
    async fn a_lock_that_is_kept_beyond_its_set_is_not_lost_with_what_the_set_releases() {
        let locks = LockManager::in_memory();
        let set = locks.lock_all(["a", "b"]).acquire().await.unwrap();
        let [kept, other] = [&set.leases()[0], &set.leases()[1]];
        // Somebody looks at the lock while the set is released.
        let bond = kept.0.bond().unwrap();
        bond.release();
        other.end(LossReason::Released);
        assert!(bond.is_valid(Instant::now()) && bond.shortest().is_none());
        assert!(kept.is_valid() && !kept.remaining().is_zero());
    }
}
