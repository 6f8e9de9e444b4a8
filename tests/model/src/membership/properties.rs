use super::state::MembershipState;

/// Rosters are chosen once.
pub const ONE_ROSTER: &str = "a set has one roster in each generation";
/// Rosters take turns.
pub const ONE_RULING_ROSTER: &str = "a majority votes under one roster at a time";
/// Quarantines last.
pub const QUARANTINE_IS_LONG_ENOUGH: &str =
    "a node that joined votes when every lease that was granted without it has ended";
/// Changes end.
pub const NO_DEADLOCK_OF_CHANGES: &str = "a change can be completed while a majority remembers";

impl MembershipState {
    pub(super) fn has_one_roster_each(&self) -> bool {
        let same = |one: &lock_core::node::Roster, other: &lock_core::node::Roster| {
            (one.set, one.generation) != (other.set, other.generation) || one == other
        };
        self.rosters.iter().all(|one| self.rosters.iter().all(|other| same(one, other)))
    }

    pub(super) fn has_one_ruling_roster(&self) -> bool {
        let rules = |roster: &&lock_core::node::Roster| {
            let votes = self.nodes.iter().enumerate().filter(|(index, node)| {
                let record = node.live_record(*index).filter(|record| record.epoch.is_some() && record.has_seat());
                record.is_some_and(|record| record.roster.as_ref() == Some(*roster))
            });
            votes.count() > roster.seats.len() / 2
        };
        let installed = self.nodes.iter().filter_map(|node| node.record.as_ref()?.roster.as_ref());
        let mut ruling: Vec<_> = installed.filter(rules).collect();
        ruling.dedup();
        ruling.windows(2).all(|pair| pair[0] == pair[1])
    }

    pub(super) fn is_exclusive(&self) -> bool {
        self.attempts.iter().filter(|attempt| attempt.holds(self.now)).count() <= 1
    }

    pub(super) fn quarantines_are_long_enough(&self) -> bool {
        let leases = self.attempts.iter().filter(|attempt| attempt.holds(self.now));
        leases.filter_map(|attempt| attempt.counted_by.as_ref()).all(|lease| {
            self.nodes.iter().enumerate().all(|(index, node)| {
                let votes = |record: &&lock_core::node::NodeRecord| record.epoch.is_some() && record.has_seat();
                let Some(record) = node.live_record(index).filter(votes) else { return true };
                let roster = record.roster.as_ref();
                let is_later = roster.is_some_and(|roster| roster.generation >= lease.generation && *roster != **lease);
                !is_later || lease.contains(record.member)
            })
        })
    }
}
