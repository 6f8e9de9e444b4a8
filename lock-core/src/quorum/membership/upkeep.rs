//! Bringing every node up to the newest roster: ids, installs, joins, quarantines.

use std::time::Duration;

use super::{Membership, Step};
use crate::node::{FoundRecord, Inspection, MemberId, NodeRecord, RecordWrite, Roster};
use crate::quorum::{drift, majority};
use crate::random::Epoch;

/// How long a node that joins grants nothing: `quarantine_ttl`, and twice the drift. Its clock may be fast while that of a holder whose lock
/// it forgot is slow, and each of them drifts.
pub fn quarantine_length(quarantine_ttl: Duration) -> Duration {
    quarantine_ttl.saturating_add(drift(quarantine_ttl).saturating_mul(2))
}

impl Membership {
    /// Gives an id to each node that has none, or may have lost the memory that its id stands for.
    pub(super) fn identities(&self, draw: &mut dyn FnMut() -> u64) -> Vec<Step> {
        let all = 0..self.nodes.len();
        all.filter_map(|node| Some(Step::Write { node, write: self.identity(self.usable(node)?, draw)? })).collect()
    }

    fn identity(&self, seen: &Inspection, draw: &mut dyn FnMut() -> u64) -> Option<RecordWrite> {
        let candidate = |was, draw: &mut dyn FnMut() -> u64| {
            let (run_id, member) = (seen.run_id.clone(), MemberId { random: draw(), micros: 0 });
            NodeRecord { run_id, member, was, ..NodeRecord::default() }
        };
        let write =
            |expected, record| RecordWrite { expected, record, new_member: true, begin: Vec::new(), floor: None };
        match &seen.record {
            FoundRecord::None => Some(write(None, candidate(None, draw))),
            // What another version wrote there is not known, so it is not overwritten.
            FoundRecord::OtherFormat(_) => None,
            FoundRecord::Record(record) if record.run_id == seen.run_id => None,
            FoundRecord::Record(record) if self.config.assume_durable && seen.durable && record.epoch.is_some() => {
                let run_id = seen.run_id.clone();
                Some(RecordWrite::replacing(record, NodeRecord { run_id, epoch: Some(epoch(draw)), ..record.clone() }))
            }
            FoundRecord::Record(record) => {
                // The seat belongs to the id that it had. By it, the set knows whose place the new one takes.
                let was = if record.has_seat() { Some(record.member) } else { record.was };
                let remembered = NodeRecord {
                    roster: record.roster.clone(),
                    previous: record.previous.clone(),
                    ..candidate(was, draw)
                };
                Some(write(Some((record.member, record.version)), remembered))
            }
        }
    }

