use std::time::Duration;

use super::Membership;
use super::upkeep::quarantine_length;
use crate::error::{NotMember, Refusal};
use crate::node::{Inspection, NodeRecord, Roster};
use crate::quorum::majority;
use crate::random::Epoch;

/// What a node is to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does not answer.
    Unreachable,
    /// It must not be used.
    Refused(Refusal),
    /// It votes.
    Admitted {
        /// In this epoch.
        epoch: Epoch,
        /// For this seat of the roster.
        seat: usize,
    },
    /// It has a seat, and grants nothing before its quarantine ends, which is in this time or later.
    Quarantined(Duration),
    /// It does not belong to the set.
    NotMember(NotMember),
}

impl Membership {
    /// What a node is to this client.
    pub fn standing(&self, node: usize, now: Duration) -> Standing {
        let Some(seen) = &self.nodes[node].seen else { return Standing::Unreachable };
        if let Some(refusal) = self.refusal(node) {
            return Standing::Refused(refusal);
        }
        let Some(roster) = &self.roster else { return Standing::NotMember(self.without_set(seen)) };
        if let Some(addresses) = &self.successor {
            return Standing::NotMember(NotMember::FormedOver { addresses: addresses.clone() });
        }
        // Until the set knows of locks that live that long, a node that forgot them could vote again before they have ended.
        if self.config.max_ttl > roster.max_ttl {
            let (ours, theirs) = (self.config.max_ttl, roster.max_ttl);
            return Standing::NotMember(NotMember::MaxTtl { ours, theirs });
        }
        let record = seen.record.get().filter(|record| record.run_id == seen.run_id);
        let seated = record.and_then(|record| Some((record, roster.seat_of(record.member)?)));
        if let Some((record, seat)) = seated {
            return match record.epoch {
                // Its vote would be one of an older roster, and counted by this one.
                _ if record.roster.as_ref() != Some(roster) => Standing::NotMember(NotMember::Behind),
                // A client that comes from another set waits for the locks of that one: this set does not know of them.
                Some(_) if self.hold > now => Standing::Quarantined(self.hold - now),
                Some(epoch) => Standing::Admitted { epoch, seat },
                None => {
                    let longest = || quarantine_length(roster.quarantine_ttl);
                    let left = self.quarantine_left(record.member).unwrap_or_else(longest);
                    Standing::Quarantined(left.max(self.hold.saturating_sub(now)))
                }
            };
        }
        match record {
            _ if self.majority_forgot(roster) => {
                Standing::NotMember(NotMember::MajorityForgot { missing: self.missing() })
            }
            _ if self.forgot(node, roster) => Standing::NotMember(NotMember::Forgot { missing: self.missing() }),
            Some(NodeRecord { member, was, roster: Some(left), .. })
                if left.set == roster.set
                    && was.map_or_else(|| left.contains(*member), |was| !roster.contains(was)) =>
            {
                // One that was down then, or is about to install the roster, knows only that it had a seat before.
                let seat_was_there = left.contains(was.unwrap_or(*member));
                Standing::NotMember(NotMember::Replaced {
                    since: if seat_was_there { roster.generation } else { left.generation },
                })
            }
            Some(NodeRecord { roster: Some(other), .. }) if other.set != roster.set => {
                Standing::NotMember(NotMember::OtherSet)
            }
            _ => Standing::NotMember(self.candidate(roster)),
        }
    }

    /// What a node is while this client knows no set.
    fn without_set(&self, seen: &Inspection) -> NotMember {
        match (seen.record.get(), self.contested()) {
            (Some(record), _) if record.roster.is_some() => NotMember::OtherSet,
            (_, Some(other)) => NotMember::Contested { addresses: other.addresses().join(", ") },
            _ if self.may_go_without(&self.missing()) => NotMember::Unformed { missing: Vec::new() },
            _ => NotMember::Unformed { missing: self.missing() },
        }
    }

    /// Whether a node has nobody's seat, and the memory that has its own is gone.
    fn forgot(&self, node: usize, roster: &Roster) -> bool {
        let was = self.record(node).and_then(|record| record.was);
        let mut former = was.into_iter().chain(self.nodes[node].member);
        former.any(|member| roster.contains(member) && self.node_of(member).is_none())
    }

    /// What a node without a past is to the set.
    fn candidate(&self, roster: &Roster) -> NotMember {
        let seats = roster.seats.len();
        let members = roster.members().filter(|member| self.node_of(*member).is_some()).count();
        let all_answer = (0..self.nodes.len()).all(|node| self.usable(node).is_some());
        if all_answer && members < majority(seats) {
            NotMember::Emptied { members, seats }
        } else {
            NotMember::Candidate
        }
    }

    /// The nodes that cannot be used.
    pub(super) fn missing(&self) -> Vec<String> {
        let is_missing = |node: &usize| self.usable(*node).is_none();
        (0..self.nodes.len()).filter(is_missing).map(|node| self.config.names[node].clone()).collect()
    }
}
