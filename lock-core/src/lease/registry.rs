use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Lease;
use super::hold_times::HoldTimes;
use super::readings::Readings;
use super::shared_grant::SharedGrant;
use crate::error::LossReason;
use crate::mutex::Mutex;
use crate::node::Holder;
use crate::task::wait_until;

/// The leases of a manager whose guards are alive, and when the renewer has to deal with each. As many as locks are held.
#[derive(Default)]
pub(crate) struct LeaseRegistry {
    leases: Mutex<Leases>,
    hold_times: HoldTimes,
    pub(super) readings: Readings,
    /// Notified when the last lease is removed.
    emptied: Notify,
    /// Notified when a lease is due earlier than all others.
    pub(super) earlier: Notify,
}

#[derive(Default)]
struct Leases {
    /// By their ids.
    registered: BTreeMap<u64, Registered>,
    due: BTreeSet<(Instant, u64)>,
    /// Until when the renewer sleeps, or last slept; `None` if it sleeps without an end.
    asleep_until: Option<Instant>,
}

struct Registered {
    lease: Lease,
    /// `None` while the renewer deals with it.
    due: Option<Instant>,
}

impl LeaseRegistry {
    pub(super) fn add(&self, lease: Lease, due: Instant) {
        let mut leases = self.leases.lock();
        leases.due.insert((due, lease.0.id));
        leases.registered.insert(lease.0.id, Registered { lease, due: Some(due) });
        self.wake_if_earlier(leases, due);
    }

    /// Removes the lease of a guard that ends, and remembers how long it was held.
    pub(crate) fn remove(&self, lease: &Lease, now: Instant) {
        // What was adopted is a part of another process's hold.
        if !lease.is_adopted() {
            let held = now.saturating_duration_since(lease.0.term.since);
            self.hold_times.record(lease.0.requested.as_str(), held);
        }
        let mut leases = self.leases.lock();
        let removed = leases.registered.remove(&lease.0.id);
        if let Some(Registered { due: Some(due), .. }) = removed {
            leases.due.remove(&(due, lease.0.id));
        }
        let is_empty = leases.registered.is_empty();
        drop(leases);
        if is_empty {
            self.emptied.notify_waiters();
        }
    }

    /// The set that a lease belongs to is complete: `max_hold` counts from now on.
    pub(crate) fn begin_hold(&self, lease: &Lease, max_hold: Duration) {
        lease.0.term.begin_hold(max_hold);
        #[cfg(feature = "testing")]
        if lease.0.options.notices_nothing {
            lease.0.term.stand_still();
        }
        self.reschedule(lease, lease.due());
    }

    /// Sets when a lease is due again, if its guard is alive.
    pub(super) fn reschedule(&self, lease: &Lease, due: Instant) {
        let mut leases = self.leases.lock();
        let Some(registered) = leases.registered.get_mut(&lease.0.id) else { return };
        if let Some(before) = registered.due.replace(due) {
            leases.due.remove(&(before, lease.0.id));
        }
        leases.due.insert((due, lease.0.id));
        self.wake_if_earlier(leases, due);
    }

    /// Takes a lease that is due. It is not due again before it is rescheduled.
    pub(super) fn take_due(&self, now: Instant) -> Option<Lease> {
        let mut leases = self.leases.lock();
        let (due, id) = leases.due.first().copied().filter(|(due, _)| *due <= now)?;
        leases.due.remove(&(due, id));
        let registered = leases.registered.get_mut(&id)?;
        // Not scheduled while it is dealt with, so that no second renewal of it begins meanwhile.
        registered.due = None;
        Some(registered.lease.clone())
    }

    /// Makes every lease due that an earlier renewer took and did not reschedule: its runtime was shut down, or does not run.
    pub(super) fn take_over(&self) {
        let mut leases = self.leases.lock();
        let now = Instant::now();
        let Leases { registered, due, .. } = &mut *leases;
        for (id, lease) in registered.iter_mut().filter(|(_, registered)| registered.due.is_none()) {
            lease.due = Some(now);
            due.insert((now, *id));
        }
    }

    /// How long locks on a resource were held lately; `None` if that is not known.
    pub(crate) fn typical_hold(&self, resource: &str) -> Option<Duration> {
        self.hold_times.typical(resource)
    }