    /// What is to be done so that all nodes have this roster and its members vote.
    pub(super) fn upkeep(&self, roster: &Roster, clock: u64, draw: &mut dyn FnMut() -> u64) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for (node, record) in self.records() {
            let is_member = roster.contains(record.member);
            if record.roster.as_ref() != Some(roster) {
                if may_install(record, roster) {
                    let write = RecordWrite::replacing(record, self.installed(record, roster, draw));
                    steps.push(Step::Write { node, write });
                }
            } else if is_member && record.epoch.is_none() {
                match record.quarantine_of(record.member) {
                    None => self.join(node, record, roster, clock, &mut steps),
                    Some(_) if self.quarantine_left(record.member) == Some(Duration::ZERO) => {
                        let mut admitted = NodeRecord { epoch: Some(epoch(draw)), ..record.clone() };
                        admitted.quarantines.retain(|quarantine| quarantine.member != record.member);
                        steps.push(Step::Write { node, write: RecordWrite::replacing(record, admitted) });
                    }
                    Some(_) => self.observe_quarantine(record.member, roster, &mut steps),
                }
            }
        }
        // A node carries out one step at a time: a write before a reading.
        steps.sort_by_key(|step| matches!(step, Step::ReadFence { .. }));
        steps.dedup();
        steps
    }

    /// The record of a node that installs a roster.
    fn installed(&self, record: &NodeRecord, roster: &Roster, draw: &mut dyn FnMut() -> u64) -> NodeRecord {
        let is_member = roster.contains(record.member);
        let same_set = record.roster.as_ref().is_some_and(|before| before.set == roster.set);
        // The members of a new set have forgotten nothing. All others have to join.
        let votes = record.epoch.is_some() && same_set || roster.generation == 1;
        let mut quarantines = record.quarantines.clone();
        quarantines.retain(|quarantine| roster.contains(quarantine.member) && same_set);
        NodeRecord {
            was: (!is_member).then_some(record.member),
            epoch: votes.then(|| epoch(draw)),
            roster: Some(roster.clone()),
            previous: self.previous.clone(),
            promised: None,
            accepted: None,
            quarantines,
            ..record.clone()
        }
    }

    /// Begins the quarantine of a node whose floor is known, or finds out the floor.
    fn join(&self, node: usize, record: &NodeRecord, roster: &Roster, clock: u64, steps: &mut Vec<Step>) {
        let formed_again = self.previous.is_empty();
        let counts = |other: &NodeRecord| {
            // Only those that voted by the roster before know which tokens were given.
            let remembers = other.epoch.is_some() && self.previous.contains(&other.member);
            other.roster.as_ref() == Some(roster) && (remembers || formed_again)
        };
        let mut fences = Vec::new();
        for (other, record) in self.records().filter(|(_, record)| counts(record)) {
            match self.nodes[other].fence.filter(|fence| fence.member == record.member) {
                Some(fence) => fences.push(fence.highest),
                None => steps.push(Step::ReadFence { node: other, roster: roster.id() }),
            }
        }
        // Every token that was given to a holder is known to one of them: it was granted by a majority, too.
        if fences.len() >= majority(roster.seats.len()) {
            // What a majority forgot is lost. The clock is ahead of it, as far as clocks can be trusted.
            let fallback = if formed_again { clock } else { 0 };
            let floor = fences.into_iter().max().unwrap_or_default().max(fallback);
            let begin = vec![(record.member, quarantine_length(roster.quarantine_ttl))];
            let write = RecordWrite { begin, floor: Some(floor), ..RecordWrite::replacing(record, record.clone()) };
            steps.push(Step::Write { node, write });
        }
    }

    /// Begins to observe a quarantine on the members that do not.
    fn observe_quarantine(&self, member: MemberId, roster: &Roster, steps: &mut Vec<Step>) {
        for (node, record) in self.records() {
            // One write at a time: a second would expect a version that the first replaces.
            let is_written = steps.iter().any(|step| matches!(step, Step::Write { node: other, .. } if *other == node));
            if record.is_seated_in(roster) && record.quarantine_of(member).is_none() && !is_written {
                let begin = vec![(member, quarantine_length(roster.quarantine_ttl))];
                let write = RecordWrite { begin, ..RecordWrite::replacing(record, record.clone()) };
                steps.push(Step::Write { node, write });
            }
        }
    }

    /// How long until two nodes say that a quarantine is over, so that no wrong clock ends it alone; `None` while too few observe it.
    pub(super) fn quarantine_left(&self, member: MemberId) -> Option<Duration> {
        let left = |node: usize| {
            let seen = self.usable(node)?;
            let record = seen.record.get().filter(|record| record.run_id == seen.run_id && record.has_seat())?;
            Some(Duration::from_micros(record.quarantine_of(member)?.saturating_sub(seen.clock_micros)))
        };
        let mut left: Vec<Duration> = (0..self.nodes.len()).filter_map(left).collect();
        // The second to end: one clock that was stepped forward is not enough.
        left.sort_unstable();
        left.get(self.nodes.len().min(2) - 1).copied()
    }

    /// How long until the next quarantine ends that keeps a node from voting: one that it observes, on its clock when it was last read; or
    /// that of this client, which left a set.
    pub fn next_quarantine_end(&self, node: usize, now: Duration) -> Option<Duration> {
        let seen = self.usable(node)?;
        let observed = seen.record.get()?.quarantines.iter().map(|quarantine| quarantine.ends);
        let observed = observed.filter_map(|ends| ends.checked_sub(seen.clock_micros)).map(Duration::from_micros);
        observed.chain(self.hold.checked_sub(now)).filter(|left| !left.is_zero()).min()
    }
}

/// Whether a node has to install a roster. Never one of another set that is not newer: a node is in use by one set.
fn may_install(record: &NodeRecord, roster: &Roster) -> bool {
    let same_set = record.roster.as_ref().is_some_and(|before| before.set == roster.set);
    let is_newer = record.roster.as_ref().is_none_or(|before| before.generation < roster.generation);
    // The node that leaves installs it, too: its fences count for the floor.
    is_newer && (roster.contains(record.member) || same_set && record.has_seat())
}

fn epoch(draw: &mut dyn FnMut() -> u64) -> Epoch {
    Epoch::from_bits(u128::from(draw()) << 64 | u128::from(draw()))
}
