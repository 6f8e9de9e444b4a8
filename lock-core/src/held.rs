use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lease::Lease;

/// The leases whose guards are alive, and when each is to be looked after. As many as locks are held.
#[derive(Default)]
pub(crate) struct HeldLeases {
    leases: Mutex<Leases>,
    /// Told whenever one goes.
    gone: Notify,
    /// Told when one is to be looked after sooner than any before.
    sooner: Notify,
}

#[derive(Default)]
struct Leases {
    held: HashMap<u64, Held>,
    due: BTreeSet<(Instant, u64)>,
    /// When the keeper looks again; `None` while it is awake, or sleeps without an end.
    asleep_until: Option<Instant>,
}

struct Held {
    lease: Lease,
    due: Option<Instant>,
}

impl HeldLeases {
    pub(crate) fn add(&self, lease: Lease, due: Instant) {
        let mut leases = self.lock();
        leases.due.insert((due, lease.id()));
        leases.held.insert(lease.id(), Held { lease, due: Some(due) });
        self.hurry(leases, due);
    }

    pub(crate) fn remove(&self, lease: &Lease) {
        let mut leases = self.lock();
        if let Some(Held { due: Some(due), .. }) = leases.held.remove(&lease.id()) {
            leases.due.remove(&(due, lease.id()));
        }
        drop(leases);
        self.gone.notify_waiters();
    }

    /// Sets when a lease is to be looked after again, if its guard is alive.
    pub(crate) fn put_off(&self, lease: &Lease, due: Instant) {
        let mut leases = self.lock();
        let Some(held) = leases.held.get_mut(&lease.id()) else { return };
        held.due = Some(due);
        leases.due.insert((due, lease.id()));
        self.hurry(leases, due);
    }

    /// Takes one that is to be looked after by now; it is not due again before it was put off.
    pub(crate) fn take_due(&self, now: Instant) -> Option<Lease> {
        let mut leases = self.lock();
        let (due, id) = leases.due.first().copied().filter(|(due, _)| *due <= now)?;
        leases.due.remove(&(due, id));
        let held = leases.held.get_mut(&id)?;
        held.due = None;
        Some(held.lease.clone())
    }

    /// Has everything looked at that a keeper before this one took and did not put back: its runtime was shut down.
    pub(crate) fn take_over(&self) {
        let mut leases = self.lock();
        let now = Instant::now();
        let Leases { held, due, .. } = &mut *leases;
        for (id, lease) in held.iter_mut().filter(|(_, held)| held.due.is_none()) {
            lease.due = Some(now);
            due.insert((now, *id));
        }
    }

    /// When the next one is due. Until then the keeper sleeps, unless it is told [`sooner`](Self::sooner).
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let mut leases = self.lock();
        leases.asleep_until = leases.due.first().map(|(due, _)| *due);
        leases.asleep_until
    }

    /// Resolves when one is due sooner than was told.
    pub(crate) async fn sooner(&self) {
        self.sooner.notified().await;
    }

    pub(crate) fn all(&self) -> Vec<Lease> {
        self.lock().held.values().map(|held| held.lease.clone()).collect()
    }

    /// Waits until no guard is alive.
    pub(crate) async fn none_left(&self) {
        loop {
            let gone = self.gone.notified();
            if self.lock().held.is_empty() {
                return;
            }
            gone.await;
        }
    }

    fn hurry(&self, mut leases: MutexGuard<'_, Leases>, due: Instant) {
        if leases.asleep_until.is_none_or(|until| due < until) {
            leases.asleep_until = Some(due);
            drop(leases);
            self.sooner.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
