use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use super::proposal::Decision;
use super::{Membership, Step};
use crate::node::{MemberId, NodeRecord, Roster, Seat, SetId};
use crate::quorum::majority;

/// How many sets a roster names that its set was formed over.
const MAX_FORMED_OVER: usize = 8;

impl Membership {
    /// Whether the set of this roster cannot go on, and this client may form it again.
    pub(super) fn must_form(&self, roster: &Roster) -> bool {
        self.majority_forgot(roster) || self.config.form_with_missing && !self.majority_may_remember(roster)
    }

    /// Whether more than half of the members are known to have forgotten.
    pub(super) fn majority_forgot(&self, roster: &Roster) -> bool {
        let forgot = |member: &MemberId| {
            // A copy of its data may be somewhere else.
            self.node_of(*member).is_none()
                && (0..self.nodes.len()).any(|node| {
                    let Some(seen) = self.usable(node) else { return false };
                    let record = seen.record.get();
                    let was_here = self.nodes[node].member == Some(*member);
                    record.is_some_and(|record| record.was == Some(*member) && record.member != *member)
                        || was_here && record.is_none_or(|record| record.member != *member)
                })
        };
        let left = roster.members().filter(|member| !forgot(member)).count();
        left < majority(roster.seats.len()) || self.all_forgot(roster)
    }

    /// Whether all nodes answer, at all addresses of the roster, and none is a member.
    fn all_forgot(&self, roster: &Roster) -> bool {
        let all_answer = (0..self.nodes.len()).all(|node| self.usable(node).is_some());
        // Each of the three is needed: a master that does not answer may remember, and so may one that is not in this list.
        all_answer && !self.some_remember(roster) && !self.some_are_elsewhere(roster)
    }

    /// Whether a node that answers is a member.
    fn some_remember(&self, roster: &Roster) -> bool {
        roster.members().any(|member| self.node_of(member).is_some())
    }

    /// Whether a member has an address that is not in this list.
    fn some_are_elsewhere(&self, roster: &Roster) -> bool {
        roster.seats.iter().flatten().any(|seat| !self.config.names.contains(&seat.address))
    }

    /// Whether a majority of the members answers and remembers, or does not answer.
    fn majority_may_remember(&self, roster: &Roster) -> bool {
        // One that was added, and has not begun its quarantine, never voted.
        let is_first = self.previous.is_empty();
        let joined =
            |record: &NodeRecord| is_first || record.epoch.is_some() || record.quarantine_of(record.member).is_some();
        let members = self.records().filter(|(_, record)| roster.contains(record.member));
        let remembers = members.filter(|(_, record)| joined(record)).count();
        remembers + self.missing().len() >= majority(roster.seats.len())
    }

    /// Forms a set of the nodes in this client's list, if that is safe. Returns its first roster if that was chosen.
    #[expect(clippy::result_large_err, reason = "a roster is chosen once in a long time")]
    pub(super) fn form(&mut self, now: Duration, draw: &mut dyn FnMut() -> u64) -> Result<Vec<Step>, Roster> {
        let missing = self.missing();
        let acceptors: Vec<usize> = self.records().map(|(node, _)| node).collect();
        // A node that was not tried is not missing: it may know the set that this one would take the place of.
        let all_have_ids = self.all_tried() && acceptors.len() + missing.len() == self.nodes.len();
        // A set is being formed with a master that this client does not know. If each formed its own, both would grant.
        let contested = self.contested().is_some() && !self.config.form_with_missing;
        if !self.may_go_without(&missing) || !all_have_ids || !self.may_form() || contested {
            return Ok(Vec::new());
        }
        let old = self.roster.as_ref().map(|roster| roster.set);
        // All of them, and not a majority: two clients with different lists could form two sets, each on a majority of its own.
        let quorum = acceptors.len();
        let wanted = self.first_roster(&acceptors, draw);
        let ids: BTreeSet<MemberId> = wanted.members().collect();
        let decision = Decision {
            acceptors,
            quorum,
            concerns: &|roster| Some(roster.set) != old && roster.members().all(|member| ids.contains(&member)),
            wanted: Some(wanted),
        };
        self.decide(&decision, now, draw)
    }

