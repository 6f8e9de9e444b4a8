use std::time::Duration;

use super::proposal::Decision;
use super::{Membership, Step};
use crate::node::{NodeRecord, Roster, Seat};
use crate::quorum::majority;

/// A change of the roster that a client does not ask for by its list and its `max_ttl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Lowers the longest time to live of any lock. Nodes that join still sit out the old one.
    LowerMaxTtl(Duration),
    /// Lowers the quarantine to `max_ttl`. Only when every lock that was granted before `max_ttl` was lowered has ended, and
    /// only if this is still the generation: in between, `max_ttl` may have been raised and lowered again.
    LowerQuarantine {
        /// The generation of the roster since which no longer lock is granted.
        generation: u64,
    },
}

impl Membership {
    /// Works on the next roster. Returns it if it was chosen, and otherwise proposes the one that this client wants, if any.
    #[expect(clippy::result_large_err, reason = "a roster is chosen once in a long time")]
    pub(super) fn change(
        &mut self,
        roster: &Roster,
        now: Duration,
        draw: &mut dyn FnMut() -> u64,
    ) -> Result<Vec<Step>, Roster> {
        let acceptors = self.records().filter(|(_, record)| record.is_seated_in(roster));
        let decision = Decision {
            // Of the present roster: it and the next one are never both in use, as each majority of it knows what was chosen.
            acceptors: acceptors.map(|(node, _)| node).collect(),
            quorum: majority(roster.seats.len()),
            concerns: &|next| next.set == roster.set && next.generation == roster.generation.saturating_add(1),
            wanted: self.wanted(roster),
        };
        self.decide(&decision, now, draw)
    }

    /// The next roster that this client wants: one that seats a node of its list, or allows its `max_ttl`, or what was asked for.
    fn wanted(&self, roster: &Roster) -> Option<Roster> {
        let next = Roster { generation: roster.generation.saturating_add(1), ..roster.clone() };
        // Before the seats: until then, this client grants nothing at all.
        if self.config.max_ttl > roster.max_ttl && self.has_majority_without(roster, None) {
            let max_ttl = self.config.max_ttl;
            return Some(Roster { max_ttl, quarantine_ttl: roster.quarantine_ttl.max(max_ttl), ..next });
        }
        let seated = self.records().find_map(|(node, record)| {
            let seat = self.seat_for(node, record, roster)?;
            self.has_majority_without(roster, Some(seat)).then_some((seat, node, record.member))
        });
        if let Some((seat, node, member)) = seated {
            let mut next = next;
            next.seats[seat] = Some(Seat { member, address: self.config.names[node].clone() });
            return Some(next);
        }
        match self.request? {
            Change::LowerMaxTtl(max_ttl) if max_ttl < roster.max_ttl => Some(Roster { max_ttl, ..next }),
            Change::LowerQuarantine { generation } if roster.generation == generation => {
                Some(Roster { quarantine_ttl: roster.max_ttl, ..next })
            }
            _ => None,
        }
    }

    /// The seat that a node may take.
    fn seat_for(&self, node: usize, record: &NodeRecord, roster: &Roster) -> Option<usize> {
        if roster.contains(record.member) || record.has_seat() {
            return None;
        }
        let seats = || roster.seats.iter().enumerate();
        let find = |fits: &dyn Fn(&Option<Seat>) -> bool| seats().find(|(_, seat)| fits(seat)).map(|(index, _)| index);
        // A copy of another master's data has its id. That one may be there; then this one is new, or has had a seat of its own.
        let (own, names) = (&self.config.names[node], &self.config.names);
        let absent = |seat: &Seat| self.node_of(seat.member).is_none();
        let taken =
            |fits: &dyn Fn(&Seat) -> bool| find(&|seat| seat.as_ref().is_some_and(|seat| absent(seat) && fits(seat)));
        let own_seat = || {
            taken(&|seat| self.nodes[node].member == Some(seat.member)).or_else(|| taken(&|seat| seat.address == *own))
        };
        if let Some(was) = record.was.filter(|was| self.node_of(*was).is_none_or(|other| other == node)) {
            // It had a seat. Its data may be older than the id that it had last; that one was at the same address. If the seat is
            // somebody else's now, its list is an old one.
            return taken(&|seat| seat.member == was).or_else(own_seat);
        }
        // A node that does not answer, and that the roster may know by another address, may have any of those seats.
        let has_address = |name: &String| roster.seats.iter().flatten().any(|seat| seat.address == *name);
        let unknown = |other: usize| self.usable(other).is_none() && !has_address(&names[other]);
        let all_known = !(0..self.nodes.len()).any(unknown);
        own_seat()
            .or_else(|| find(&Option::is_none))
            .or_else(|| taken(&|seat| all_known && !names.contains(&seat.address)))
    }

    /// Whether the members that vote are a majority, without the one in this seat: otherwise a change would stop the set.
    fn has_majority_without(&self, roster: &Roster, seat: Option<usize>) -> bool {
        let leaving = seat.and_then(|seat| roster.seats[seat].as_ref()).map(|seat| seat.member);
        let votes = |record: &NodeRecord| {
            record.is_seated_in(roster) && leaving != Some(record.member) && record.epoch.is_some()
        };
        self.records().filter(|(_, record)| votes(record)).count() >= majority(roster.seats.len())
    }
}
