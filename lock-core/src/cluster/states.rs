//! The states of the nodes that callers see, as they follow from what the membership knows.

use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::{Cluster, MemberState};
use crate::error::{NodeError, NotMember};
use crate::node::SetId;
use crate::observer::LockEvent;
use crate::quorum::{Membership, Standing};

/// The roster that votes are counted by, and how many there have been.
#[derive(Default)]
pub(super) struct NotedRoster {
    roster: Option<(SetId, u64)>,
    count: u64,
}

impl Cluster {
    /// Sets the states of all nodes from what is known.
    pub(super) fn publish(&self, in_progress: bool) {
        let now = self.now();
        let membership = self.membership();
        let rosters = self.note_roster(&membership);
        let all_inspected = membership.all_tried();
        let is_stuck = |node: usize| self.not_written(node).is_some();
        let states: Vec<MemberState> = (0..self.size())
            .map(|node| match membership.standing(node, now) {
                Standing::Admitted { epoch, seat } => {
                    // If not by this client, its record was written by another one.
                    self.members[node].last_inspection.lock().record.resolve();
                    MemberState::Admitted { epoch, roster: rosters, seat }
                }
                Standing::Quarantined(left) => MemberState::Quarantined(Instant::now() + left),
                Standing::Refused(refusal) => MemberState::Refused(refusal),
                Standing::NotMember(reason) => MemberState::NotMember(reason),
                Standing::Unreachable => match self.members[node].last_inspection.lock().error.clone() {
                    Some(NodeError::Refused(refusal)) => MemberState::Refused(refusal),
                    Some(error) => MemberState::Away(error),
                    None => MemberState::Joining,
                },
            })
            .collect();
        let now_at: Vec<usize> = (0..self.size()).map(|node| membership.now_at(node)).collect();
        drop(membership);
        self.members.iter().zip(now_at).for_each(|(member, node)| member.set_now_at(node));
        // Those that do not vote first: of two nodes that turn out to be one server, there must be no moment at which both vote.
        let (voting, others): (Vec<_>, Vec<_>) =
            states.into_iter().enumerate().partition(|(_, state)| matches!(state, MemberState::Admitted { .. }));
        for (node, state) in others.into_iter().chain(voting) {
            let is_first = *self.members[node].state.borrow() == MemberState::Joining;
            // Callers wait for the first contact: a set that is being formed, or changed, is nearly there.
            let is_settled = match &state {
                MemberState::NotMember(NotMember::Behind) => false,
                MemberState::NotMember(NotMember::Unformed { missing }) => {
                    all_inspected && (!missing.is_empty() || (0..self.size()).any(is_stuck))
                }
                // The step that failed on it counts as in progress until it is tried again.
                MemberState::NotMember(_) | MemberState::Quarantined(_) => {
                    all_inspected && (!in_progress || is_stuck(node))
                }
                _ => true,
            };
            if is_settled || !is_first {
                self.set_state(node, state);
            }
        }
        self.note_quorum();
        self.published.notify_waiters();
    }

    /// Notes whether a majority votes.
    pub(super) fn note_quorum(&self) {
        let has_quorum = self.has_quorum();
        self.has_contact.store(has_quorum && !self.is_any_joining(), Ordering::Release);
        self.answers.outage().inspected(has_quorum, self.now());
        if has_quorum {
            self.quorum_back.notify_waiters();
        }
    }

    /// Counts the rosters that this client counted by.
    fn note_roster(&self, membership: &Membership) -> u64 {
        let mut noted = self.noted.lock();
        if let Some(roster) = membership.roster()
            && noted.roster != Some(roster.id())
        {
            super::events::roster_changed(noted.roster, roster, membership.chose_roster());
            // What one node has installed, the others have, or are about to.
            (0..self.size()).for_each(|node| self.reschedule(node));
            *noted = NotedRoster { roster: Some(roster.id()), count: noted.count + 1 };
        }
        noted.count
    }

    /// Sets the state of a node, and logs a change.
    fn set_state(&self, node: usize, state: MemberState) {
        let member = &self.members[node];
        let is_another = std::mem::discriminant(&*member.state.borrow()) != std::mem::discriminant(&state);
        if is_another {
            let (node, up) = (member.node.name(), state.accepts_requests());
            super::events::state_changed(node, &state);
            self.reporter.report(&LockEvent::NodeChanged { node, up });
        } else if *member.state.borrow() == state {
            return;
        }
        member.state.replace(state);
    }
}
