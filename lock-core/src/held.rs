use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::lease::Lease;
use crate::random::OwnerId;

/// The leases whose guards are alive. As many as locks are held.
#[derive(Default)]
pub(crate) struct HeldLeases {
    leases: Mutex<HashMap<OwnerId, Lease>>,
    /// Told whenever one goes.
    gone: Notify,
}

impl HeldLeases {
    pub(crate) fn add(&self, lease: Lease) {
        self.lock().insert(lease.owner(), lease);
    }

    pub(crate) fn remove(&self, owner: OwnerId) {
        self.lock().remove(&owner);
        self.gone.notify_waiters();
    }

    pub(crate) fn all(&self) -> Vec<Lease> {
        self.lock().values().cloned().collect()
    }

    /// Waits until no guard is alive.
    pub(crate) async fn none_left(&self) {
        loop {
            let gone = self.gone.notified();
            if self.lock().is_empty() {
                return;
            }
            gone.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OwnerId, Lease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
