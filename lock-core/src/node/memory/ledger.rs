//! The ledger: who holds each lock and until when, the fences, and who was evicted.
//!
//! It must be right: exclusion and the order of tokens rest on it alone. Whatever the waiting room has or has lost, a lock is given only
//! while it is free, or to one more reader; never to an owner that was evicted; and always with a fence that no lock before it had.

use std::collections::HashMap;
use std::time::Duration;

use super::ledger_lock::Lock;
use super::record::Records;
use crate::node::limits::{MAX_EVICTED, MAX_TOKEN, next_token, too_many_evicted, used_up};
use crate::node::{EVICTION_GAP, Evict, Eviction, Holder, Kind, LockKeys, LockState, NodeError, Reply};
use crate::random::OwnerId;

#[derive(Clone, Default)]
pub(super) struct Ledger {
    locks: HashMap<String, Lock>,
    tombstones: Tombstones,
    pub(super) records: Records,
}

/// What holds a lock.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub(super) remaining: Duration,
    pub(super) by_readers: bool,
}

/// What an owner asks for.
#[derive(Clone, Copy)]
pub(super) struct Claim {
    pub(super) owner: OwnerId,
    pub(super) kind: Kind,
    pub(super) ttl: Duration,
}

impl Ledger {
    pub(super) fn held(&self, keys: &LockKeys, now: Duration) -> Option<Held> {
        let lock = self.lock(keys, now)?;
        Some(Held { remaining: lock.expires - now, by_readers: lock.is_shared() })
    }

    /// Tells what holds a lock.
    pub(super) fn holds(&self, now: Duration) -> impl Fn(&LockKeys) -> Option<Held> {
        move |keys| self.held(keys, now)
    }

    /// Whether an owner holds a lock of this kind. A reader does not write: not even by a late request from before it was downgraded.
    pub(super) fn is_held_by(&self, keys: &LockKeys, owner: OwnerId, kind: Kind, now: Duration) -> bool {
        let lock = self.lock(keys, now).filter(|lock| kind.is_read() || !lock.is_shared());
        lock.is_some_and(|lock| lock.is_held_by(owner, now))
    }

    /// For how long an owner that does not hold the lock cannot have it, because it is held, or because the owner was evicted: then for no
    /// time that the node knows. `None` if it can have it.
    pub(super) fn refusal(&self, keys: &LockKeys, held: Option<Held>, claim: Claim, now: Duration) -> Option<Duration> {
        let is_free = held.is_none_or(|held| held.by_readers && claim.kind.is_read());
        // Also if the lock is free: a request of the evicted that was sent before may come after everything else.
        let is_evicted = self.tombstones.of(keys.lock_key(), now).contains(&claim.owner);
        (!is_free || is_evicted).then(|| held.map_or(Duration::ZERO, |held| held.remaining))
    }

    /// Gives a lock that is not refused. A reader joins those that hold the lock, with the fence as it stands.
    pub(super) fn acquire(
        &mut self,
        keys: &LockKeys,
        claim: Claim,
        (hint, tokens): (u64, u32),
        now: Duration,
    ) -> Result<Reply, NodeError> {
        let fence = self.records.fence(keys);
        // A reader that joins others has their token. It is larger than that of every writer before them, and nobody writes
        // between.
        let joins = claim.kind.is_read() && self.lock(keys, now).is_some();
        let token = if joins { fence } else { next_token(fence, hint, tokens)? };
        self.hold(keys, claim, token, now)?;
        Ok(Reply::Granted { token })
    }

    pub(super) fn confirm(&mut self, keys: &LockKeys, owner: OwnerId, token: u64, now: Duration) -> Reply {
        let fence = self.records.fence(keys);
        // A fence only rises: behind a higher one, a larger token may be in use already.
        if !self.is_held_by(keys, owner, Kind::Read, now) || fence > token {
            return Reply::Refused { fence };
        }
        self.records.set_fence(keys, token);
        Reply::Confirmed
    }

    /// Prolongs the lock of an owner. Returns whether it held it.
    pub(super) fn extend(&mut self, keys: &LockKeys, owner: OwnerId, ttl: Duration, now: Duration) -> bool {
        let lock = self.locks.get_mut(keys.lock_key()).filter(|lock| lock.expires > now && lock.is_held_by(owner, now));
        lock.map(|lock| lock.prolong(owner, now + ttl, now)).is_some()
    }

    /// Lets a writer read from now on. Returns whether it held the lock to write.
    pub(super) fn downgrade(&mut self, keys: &LockKeys, owner: OwnerId, now: Duration) -> bool {
        if !self.is_held_by(keys, owner, Kind::Write, now) {
            return false;
        }
        let lock = self.locks.get_mut(keys.lock_key());
        lock.map(|lock| *lock = Lock::new(Kind::Read, owner, lock.expires)).is_some()
    }

    /// Gives a lock back to an owner that lost it here, unless it is refused.
    pub(super) fn replace(
        &mut self,
        keys: &LockKeys,
        claim: Claim,
        token: u64,
        now: Duration,
    ) -> Result<Reply, NodeError> {
        let Claim { owner, kind, .. } = claim;
        if self.is_held_by(keys, owner, kind, now) {
            return Ok(Reply::Kept);
        }
        let (held, fence) = (self.held(keys, now), self.records.fence(keys));
        if self.refusal(keys, held, claim, now).is_some() {
            return Ok(Reply::Gone);
        }
        // Those who join a reader that is put back after a writer had the lock must not have the token of that writer.
        let after_a_writer = kind.is_read() && held.is_none() && fence > token;
        let next = if after_a_writer { fence + 1 } else { fence.max(token) };
        self.hold(keys, claim, next, now)?;
        Ok(Reply::Kept)
    }

