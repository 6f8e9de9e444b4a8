//! How a node executes the requests of readers.

use lock_core::quorum::{AcquireVote, KeyVote};

use super::mutant::Mutant;
use super::node::HELD;
use super::state::{CLIENTS, Key, Node, SHARED};

impl Node {
    /// Whether readers hold the lock.
    pub(super) fn is_shared(&self) -> bool {
        self.key.is_some_and(|key| key.owner == SHARED)
    }

    /// Whether a client has an entry.
    pub(super) fn has_entry(&self, client: usize) -> bool {
        self.readers.get(client).is_some_and(|expires| *expires > 0)
    }

    /// Returns `None` if the node does not vote, as for a writer.
    pub(super) fn acquire_to_read(
        &mut self,
        key: Key,
        epoch: u8,
        tokens: u8,
        mutant: Option<Mutant>,
    ) -> Option<AcquireVote> {
        if self.epoch != epoch || self.is_quarantined() {
            return None;
        }
        let is_ours = self.is_shared() && self.has_entry(key.owner);
        if self.is_barred_from_reading(key.owner, mutant) && !is_ours {
            return Some(HELD);
        }
        if self.key.is_some() && !self.is_shared() {
            if mutant != Some(Mutant::ReaderBesideWriter) {
                return Some(HELD);
            }
        } else if self.key.is_none() {
            self.fence += if mutant == Some(Mutant::FirstReaderKeepsFence) { 0 } else { tokens };
            self.begin_to_read(key, mutant);
        } else if !is_ours {
            self.join(key, mutant);
        }
        Some(AcquireVote::Granted { token: self.fence.into() })
    }

    pub(super) fn extend_reader(&mut self, renewed: Key, mutant: Option<Mutant>) -> KeyVote {
        if !self.has_entry(renewed.owner) {
            return KeyVote::Gone;
        }
        self.join(renewed, mutant);
        KeyVote::Held
    }

    /// The writer becomes the first reader, in one step. `None` if the reply is still to come.
    pub(super) fn downgrade(&mut self, reader: Key, mutant: Option<Mutant>) -> Option<KeyVote> {
        if self.is_shared() {
            return Some(self.extend_reader(reader, mutant));
        }
        let Some(held) = self.key else {
            if mutant == Some(Mutant::DowngradeWithGap) {
                self.begin_to_read(reader, mutant);
                return Some(KeyVote::Held);
            }
            return Some(KeyVote::Gone);
        };
        if held.owner != reader.owner && mutant != Some(Mutant::DowngradeForAnyOwner) {
            return Some(KeyVote::Gone);
        }
        if mutant == Some(Mutant::DowngradeWithGap) {
            self.key = None;
            return None;
        }
        self.begin_to_read(Key { expires: held.expires.max(reader.expires), ..reader }, mutant);
        Some(KeyVote::Held)
    }

    pub(super) fn replace_reader(&mut self, key: Key, epoch: u8, fence: u8, mutant: Option<Mutant>) {
        let is_ours = self.is_shared() && self.has_entry(key.owner);
        if self.epoch != epoch || is_ours || self.is_barred_from_reading(key.owner, mutant) {
            return;
        }
        if self.is_shared() {
            self.join(key, mutant);
            self.fence = self.fence.max(fence);
        } else if self.key.is_none() || mutant == Some(Mutant::ReplaceOverWriter) {
            self.begin_to_read(key, None);
            self.fence = if self.fence > fence { self.fence + 1 } else { fence };
        }
    }

    /// The last reader deletes the marker. Before that, it shrinks to the longest that is left.
    pub(super) fn remove_reader(&mut self, client: usize, mutant: Option<Mutant>) {
        if !self.has_entry(client) {
            return;
        }
        self.readers[client] = 0;
        let longest = self.readers.into_iter().max().filter(|expires| *expires > 0);
        self.key = match longest {
            Some(expires) if mutant != Some(Mutant::FirstLeaverDeletesMarker) => Some(Key { owner: SHARED, expires }),
            _ => None,
        };
    }

    /// Entries end with the marker, or before it.
    pub(super) fn expire_readers(&mut self, now: u8, mutant: Option<Mutant>) {
        let stay = match mutant {
            Some(Mutant::ReaderWithoutMarker) => self.readers.map(|expires| expires > now),
            Some(Mutant::ConfirmWithoutMarker) => [true; CLIENTS],
            Some(Mutant::ExpiredReaderCounts) => [self.is_shared(); CLIENTS],
            _ => self.readers.map(|expires| self.is_shared() && expires > now),
        };
        for (expires, _) in self.readers.iter_mut().zip(stay).filter(|(_, stays)| !stays) {
            *expires = 0;
        }
    }

    fn is_barred_from_reading(&self, owner: usize, mutant: Option<Mutant>) -> bool {
        self.bars(owner) && mutant != Some(Mutant::ReadsDespiteTombstone)
    }

    fn begin_to_read(&mut self, key: Key, mutant: Option<Mutant>) {
        self.readers = [0; CLIENTS];
        self.readers[key.owner] = key.expires;
        if mutant != Some(Mutant::ReaderWithoutMarker) {
            self.key = Some(Key { owner: SHARED, ..key });
        }
    }

    fn join(&mut self, key: Key, mutant: Option<Mutant>) {
        self.readers[key.owner] = self.readers[key.owner].max(key.expires);
        if let Some(marker) = &mut self.key {
            marker.expires = match mutant {
                Some(Mutant::MarkerNotProlonged) => marker.expires,
                Some(Mutant::MarkerShrunkByJoin) => key.expires,
                _ => marker.expires.max(key.expires),
            };
        }
    }
}

/// Whether a request of an owner changed what another owner has on a node.
pub(super) fn changes_foreign_key(before: &Node, after: &Node, owner: usize) -> bool {
    if before.is_shared() {
        let is_kept = |client: usize| after.is_shared() && after.readers[client] == before.readers[client];
        return (0..CLIENTS).any(|client| client != owner && before.has_entry(client) && !is_kept(client));
    }
    before.key.is_some_and(|held| held.owner != owner) && after.key != before.key
}