    /// A first roster that a node accepted, and that may have been chosen with a node that this client does not see.
    ///
    /// That node may have the name of one in this list: two servers have one name while one takes the place of the other. If this
    /// client proposed another roster, both could be chosen.
    pub(super) fn contested(&self) -> Option<&Roster> {
        let old = self.roster.as_ref().map(|roster| roster.set);
        let is_foreign = |seat: &Seat| self.node_of(seat.member).is_none();
        let accepted = (0..self.nodes.len()).filter_map(|node| self.record(node)?.accepted.as_ref());
        let rosters = accepted.map(|(_, roster)| roster).filter(|roster| Some(roster.set) != old);
        rosters.into_iter().find(|roster| roster.seats.iter().flatten().any(is_foreign))
    }

    /// Whether a set may be formed without these nodes.
    pub(super) fn may_go_without(&self, missing: &[String]) -> bool {
        let left = self.nodes.len() - missing.len();
        missing.is_empty() || self.config.form_with_missing && left >= majority(self.nodes.len())
    }

    /// Whether nothing that this client sees speaks against a new set.
    fn may_form(&self) -> bool {
        let Some(roster) = &self.roster else {
            // Nodes of several sets.
            return self.records().all(|(_, record)| record.roster.is_none()) || self.config.form_with_missing;
        };
        // If a member that remembers names one elsewhere, the set may live there: this client's, or another one that it is a member of.
        let may_live_elsewhere = self.some_remember(roster) && self.some_are_elsewhere(roster)
            || self
                .records()
                .filter(|(_, record)| record.has_seat())
                .any(|(_, record)| record.roster.as_ref().is_some_and(|other| self.some_are_elsewhere(other)));
        self.config.form_with_missing || !may_live_elsewhere
    }

    /// The masters of a set that was formed over this one and may live elsewhere, if a record tells of it.
    pub(super) fn formed_over_it(&self, roster: &Roster) -> Option<String> {
        let rosters = (0..self.nodes.len()).filter_map(|node| self.record(node)?.roster.as_ref());
        // What has become of one whose masters are all in this list, this client sees.
        let is_successor = |other: &&Roster| other.formed_over.contains(&roster.set) && self.some_are_elsewhere(other);
        let successor = rosters.filter(is_successor).max_by_key(|other| other.generation)?;
        Some(successor.addresses().join(", "))
    }

    /// The sets that a new one is formed over: those that this client knows of, by itself or by the records.
    fn formed_over(&self) -> Vec<SetId> {
        let installed = self.records().filter_map(|(_, record)| record.roster.as_ref());
        let mut rosters: Vec<&Roster> = installed.chain(&self.roster).collect();
        rosters.sort_by_key(|roster| Reverse(roster.generation));
        let mut sets: Vec<SetId> = Vec::new();
        let before = rosters.iter().flat_map(|roster| roster.formed_over.iter().copied());
        for set in rosters.iter().map(|roster| roster.set).chain(before) {
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        // The newest come first: no service is expected to be left of a set that was given up this often.
        sets.truncate(MAX_FORMED_OVER);
        sets
    }

    /// The first roster of a new set.
    fn first_roster(&self, acceptors: &[usize], draw: &mut dyn FnMut() -> u64) -> Roster {
        let seat = |node: usize| {
            let record = self.record(node).filter(|_| acceptors.contains(&node))?;
            Some(Seat { member: record.member, address: self.config.names[node].clone() })
        };
        let is_new = |record: &NodeRecord| record.was.is_none() && record.roster.is_none();
        let all_new = self.records().all(|(_, record)| is_new(record))
            && acceptors.len() == self.nodes.len()
            && self.contested().is_none();
        // Newer than those that this client knows and those that the nodes have, of which it may have missed some: a node installs no
        // roster of another set that is not newer.
        let installed = self.records().filter_map(|(_, record)| record.roster.as_ref());
        let newest = installed.chain(&self.roster).map(|roster| roster.generation).max();
        let generation = match &self.roster {
            None if all_new => 1,
            // Some of the nodes may have granted locks: all of them sit out a quarantine.
            _ => newest.unwrap_or(1).saturating_add(1),
        };
        // Any of the nodes may have granted locks, of whatever set it was.
        let installed = self.records().filter_map(|(_, record)| record.roster.as_ref());
        let accepted = self.records().filter_map(|(_, record)| Some(&record.accepted.as_ref()?.1));
        let quarantines = installed.chain(accepted).chain(&self.roster).map(|roster| roster.quarantine_ttl);
        Roster {
            set: SetId(draw()),
            generation,
            max_ttl: self.config.max_ttl,
            quarantine_ttl: quarantines.fold(self.config.max_ttl, Duration::max),
            formed_over: self.formed_over(),
            name: self.config.set_name.clone(),
            division: self.config.division,
            seats: (0..self.nodes.len()).map(seat).collect(),
        }
    }
}
