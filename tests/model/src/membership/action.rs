use lock_core::quorum::MembershipStep;

use super::model::MembershipModel;
use super::node::node_of;
use super::setting::Pace;
use super::state::{InFlight, MembershipState, Phase};

/// A step of the model of the membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipAction {
    /// Time passes.
    Tick,
    /// A client reads a node of its list.
    Look { client: usize, place: usize },
    /// A client reads all nodes of its list.
    LookAtAll { client: usize },
    /// A client does one of the things that it wants to do, and learns how it went.
    Do { client: usize, step: usize },
    /// A client sends a write that is executed later, if ever.
    Send { client: usize, step: usize },
    /// A node replies to a read, and the reply arrives later.
    Reply { client: usize, place: usize },
    /// A client reads all nodes and does everything that can be done now.
    Work { client: usize },
    /// The client that asked for a lower `max_ttl` finds it in use.
    FindLowered { client: usize },
    /// It asks for a lower quarantine.
    LowerQuarantine { client: usize },
    /// A message arrives.
    Arrive { message: usize },
    /// A node loses everything.
    Forget { node: usize },
    /// A node restarts with its record, and without its keys and fences.
    Restart { node: usize },
    /// A node is started with an earlier copy of its files: with its record and run id, and without its keys and fences.
    Restore { node: usize },
    /// The clock of a node goes wrong.
    Jump { node: usize },
    /// All addresses lead to the other set.
    Detour,
    /// A client begins an attempt.
    Begin { attempt: usize },
    /// An attempt asks a node over an address that its client did not know when it began.
    AskLate { attempt: usize, place: usize },
    /// A node executes a request of an attempt, over an address of its client's list: acquire, confirm or extend, whatever is next.
    Execute { attempt: usize, place: usize },
    /// A holder begins to renew its lease.
    Renew { attempt: usize },
    /// A holder releases, and its keys are deleted; or an attempt is given up.
    End { attempt: usize },
}

impl MembershipModel {
    pub(super) fn enabled_actions(&self, state: &MembershipState, actions: &mut Vec<MembershipAction>) {
        let setting = &self.setting;
        if state.now < setting.last_tick {
            actions.push(MembershipAction::Tick);
        }
        for (client, mind) in state.clients.iter().enumerate() {
            if setting.fresh.contains(&client) {
                // It knows everything.
            } else if setting.reads_all {
                actions.push(MembershipAction::LookAtAll { client });
            } else {
                let places = 0..setting.lists[client].len();
                actions.extend(places.map(|place| MembershipAction::Look { client, place }));
            }
            if setting.passive.contains(&client) {
                continue;
            }
            if setting.pace == Pace::Everything {
                actions.push(MembershipAction::Work { client });
            }
            for (step, what) in mind.steps.iter().enumerate() {
                // A write that fails tells no more than a look.
                let fails = match what {
                    MembershipStep::Write { write, .. } => {
                        state.nodes[self.node_of(client, what)].expected() != write.expected && setting.mutant.is_none()
                    }
                    MembershipStep::ReadFence { .. } => false,
                };
                if !fails && setting.pace != Pace::Everything {
                    actions.push(MembershipAction::Do { client, step });
                }
                if state.faults.late_writes < setting.late_writes && matches!(what, MembershipStep::Write { .. }) {
                    actions.push(MembershipAction::Send { client, step });
                }
            }
            if state.faults.late_reads < setting.late_reads {
                let places = 0..setting.lists[client].len();
                actions.extend(places.map(|place| MembershipAction::Reply { client, place }));
            }
        }
        if let Some(client) = setting.lowering {
            let mind = &state.clients[client];
            let votes = mind.votes(state.now, setting).into_iter().flatten().count();
            let roster = mind.membership.roster().filter(|roster| roster.max_ttl < roster.quarantine_ttl);
            let found = state.lowered.filter(|(found, _)| roster.is_some_and(|roster| roster.generation == *found));
            if found.is_some_and(|(_, since)| state.now >= since + setting.ttl()) {
                actions.push(MembershipAction::LowerQuarantine { client });
            } else if found.is_none() && roster.is_some() && votes >= self.majority() {
                actions.push(MembershipAction::FindLowered { client });
            }
        }
        actions.extend((0..state.in_flight.len()).map(|message| MembershipAction::Arrive { message }));
        for node in setting.faulty.iter().copied() {
            if state.faults.forgets < setting.forgets && state.nodes[node].record.is_some() {
                actions.push(MembershipAction::Forget { node });
            }
            if state.faults.restarts < setting.restarts && state.nodes[node].record.is_some() {
                actions.push(MembershipAction::Restart { node });
            }
            if state.faults.restores < setting.restores && state.nodes[node].record.is_some() {
                actions.push(MembershipAction::Restore { node });
            }
            if state.faults.jumps < setting.jumps {
                actions.push(MembershipAction::Jump { node });
            }
        }
        if state.faults.detours < setting.detours {
            actions.push(MembershipAction::Detour);
        }
        for (attempt, what) in state.attempts.iter().enumerate() {
            if setting.joins_late && what.phase == Phase::Gathering {
                let unasked = (0..what.epochs.len()).filter(|place| what.epochs[*place].is_none());
                actions.extend(unasked.map(|place| MembershipAction::AskLate { attempt, place }));
            }
            match what.phase {
                Phase::Idle => actions.push(MembershipAction::Begin { attempt }),
                Phase::Gathering | Phase::Confirming | Phase::Renewing => {
                    let asked = (0..what.epochs.len()).filter(|place| what.epochs[*place].is_some());
                    actions.extend(asked.map(|place| MembershipAction::Execute { attempt, place }));
                }
                Phase::Held if what.renewals < setting.renewals && what.holds(state.now) => {
                    actions.push(MembershipAction::Renew { attempt });
                }
                Phase::Held | Phase::Done => {}
            }
            if what.phase != Phase::Done && what.phase != Phase::Idle {
                actions.push(MembershipAction::End { attempt });
            }
        }
    }

    /// Removes what can have no effect any more, so that equivalent states become equal.
    pub(super) fn normalize(&self, state: &mut MembershipState) {
        let nodes = &state.nodes;
        state.in_flight.retain(|message| match message {
            InFlight::Write(node, write) if self.setting.mutant.is_none() => match write.0.expected {
                // It may be executed once more when the node has forgotten.
                None => state.faults.forgets < self.setting.forgets || nodes[*node].record.is_none(),
                Some((member, version)) => nodes[*node]
                    .record
                    .as_ref()
                    .is_some_and(|record| record.member == member && record.version == version),
            },
            _ => true,
        });
        state.in_flight.sort();
        for attempt in &mut state.attempts {
            attempt.tidy(state.now, self.setting.is_timed());
        }
    }

    /// The node that a step of a client is about.
    pub(super) fn node_of(&self, client: usize, step: &MembershipStep) -> usize {
        self.setting.lists[client][node_of(step)]
    }
}