    /// Until when the renewer sleeps, unless it is [woken earlier](Self::earlier): until the next lease is due. If there is none, it sleeps
    /// on until the time that it was going to sleep to, so that locks that come and go do not wake it each time.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let mut leases = self.leases.lock();
        let next = leases.due.first().map(|(due, _)| *due);
        leases.asleep_until = next.or_else(|| leases.asleep_until.filter(|until| *until > Instant::now()));
        leases.asleep_until
    }

    /// Ends the leases of holders that were evicted, which need not wait for their next renewal, and releases what they still have.
    pub(crate) fn revoke_evicted(&self, holders: &[Holder]) {
        let is_evicted = |owner| holders.contains(&Holder::Owner(owner));
        // First, or a reader could join a lock between the look at the leases and their end.
        self.readings.remove_all(is_evicted);
        for lease in self.all().into_iter().filter(|lease| is_evicted(lease.owner())) {
            // It goes on in the background.
            drop(lease.revoke(LossReason::Gone));
        }
    }

    /// The nodes lost a lock: the lease ends, and so do those that share its grant, not each with its own renewal.
    pub(super) fn lose(&self, grant: &Arc<SharedGrant>) {
        // Before the leases are looked for: one that is added later finds that it is lost.
        grant.lose();
        let leases = self.leases.lock();
        let sharing = leases.registered.values().filter(|registered| Arc::ptr_eq(&registered.lease.0.grant, grant));
        // Collected, because to end a lease may drop what locks the registry again: a turn, or an observer of the user.
        let sharing: Vec<_> = sharing.map(|registered| registered.lease.clone()).collect();
        drop(leases);
        sharing.iter().for_each(|lease| lease.end(LossReason::Gone));
    }

    pub(crate) fn all(&self) -> Vec<Lease> {
        self.leases.lock().registered.values().map(|registered| registered.lease.clone()).collect()
    }

    /// Waits until no guard is alive.
    pub(crate) async fn wait_until_empty(&self) {
        wait_until(&self.emptied, || self.leases.lock().registered.is_empty()).await;
    }

    fn wake_if_earlier(&self, mut leases: MutexGuard<'_, Leases>, due: Instant) {
        // Most locks are released long before their first renewal. To wake the renewer for each costs a busy service a wake-up
        // for every lock.
        if leases.asleep_until.is_none_or(|until| due < until) {
            leases.asleep_until = Some(due);
            drop(leases);
            self.earlier.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::LockManager;

    #[tokio::test]
    async fn locks_that_come_and_go_do_not_wake_the_renewer_each_time() {
        let locks = LockManager::in_memory();
        let guard = locks.lock("r").acquire().await.unwrap();
        let (registry, due) = (LeaseRegistry::default(), Instant::now() + Duration::from_secs(1));
        let was_woken = || registry.earlier.notified().now_or_never().is_some();
        registry.add(guard.lease(), due);
        assert!(was_woken());
        registry.remove(&guard, Instant::now());
        assert_eq!(registry.next_due(), Some(due), "it looks again, and finds none");
        registry.add(guard.lease(), due + Duration::from_millis(1));
        assert!(!was_woken());
        registry.add(guard.lease(), due - Duration::from_millis(1));
        assert!(was_woken());
    }

    #[tokio::test(start_paused = true)]
    async fn the_renewer_sleeps_without_an_end_when_no_lease_is_left() {
        let locks = LockManager::in_memory();
        let guard = locks.lock("r").acquire().await.unwrap();
        let (registry, due) = (LeaseRegistry::default(), Instant::now() + Duration::from_secs(1));
        registry.add(guard.lease(), due);
        registry.remove(&guard, Instant::now());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(registry.next_due(), None);
    }

    #[tokio::test]
    async fn the_next_renewer_takes_what_an_earlier_one_took_and_did_not_reschedule() {
        let locks = LockManager::in_memory();
        let guard = locks.lock("r").acquire().await.unwrap();
        let (registry, now) = (LeaseRegistry::default(), Instant::now());
        registry.add(guard.lease(), now);
        assert!(registry.take_due(now).is_some());
        assert!(registry.take_due(now).is_none());
        registry.take_over();
        assert!(registry.take_due(Instant::now()).is_some());
    }
}
