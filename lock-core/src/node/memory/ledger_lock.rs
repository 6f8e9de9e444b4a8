use std::collections::HashMap;
use std::time::Duration;

use crate::node::limits::MAX_READERS_SEEN;
use crate::node::{self, Kind, Reader};
use crate::random::OwnerId;

/// A lock key: who holds the lock, and until when. A part of the ledger.
#[derive(Clone)]
pub(super) struct Lock {
    holder: Holder,
    pub(super) expires: Duration,
}

#[derive(Clone)]
enum Holder {
    Writer(OwnerId),
    /// When each reader expires. The lock lives for as long as the longest.
    Readers(HashMap<OwnerId, Duration>),
}

impl Lock {
    pub(super) fn new(kind: Kind, owner: OwnerId, expires: Duration) -> Self {
        let holder = match kind {
            Kind::Write | Kind::Permit { .. } => Holder::Writer(owner),
            Kind::Read => Holder::Readers(HashMap::from([(owner, expires)])),
        };
        Self { holder, expires }
    }

    /// Whether readers hold it.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.holder, Holder::Readers(_))
    }

    /// What a look at the lock key finds.
    pub(super) fn holder(&self) -> node::Holder {
        match &self.holder {
            Holder::Writer(owner) => node::Holder::Owner(*owner),
            Holder::Readers(_) => node::Holder::Readers,
        }
    }

    /// The readers that hold the lock, beginning with the one that lives longest.
    pub(super) fn readers(&self, now: Duration) -> Vec<Reader> {
        let Holder::Readers(readers) = &self.holder else { return Vec::new() };
        let alive = readers.iter().filter(|(_, expires)| **expires > now);
        let mut alive: Vec<_> = alive.map(|(owner, expires)| (*expires, *owner)).collect();
        alive.sort_unstable_by(|one, other| other.cmp(one));
        alive.truncate(MAX_READERS_SEEN);
        alive.into_iter().map(|(expires, owner)| Reader { owner, remaining: expires - now }).collect()
    }

    /// Whether nobody has the lock but these.
    pub(super) fn is_held_only_by(&self, holders: &[node::Holder], now: Duration) -> bool {
        let is_named = |owner: &OwnerId| holders.contains(&node::Holder::Owner(*owner));
        match &self.holder {
            Holder::Writer(owner) => *owner == OwnerId::NOBODY || is_named(owner),
            Holder::Readers(readers) => readers.iter().all(|(owner, expires)| *expires <= now || is_named(owner)),
        }
    }

    /// Whether nobody has the lock, for a moment after an eviction.
    pub(super) fn is_nobodys(&self) -> bool {
        matches!(self.holder, Holder::Writer(OwnerId::NOBODY))
    }

    pub(super) fn is_held_by(&self, owner: OwnerId, now: Duration) -> bool {
        match &self.holder {
            Holder::Writer(holder) => *holder == owner,
            Holder::Readers(readers) => readers.get(&owner).is_some_and(|expires| *expires > now),
        }
    }

    /// Prolongs the lock of an owner, or adds a reader. A longer remaining time stays.
    pub(super) fn prolong(&mut self, owner: OwnerId, expires: Duration, now: Duration) {
        self.expires = self.expires.max(expires);
        if let Holder::Readers(readers) = &mut self.holder {
            readers.retain(|_, expires| *expires > now);
            let reader = readers.entry(owner).or_default();
            *reader = expires.max(*reader);
        }
    }

    /// Removes an owner. Returns whether anybody is left, and for that long the lock then lives.
    pub(super) fn remove(&mut self, owner: OwnerId, now: Duration) -> bool {
        let Holder::Readers(readers) = &mut self.holder else { return false };
        readers.remove(&owner);
        let longest = readers.values().copied().max().filter(|expires| *expires > now);
        // The lock ends with the last reader that is left, not with the one that leaves.
        self.expires = longest.map_or(self.expires, |longest| self.expires.min(longest));
        longest.is_some()
    }
}
