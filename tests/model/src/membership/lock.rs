use lock_core::node::{Epoch, Roster};
use lock_core::quorum::{RollCall, majority};

use super::model::MembershipModel;
use super::node::ticks;
use super::setting::MembershipMutant;
use super::shared::Shared;
use super::state::{MemberAttempt, MembershipState, Phase};

impl MemberAttempt {
    /// Forgets what does not matter any more.
    pub(super) fn tidy(&mut self, now: u8, timed: bool) {
        let over = timed && now >= self.until;
        match self.phase {
            Phase::Gathering | Phase::Confirming if over => (self.phase, self.token) = (Phase::Done, 0),
            Phase::Held | Phase::Renewing if over || !timed => self.phase = Phase::Done,
            _ => {}
        }
        if self.phase == Phase::Done {
            *self = Self { phase: Phase::Done, token: self.token, ..Self::default() };
        }
    }
}

impl MembershipModel {
    /// Begins an attempt: its requests are addressed to the nodes that the client counts now.
    pub(super) fn begin(&self, state: &mut MembershipState, attempt: usize) -> Option<()> {
        let after = state.attempts.iter().filter(|other| other.is_granted()).map(|other| other.token).max();
        let (epochs, roll, counted_by) = self.asked(state, attempt)?;
        let places = epochs.len();
        let ttl = self.ttl_under(&counted_by);
        state.attempts[attempt] = MemberAttempt {
            phase: Phase::Gathering,
            began: state.now,
            after: after.unwrap_or_default(),
            epochs,
            roll,
            asked_by: Some(counted_by.clone()),
            counted_by: Some(counted_by),
            votes: vec![0; places],
            confirmed: vec![false; places],
            token: 0,
            until: state.now + ttl,
            ttl,
            renewals: 0,
        };
        Some(())
    }

    pub(super) fn renew(&self, state: &mut MembershipState, attempt: usize) -> Option<()> {
        let (epochs, roll, asked_by) = self.asked(state, attempt)?;
        let (now, places, ttl) = (state.now, epochs.len(), self.ttl_under(&asked_by));
        let renewing = &mut state.attempts[attempt];
        (renewing.phase, renewing.began, renewing.renewals) = (Phase::Renewing, now, renewing.renewals + 1);
        (renewing.epochs, renewing.roll) = (epochs, roll);
        (renewing.votes, renewing.asked_by) = (vec![0; places], Some(asked_by));
        renewing.ttl = ttl;
        Some(())
    }

    /// The epochs of all nodes that the client of an attempt counts, the seats that it asks, and the roster that it counts by.
    fn asked(&self, state: &MembershipState, attempt: usize) -> Option<(Vec<Option<Epoch>>, RollCall, Shared<Roster>)> {
        let mind = &state.clients[self.setting.attempts[attempt]];
        let mut roll = RollCall::default();
        let votes = mind.votes(state.now, &self.setting);
        let epochs: Vec<_> = votes.into_iter().map(|vote| self.call(&mut roll, vote)).collect();
        if epochs.iter().flatten().count() < self.majority() {
            return None;
        }
        Some((epochs, roll, Shared::new(mind.membership.roster()?.clone())))
    }

    /// The epoch in which a node is asked, unless its seat was asked before.
    fn call(&self, roll: &mut RollCall, vote: Option<(Epoch, Option<usize>)>) -> Option<Epoch> {
        let (epoch, seat) = vote?;
        let is_called = |seat| roll.call(1, seat).is_ok() || self.setting.is(MembershipMutant::SeatAskedTwice);
        seat.is_none_or(is_called).then_some(epoch)
    }

    /// An attempt asks a node that its client has found since it began.
    pub(super) fn ask_late(&self, state: &mut MembershipState, attempt: usize, place: usize) -> Option<()> {
        let mind = &state.clients[self.setting.attempts[attempt]];
        let what = &mut state.attempts[attempt];
        if mind.membership.roster() != what.asked_by.as_deref() {
            return None;
        }
        let vote = mind.votes(state.now, &self.setting)[place];
        what.epochs[place] = Some(self.call(&mut what.roll, vote)?);
        Some(())
    }

    fn ttl_under(&self, roster: &Roster) -> u8 {
        if self.setting.is_timed() { ticks(roster) } else { 1 }
    }

