use std::collections::HashMap;
use std::time::Duration;

use crate::node::limits::MAX_READERS_SEEN;
use crate::node::{Holder, Kind, Reader};
use crate::random::OwnerId;

/// A lock key: who holds the lock, and until when. A part of the ledger.
#[derive(Clone)]
pub(super) struct Lock {
    /// `None` while readers hold the lock.
    writer: Option<OwnerId>,
    /// When each reader expires. The lock lives for as long as the longest.
    readers: HashMap<OwnerId, Duration>,
    pub(super) expires: Duration,
}

impl Lock {
    pub(super) fn new(kind: Kind, owner: OwnerId, expires: Duration) -> Self {
        let (writer, readers) = match kind.is_read() {
            true => (None, HashMap::from([(owner, expires)])),
            false => (Some(owner), HashMap::new()),
        };
        Self { writer, readers, expires }
    }

    /// Whether readers hold it.
    pub(super) fn is_shared(&self) -> bool {
        self.writer.is_none()
    }

    /// What a look at the lock key finds.
    pub(super) fn holder(&self) -> Holder {
        self.writer.map_or(Holder::Readers, Holder::Owner)
    }

    /// The readers that hold the lock, beginning with the one that lives longest.
    pub(super) fn readers(&self, now: Duration) -> Vec<Reader> {
        let alive = self.readers.iter().filter(|(_, expires)| **expires > now);
        let mut alive: Vec<_> = alive.map(|(owner, expires)| (*expires, *owner)).collect();
        alive.sort_unstable_by(|one, other| other.cmp(one));
        alive.truncate(MAX_READERS_SEEN);
        alive.into_iter().map(|(expires, owner)| Reader { owner, remaining: expires - now }).collect()
    }

    /// Whether nobody has the lock but these.
    pub(super) fn is_held_only_by(&self, holders: &[Holder], now: Duration) -> bool {
        let is_named = |owner: OwnerId| holders.contains(&Holder::Owner(owner));
        let is_of_these = |writer: OwnerId| writer == OwnerId::NOBODY || is_named(writer);
        self.writer.is_none_or(is_of_these)
            && self.readers.iter().all(|(reader, expires)| *expires <= now || is_named(*reader))
    }

    /// Whether nobody has the lock, for a moment after an eviction.
    pub(super) fn is_nobodys(&self) -> bool {
        self.writer == Some(OwnerId::NOBODY)
    }

    pub(super) fn is_held_by(&self, owner: OwnerId, now: Duration) -> bool {
        self.writer == Some(owner) || self.readers.get(&owner).is_some_and(|expires| *expires > now)
    }

    /// Prolongs the lock of an owner, or adds a reader. A longer remaining time stays.
    pub(super) fn prolong(&mut self, owner: OwnerId, expires: Duration, now: Duration) {
        self.expires = self.expires.max(expires);
        if self.is_shared() {
            self.readers.retain(|_, expires| *expires > now);
            let reader = self.readers.entry(owner).or_default();
            *reader = expires.max(*reader);
        }
    }

    /// Removes an owner. Returns whether anybody is left, and for that long the lock then lives.
    pub(super) fn remove(&mut self, owner: OwnerId, now: Duration) -> bool {
        self.readers.remove(&owner);
        let longest = self.readers.values().copied().max().filter(|expires| *expires > now);
        // The lock ends with the last reader that is left, not with the one that leaves.
        self.expires = longest.map_or(self.expires, |longest| self.expires.min(longest));
        longest.is_some()
    }
}
