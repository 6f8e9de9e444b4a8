//! What a node does with a message: the rules that are told at [`lock_core::Request`], on small numbers.

use lock_core::quorum::{AcquireVote, ConfirmVote, RenewalVote};

use super::setting::Rules;
use super::state::{Key, Node};

/// That of another.
pub(super) const HELD: AcquireVote = AcquireVote::Held { remaining: None };

impl Node {
    /// Whether it sits out.
    #[must_use]
    pub fn is_quarantined(&self) -> bool {
        self.quarantine != 0
    }

    pub(super) fn is_held_by(&self, owner: usize) -> bool {
        self.key.is_some_and(|key| key.owner == owner)
    }

    /// `None` is no vote.
    pub(super) fn acquire(&mut self, key: Key, epoch: u8, hint: u8, tokens: u8) -> Option<AcquireVote> {
        if self.epoch != epoch || self.is_quarantined() {
            return None;
        }
        if self.key.is_some_and(|held| held.owner != key.owner) {
            return Some(HELD);
        }
        if self.key.is_none() {
            self.fence = hint.max(self.fence + 1) + tokens - 1;
            self.key = Some(key);
        }
        Some(AcquireVote::Granted { token: self.fence.into() })
    }

    pub(super) fn confirm(&mut self, owner: usize, fence: u8, rules: Rules) -> ConfirmVote {
        let ours = match rules {
            Rules::ConfirmWithoutOwner => true,
            Rules::ConfirmOwnGrant => self.is_held_by(owner) || self.fence == fence,
            _ => self.is_held_by(owner),
        };
        if ours && self.fence <= fence {
            self.fence = fence;
            ConfirmVote::Confirmed
        } else {
            ConfirmVote::Refused { fence: self.fence.into() }
        }
    }

    pub(super) fn extend(&mut self, renewed: Key, rules: Rules) -> RenewalVote {
        match &mut self.key {
            Some(key) if key.owner == renewed.owner || rules == Rules::ExtendForAnyone => {
                key.expires = key.expires.max(renewed.expires);
                RenewalVote::Kept
            }
            None if rules == Rules::CountsReplaced => {
                self.key = Some(renewed);
                RenewalVote::Kept
            }
            _ => RenewalVote::Gone,
        }
    }

    pub(super) fn replace(&mut self, key: Key, epoch: u8, fence: u8) {
        if self.epoch == epoch && self.key.is_none() {
            self.key = Some(key);
            self.fence = self.fence.max(fence);
        }
    }

    pub(super) fn release(&mut self, owner: usize, rules: Rules) {
        if self.is_held_by(owner) || rules == Rules::ReleaseForAnyone {
            self.key = None;
        }
    }

    /// Restarts empty. From its first contact on it sits out, which is at the earliest now.
    pub(super) fn forget(&mut self, sits_out_until: u8) {
        *self = Self { key: None, fence: 0, epoch: self.epoch + 1, quarantine: sits_out_until };
    }

    /// What ends with time, ends.
    pub(super) fn pass_time(&mut self, now: u8, rules: Rules) {
        if rules != Rules::KeysWithoutEnd {
            self.key = self.key.filter(|key| key.expires > now);
        }
        if self.quarantine <= now {
            self.quarantine = 0;
        }
    }
}