    pub(super) fn majority(&self) -> usize {
        majority(self.setting.lists[0].len())
    }

    /// A node executes the next request of an attempt, over an address of the list. The reply arrives at once; a late one has the effect of a late request.
    pub(super) fn execute(&self, state: &mut MembershipState, attempt: usize, place: usize) -> Option<()> {
        let (now, timed) = (state.now, self.setting.is_timed());
        let node = self.setting.lists[self.setting.attempts[attempt]][place];
        let what = &mut state.attempts[attempt];
        let ttl = what.ttl;
        let target = &mut state.nodes[node];
        let epoch = target.live_record(node)?.epoch;
        if epoch.is_none() || epoch != what.epochs[place] {
            return None;
        }
        let held = target.key.filter(|(_, expires)| !timed || now < *expires);
        let ours = held.is_some_and(|(owner, _)| owner == attempt);
        match what.phase {
            Phase::Gathering => {
                // Without time, a key may have expired by now.
                if what.votes[place] != 0 || timed && held.is_some() && !ours {
                    return None;
                }
                // What it granted over another address, it grants again.
                if !(timed && ours) {
                    target.fence += 1;
                    target.key = Some((attempt, if timed { now + ttl } else { 0 }));
                }
                what.votes[place] = target.fence;
            }
            Phase::Confirming => {
                if what.votes[place] == 0 || what.confirmed[place] || !ours || target.fence > what.token {
                    return None;
                }
                target.fence = what.token;
                what.confirmed[place] = true;
            }
            Phase::Renewing => {
                if !ours || what.votes[place] != 0 {
                    return None;
                }
                target.key = held.map(|(owner, expires)| (owner, expires.max(now + ttl)));
                what.votes[place] = 1;
            }
            Phase::Idle | Phase::Held | Phase::Done => return None,
        }
        self.count(state, attempt);
        Some(())
    }

    /// Counts votes, as the shipped `Acquisition` does: a majority with one token, or one that confirms the largest.
    fn count(&self, state: &mut MembershipState, attempt: usize) {
        let majority = self.majority();
        let what = &mut state.attempts[attempt];
        let votes = || what.votes.iter().copied().filter(|vote| *vote != 0);
        if votes().count() < majority {
            return;
        }
        match what.phase {
            Phase::Gathering => {
                let largest = votes().max().unwrap_or_default();
                let agreed = |token: u8| votes().filter(|vote| *vote == token).count() >= majority;
                let token = votes().find(|token| agreed(*token));
                what.token = token.unwrap_or(largest);
                what.phase = if token.is_some() { Phase::Held } else { Phase::Confirming };
            }
            Phase::Confirming if what.confirmed.iter().filter(|confirmed| **confirmed).count() >= majority => {
                what.phase = Phase::Held;
            }
            Phase::Renewing => {
                (what.phase, what.until) = (Phase::Held, what.until.max(what.began + what.ttl));
                what.counted_by = what.asked_by.clone();
                return;
            }
            _ => return,
        }
        if what.phase == Phase::Held {
            let (token, after) = (what.token, what.after);
            let others = state.attempts.iter().enumerate().filter(|(other, _)| *other != attempt);
            let equal = others.into_iter().any(|(_, other)| other.is_granted() && other.token == token);
            state.unordered_token |= equal || token <= after;
        }
    }

    /// Ends an attempt. The keys of a lease are deleted; those of an attempt that was given up stay until they expire.
    pub(super) fn end(state: &mut MembershipState, attempt: usize) {
        let what = &mut state.attempts[attempt];
        let granted = matches!(what.phase, Phase::Held | Phase::Renewing);
        what.token = if granted { what.token } else { 0 };
        what.phase = Phase::Done;
        if granted {
            let mut nodes = state.nodes.iter_mut();
            nodes
                .by_ref()
                .filter(|node| node.key.is_some_and(|(owner, _)| owner == attempt))
                .for_each(|node| node.key = None);
        }
    }
}

impl MemberAttempt {
    /// Whether it was granted a token.
    pub(super) fn is_granted(&self) -> bool {
        match self.phase {
            Phase::Held | Phase::Renewing => true,
            Phase::Done => self.token != 0,
            Phase::Idle | Phase::Gathering | Phase::Confirming => false,
        }
    }
}
