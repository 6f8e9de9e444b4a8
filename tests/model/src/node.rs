//! How a node executes a request: the rules of [`lock_core::node::Operation`], on small integers.

use lock_core::quorum::{AcquireVote, ConfirmVote, KeyVote};

use super::eviction::Owners;
use super::mutant::Mutant;
use super::state::{Key, Node, SHARED};

/// The vote of a node on which another owner holds the key.
pub(super) const HELD: AcquireVote = AcquireVote::Held { remaining: None };

impl Node {
    /// Whether the node is in quarantine, where it grants nothing.
    #[must_use]
    pub fn is_quarantined(&self) -> bool {
        self.quarantine != 0
    }

    pub(super) fn is_held_by(&self, owner: usize) -> bool {
        self.key.is_some_and(|key| key.owner == owner || key.owner == SHARED && self.has_entry(owner))
    }

    /// Whether an owner has the key, and its entry has not expired if it reads.
    pub(super) fn is_held_in_time_by(&self, owner: usize, now: u8) -> bool {
        self.is_held_by(owner) && !(self.is_shared() && self.readers[owner] <= now)
    }

    /// Returns `None` if the node does not vote: the request is for a past epoch, or the node is in quarantine.
    pub(super) fn acquire(&mut self, key: Key, epoch: u8, tokens: u8, mutant: Option<Mutant>) -> Option<AcquireVote> {
        if self.epoch != epoch || self.is_quarantined() {
            return None;
        }
        if self.key.is_some_and(|held| held.owner != key.owner) {
            return Some(HELD);
        }
        if self.key.is_none() && self.bars(key.owner) && mutant != Some(Mutant::AcquiresDespiteTombstone) {
            return Some(HELD);
        }
        if self.key.is_none() {
            self.fence += tokens;
            self.key = Some(key);
        }
        Some(AcquireVote::Granted { token: self.fence.into() })
    }

    pub(super) fn confirm(&mut self, owner: usize, fence: u8, mutant: Option<Mutant>) -> ConfirmVote {
        let ours = match mutant {
            Some(Mutant::ConfirmWithoutOwnerCheck) => true,
            Some(Mutant::ConfirmOfEqualFence) => self.is_held_by(owner) || self.fence == fence,
            Some(Mutant::ConfirmWithoutMarker) => self.is_held_by(owner) || self.has_entry(owner),
            _ => self.is_held_by(owner),
        };
        let is_relaxed = mutant == Some(Mutant::RelaxedConfirm) && self.has_entry(owner);
        if ours && (self.fence <= fence || is_relaxed) {
            self.fence = self.fence.max(fence);
            ConfirmVote::Confirmed
        } else {
            ConfirmVote::Refused { fence: self.fence.into() }
        }
    }

    pub(super) fn extend(&mut self, renewed: Key, mutant: Option<Mutant>) -> KeyVote {
        if self.is_shared() {
            return self.extend_reader(renewed, mutant);
        }
        match &mut self.key {
            Some(key) if key.owner == renewed.owner || mutant == Some(Mutant::ExtendWithoutOwnerCheck) => {
                key.expires = key.expires.max(renewed.expires);
                KeyVote::Held
            }
            None if mutant == Some(Mutant::CountsReplacedKeys) => {
                self.key = Some(renewed);
                KeyVote::Held
            }
            _ => KeyVote::Gone,
        }
    }

    pub(super) fn replace(&mut self, key: Key, epoch: u8, fence: u8, mutant: Option<Mutant>) {
        let is_barred = self.bars(key.owner) && mutant != Some(Mutant::ReplacesDespiteTombstone);
        if self.epoch == epoch && self.key.is_none() && !is_barred {
            self.key = Some(key);
            self.fence = self.fence.max(fence);
        }
    }

    pub(super) fn release(&mut self, owner: usize, mutant: Option<Mutant>) {
        if self.is_shared() {
            self.remove_reader(owner, mutant);
        } else if self.is_held_by(owner) || mutant == Some(Mutant::ReleaseWithoutOwnerCheck) {
            self.key = None;
        }
    }

    /// Loses its data, and joins with this fence.
    pub(super) fn forget(&mut self, floor: u8, quarantine_end: u8) {
        *self = Self { fence: floor, epoch: self.epoch, forgot: true, quarantine: quarantine_end, ..Self::default() };
    }

    /// Ends the key if it ends by `now`.
    pub(super) fn expire_key(&mut self, now: u8, mutant: Option<Mutant>) {
        if mutant != Some(Mutant::KeysNeverExpire) {
            self.key = self.key.filter(|key| key.expires > now);
            self.expire_readers(now, mutant);
        }
    }

    /// Ends the key, the tombstone and the quarantine if they end by `now`.
    pub(super) fn pass_time(&mut self, now: u8, mutant: Option<Mutant>) {
        self.expire_key(now, mutant);
        if self.barred_until <= now {
            (self.barred, self.barred_until) = (Owners::default(), 0);
        }
        if self.quarantine <= now {
            self.quarantine = 0;
        }
    }
}
