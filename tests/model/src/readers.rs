//! How a node executes the requests of readers.

use lock_core::quorum::{AcquireVote, RenewalVote};

use super::node::HELD;
use super::setting::Mutant;
use super::state::{CLIENTS, Key, Node, SHARED};

impl Node {
    /// Whether readers hold the lock.
    pub(super) fn is_shared(&self) -> bool {
        self.key.is_some_and(|key| key.owner == SHARED)
    }

    /// Whether a client has an entry.
    pub(super) fn reads(&self, client: usize) -> bool {
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
        if self.bars(key.owner) && !self.reads(key.owner) && mutant != Some(Mutant::AcquiresDespiteTombstone) {
            return Some(HELD);
        }
        if self.key.is_some() && !self.is_shared() {
            if mutant != Some(Mutant::ReaderBesideWriter) {
                return Some(HELD);
            }
        } else if self.key.is_none() {
            self.fence += if mutant == Some(Mutant::FirstReaderKeepsFence) { 0 } else { tokens };
            self.begin_to_read(key, mutant);
        } else if !self.reads(key.owner) {
            self.join(key, mutant);
        }
        Some(AcquireVote::Granted { token: self.fence.into() })
    }

    pub(super) fn extend_reader(&mut self, renewed: Key) -> RenewalVote {
        if !self.reads(renewed.owner) {
            return RenewalVote::Gone;
        }
        self.join(renewed, None);
        RenewalVote::Kept
    }

    pub(super) fn replace_reader(&mut self, key: Key, epoch: u8, fence: u8, mutant: Option<Mutant>) {
        let is_barred = self.bars(key.owner) && mutant != Some(Mutant::ReplacesDespiteTombstone);
        if self.epoch != epoch || self.reads(key.owner) || is_barred {
            return;
        }
        if self.is_shared() {
            self.join(key, None);
        } else if self.key.is_none() || mutant == Some(Mutant::ReplaceOverWriter) {
            self.begin_to_read(key, None);
        } else {
            return;
        }
        self.fence = self.fence.max(fence);
    }

    /// The last reader deletes the marker. Before that, it shrinks to the longest that is left.
    pub(super) fn remove_reader(&mut self, client: usize, mutant: Option<Mutant>) {
        if !self.reads(client) {
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
        let is_over = !self.is_shared() && mutant != Some(Mutant::ReaderWithoutMarker);
        for expires in &mut self.readers {
            if is_over || *expires <= now {
                *expires = 0;
            }
        }
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
        if let Some(marker) = &mut self.key
            && mutant != Some(Mutant::MarkerNotProlonged)
        {
            marker.expires = marker.expires.max(key.expires);
        }
    }
}

/// Whether a request of an owner changed what another owner has on a node.
pub(super) fn changes_foreign_key(before: &Node, after: &Node, owner: usize) -> bool {
    if before.is_shared() {
        let is_kept = |client: usize| after.is_shared() && after.readers[client] == before.readers[client];
        return (0..CLIENTS).any(|client| client != owner && before.reads(client) && !is_kept(client));
    }
    before.key.is_some_and(|held| held.owner != owner) && after.key != before.key
}
