//! A part of the ledger: until when this session has each lock. Must be right: no lock is taken for held after it was released, or after
//! its time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use tokio::time::Instant;

/// The locks that this session has, or may have, by the znode of their owner: one for each attempt that is under way, and each
/// lease.
///
/// To ZooKeeper, a lock lives as long as the session, and so as long as this process. It is from here that a lock ends whose time to
/// live has passed, or whose release was lost.
#[derive(Default)]
pub(super) struct Leases(HashMap<String, Lease>);

struct Lease {
    lock: String,
    /// When it ends, unless it is extended.
    ends: Instant,
    /// It was released, or its time is over.
    released: bool,
    /// The request that may end it is under way.
    ending: bool,
    /// The attempt to take it is under way.
    beginning: bool,
}

/// A lock that has to be ended, by its znodes.
pub(super) struct Ended {
    pub(super) owner: String,
    pub(super) lock: String,
}

impl Leases {
    /// An attempt to take the lock begins. False if it is one that has, or may have, taken it already.
    pub(super) fn begins(&mut self, owner: &str, lock: &str, ttl: Duration) -> bool {
        let Entry::Vacant(new) = self.0.entry(owner.to_owned()) else { return false };
        let (lock, ends) = (lock.to_owned(), Instant::now() + ttl);
        new.insert(Lease { lock, ends, released: false, ending: false, beginning: true });
        true
    }

    /// The attempt is over, and took the lock, or may have. False if the lock was released, or has ended, meanwhile.
    #[must_use]
    pub(super) fn begun(&mut self, owner: &str, ttl: Duration) -> bool {
        let Some(lease) = self.0.get_mut(owner) else { return false };
        lease.beginning = false;
        if !lease.released {
            lease.ends = lease.ends.max(Instant::now() + ttl);
        }
        !lease.released
    }

    /// A request is being sent that may extend the lock. False if it was released, is over, or is not this session's.
    pub(super) fn extends(&mut self, owner: &str, ttl: Duration) -> bool {
        let now = Instant::now();
        let Some(lease) = self.0.get_mut(owner).filter(|lease| !lease.released && lease.ends > now) else {
            return false;
        };
        lease.ends = lease.ends.max(now + ttl);
        true
    }

    /// It is to be released.
    pub(super) fn releases(&mut self, owner: &str) {
        if let Some(lease) = self.0.get_mut(owner) {
            lease.released = true;
        }
    }

    /// The release is being sent; or what was sent to end the lock was lost.
    pub(super) fn set_ending(&mut self, owner: &str, is_ending: bool) {
        if let Some(lease) = self.0.get_mut(owner) {
            lease.ending = is_ending;
        }
    }

    /// The session does not have the lock.
    pub(super) fn gone(&mut self, owner: &str) {
        self.0.remove(owner);
    }

    /// When the last lock is over that was not released.
    pub(super) fn last_end(&self) -> Option<Instant> {
        self.0.values().filter(|lease| !lease.released).map(|lease| lease.ends).max()
    }

    /// What has to be ended now: those whose time is over, and those whose release was lost.
    pub(super) fn take_ended(&mut self) -> Vec<Ended> {
        let now = Instant::now();
        let is_over = |lease: &Lease| !lease.ending && (lease.released || !lease.beginning && lease.ends <= now);
        let over = self.0.iter_mut().filter(|(_, lease)| is_over(lease));
        over.map(|(owner, lease)| {
            (lease.released, lease.ending) = (true, true);
            Ended { owner: owner.clone(), lock: lease.lock.clone() }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const TTL: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_comes_again_does_not_have_a_lock_that_is_ending() {
        let mut leases = Leases::default();
        assert!(leases.begins("owner", "lock", TTL));
        assert!(leases.begun("owner", TTL));
        assert!(!leases.begins("owner", "lock", TTL), "it is the same one");
        assert!(leases.begun("owner", TTL));
        advance(TTL).await;
        assert_eq!(leases.take_ended().len(), 1);
        assert!(!leases.begun("owner", TTL), "it is being ended");
        leases.gone("owner");
        assert!(!leases.begun("owner", TTL), "it has ended");
    }
}