    /// Returns whether the owner held the lock until now.
    pub(super) fn release(&mut self, keys: &LockKeys, owner: OwnerId, now: Duration) -> bool {
        let lock = self.locks.get_mut(keys.lock_key()).filter(|lock| lock.expires > now && lock.is_held_by(owner, now));
        let Some(lock) = lock else { return false };
        if !lock.remove(owner, now) {
            self.locks.remove(keys.lock_key());
        }
        true
    }

    pub(super) fn evict(&mut self, evict: &Evict, now: Duration) -> Result<Eviction, NodeError> {
        let Evict { keys, holders, token, barred_for, .. } = evict;
        let lock = self.lock(keys, now);
        let (fence, is_held) = (self.records.fence(keys), lock.is_some_and(|lock| !lock.is_nobodys()));
        // An owner that the eviction did not see acquired the lock after it began, and keeps it.
        if lock.is_some_and(|lock| !lock.is_held_only_by(holders, now)) {
            return Ok(Eviction::Superseded);
        }
        // Not above the tokens of those that it evicts: a resource that claimed it would still take their writes.
        if fence >= *token {
            return Ok(Eviction::Refused { fence });
        }
        let owners = holders.iter().filter_map(Holder::owner).collect();
        if !self.tombstones.bar(keys.lock_key(), owners, now + *barred_for, now) {
            return Err(too_many_evicted());
        }
        // Above the tokens of the evicted, below those of later holders: a resource that claims it refuses the former alone.
        self.records.set_fence(keys, *token);
        // For a moment, nobody gets the lock: the process of the evicted may still give it to others of its callers, by a word of the
        // nodes that is not too old.
        if is_held {
            let nobodys = Lock::new(Kind::Write, OwnerId::NOBODY, now + EVICTION_GAP);
            self.locks.insert(keys.lock_key().to_owned(), nobodys);
        }
        Ok(Eviction::Evicted { deleted: is_held })
    }

    /// What a look at a lock finds, but for who waits.
    pub(super) fn look(&self, keys: &LockKeys, now: Duration) -> LockState {
        let lock = self.lock(keys, now);
        LockState {
            waiters: 0,
            holder: lock.map(Lock::holder),
            remaining: lock.map(|lock| lock.expires - now),
            readers: lock.map_or(Vec::new(), |lock| lock.readers(now)),
            fence: self.records.fence(keys),
            evicted: self.tombstones.of(keys.lock_key(), now).to_vec(),
        }
    }

    pub(super) fn lock_keys(&self, now: Duration) -> Vec<String> {
        let alive = self.locks.iter().filter(|(_, lock)| lock.expires > now);
        let mut keys: Vec<String> = alive.map(|(key, _)| key.clone()).collect();
        keys.sort();
        keys
    }

    /// Drops what has expired. Returns how many locks are left.
    pub(super) fn sweep(&mut self, now: Duration) -> usize {
        self.locks.retain(|_, lock| lock.expires > now);
        self.tombstones.0.retain(|_, tombstone| tombstone.expires > now);
        self.locks.len()
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.locks.len()
    }

    /// Sets the fence, and then gives the owner a lock that is free; or one that readers hold, if it is a reader as well.
    fn hold(&mut self, keys: &LockKeys, claim: Claim, fence: u64, now: Duration) -> Result<(), NodeError> {
        if fence > MAX_TOKEN {
            return Err(used_up());
        }
        self.records.set_fence(keys, fence);
        let Claim { owner, kind, ttl } = claim;
        let expires = now + ttl;
        match self.locks.get_mut(keys.lock_key()) {
            Some(lock) if lock.expires > now => lock.prolong(owner, expires, now),
            Some(lock) => *lock = Lock::new(kind, owner, expires),
            None => _ = self.locks.insert(keys.lock_key().to_owned(), Lock::new(kind, owner, expires)),
        }
        Ok(())
    }

    fn lock(&self, keys: &LockKeys, now: Duration) -> Option<&Lock> {
        self.locks.get(keys.lock_key()).filter(|lock| lock.expires > now)
    }
}

/// Who was evicted from which lock, and cannot have it again.
#[derive(Clone, Default)]
struct Tombstones(HashMap<String, Tombstone>);

#[derive(Clone, Default)]
struct Tombstone {
    owners: Vec<OwnerId>,
    expires: Duration,
}

impl Tombstones {
    /// The owners that cannot have a lock, in the order in which they were evicted.
    fn of(&self, lock_key: &str, now: Duration) -> &[OwnerId] {
        self.0.get(lock_key).filter(|tombstone| tombstone.expires > now).map_or(&[], |tombstone| &tombstone.owners)
    }

    /// Bars owners from a lock until a time, or as long as those that are barred already; nothing changes if there are none. False, and
    /// nobody is, if they would be too many.
    fn bar(&mut self, lock_key: &str, owners: Vec<OwnerId>, until: Duration, now: Duration) -> bool {
        if owners.is_empty() {
            return true;
        }
        let mut barred = self.of(lock_key, now).to_vec();
        for owner in owners {
            if !barred.contains(&owner) {
                barred.push(owner);
            }
        }
        if barred.len() > MAX_EVICTED {
            return false;
        }
        let tombstone = self.0.entry(lock_key.to_owned()).or_default();
        *tombstone = Tombstone { owners: barred, expires: tombstone.expires.max(until) };
        true
    }
}
