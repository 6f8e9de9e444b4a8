use std::collections::HashMap;
use std::time::Duration;

use crate::node::limits::MAX_EVICTED;
use crate::random::OwnerId;

/// Who was evicted from which lock, and cannot have it again. A part of the ledger.
#[derive(Clone, Default)]
pub(super) struct Tombstones(HashMap<String, Tombstone>);

#[derive(Clone, Default)]
struct Tombstone {
    owners: Vec<OwnerId>,
    expires: Duration,
}

impl Tombstones {
    /// The owners that cannot have a lock, in the order in which they were evicted.
    pub(super) fn of(&self, lock_key: &str, now: Duration) -> &[OwnerId] {
        self.0.get(lock_key).filter(|tombstone| tombstone.expires > now).map_or(&[], |tombstone| &tombstone.owners)
    }

    /// Bars owners from a lock until a time, or as long as those that are barred already. False, and nobody is, if they would be
    /// too many.
    pub(super) fn bar(&mut self, lock_key: &str, owners: Vec<OwnerId>, until: Duration, now: Duration) -> bool {
        let mut barred = self.of(lock_key, now).to_vec();
        for owner in owners {
            if !barred.contains(&owner) {
                barred.push(owner);
            }
        }
        if barred.len() > MAX_EVICTED {
            return false;
        }
        if !barred.is_empty() {
            let tombstone = self.0.entry(lock_key.to_owned()).or_default();
            *tombstone = Tombstone { owners: barred, expires: tombstone.expires.max(until) };
        }
        true
    }

    /// Drops those that have expired.
    pub(super) fn expire(&mut self, now: Duration) {
        self.0.retain(|_, tombstone| tombstone.expires > now);
    }
}
