use super::model::ReservationsModel;
use super::node::{ReservationsRequest, STRANGER};
use super::state::{ReservationsPhase, ReservationsProcess, ReservationsState};
use crate::nodes::Nodes;
use crate::state::NODES;

/// An action of the model: one step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReservationsAction {
    /// A process begins an attempt that waits, and to wait if it did not.
    Begin(usize),
    /// A process begins to wait at the same time as the one before.
    BeginAtOnce(usize),
    /// A process begins an attempt that does not wait.
    Try(usize),
    /// A process releases the lock.
    Release(usize),
    /// A waiter gives up.
    Abandon(usize),
    /// A node executes the next request of a process.
    Execute(usize, usize),
    /// A process receives a wake-up from a node.
    Wake(usize, usize),
    /// A wake-up is lost.
    LoseWakeup(usize, usize),
    /// A request to leave a queue is lost.
    LoseLeave(usize, usize),
    /// A process dies, and its connections are closed.
    Kill(usize),
    /// A process that waits stops, and its connections stay.
    Freeze(usize),
    /// It goes on.
    Thaw(usize),
    /// A process loses a connection for wake-ups.
    Cut(usize, usize),
    /// It has it again.
    Reconnect(usize, usize),
    /// A stranger takes the lock.
    StrangerTakes,
    /// It releases it.
    StrangerReleases,
    /// Half of a reservation passes.
    Tick,
}

impl ReservationsModel {
    /// Every action that is possible in a state.
    pub(super) fn enabled_actions(&self, state: &ReservationsState, actions: &mut Vec<ReservationsAction>) {
        let mut is_urgent = false;
        for (index, process) in state.processes.iter().enumerate().take(self.setting.processes) {
            let holds = matches!(process.phase, ReservationsPhase::Holding { .. });
            is_urgent |= process.is_busy() || holds && !self.setting.reads(index);
            self.own_actions(state, index, actions);
            self.network_actions(state, index, actions);
        }
        if self.setting.stranger {
            if !is_urgent && state.nodes.iter().all(|node| node.key.is_none()) {
                actions.push(ReservationsAction::StrangerTakes);
            }
            if !is_urgent && state.nodes.iter().any(|node| node.key.is_some_and(|key| key.owner == STRANGER)) {
                actions.push(ReservationsAction::StrangerReleases);
            }
        }
        if !is_urgent {
            actions.push(ReservationsAction::Tick);
        }
    }

    fn own_actions(&self, state: &ReservationsState, index: usize, actions: &mut Vec<ReservationsAction>) {
        let (process, setting, faults) = (&state.processes[index], &self.setting, state.faults);
        if process.phase == ReservationsPhase::Dead {
            return;
        }
        if process.frozen {
            actions.push(ReservationsAction::Thaw(index));
            return;
        }
        let is_ready = process.requests.iter().all(|requests| requests.len() <= setting.late_requests);
        match process.phase {
            ReservationsPhase::Idle if is_ready => {
                if !setting.splits && !state.is_orderly(index) {
                    return;
                }
                if setting.waits.is_none_or(|waits| state.waits < waits) {
                    actions.push(ReservationsAction::Begin(index));
                    if setting.ties {
                        actions.push(ReservationsAction::BeginAtOnce(index));
                    }
                }
                if setting.tries {
                    actions.push(ReservationsAction::Try(index));
                }
            }
            ReservationsPhase::Waiting { timer: 0, .. } if is_ready => actions.push(ReservationsAction::Begin(index)),
            ReservationsPhase::Holding { .. } if state.processes.iter().all(|other| !other.is_late) => {
                actions.push(ReservationsAction::Release(index));
            }
            _ => {}
        }
        if matches!(process.phase, ReservationsPhase::Waiting { .. }) {
            if setting.abandons && !state.is_reserved_for(index) {
                actions.push(ReservationsAction::Abandon(index));
            }
            if faults.freezes < setting.freezes {
                actions.push(ReservationsAction::Freeze(index));
            }
        }
        if faults.kills < setting.kills && process.phase != ReservationsPhase::Idle && !state.is_reserved_for(index) {
            actions.push(ReservationsAction::Kill(index));
        }
    }

    fn network_actions(&self, state: &ReservationsState, index: usize, actions: &mut Vec<ReservationsAction>) {
        let (process, setting, faults) = (&state.processes[index], &self.setting, state.faults);
        for node in 0..NODES {
            if let Some(next) = process.requests[node].first() {
                actions.push(ReservationsAction::Execute(index, node));
                if *next == ReservationsRequest::Leave && faults.lost_leaves < setting.lost_leaves {
                    actions.push(ReservationsAction::LoseLeave(index, node));
                }
            }
            if process.wakeups[node].is_some() && !process.frozen {
                actions.push(ReservationsAction::Wake(index, node));
                if faults.lost_wakeups < setting.lost_wakeups {
                    actions.push(ReservationsAction::LoseWakeup(index, node));
                }
            }
            if process.phase == ReservationsPhase::Dead || index < setting.pollers {
                continue;
            }
            if !process.hears.contains(node) {
                actions.push(ReservationsAction::Reconnect(index, node));
            } else if faults.cuts < setting.cuts {
                actions.push(ReservationsAction::Cut(index, node));
            }
        }
    }
}

impl ReservationsProcess {
    /// A process that no node has heard of.
    pub(super) fn new(hears: Nodes) -> Self {
        Self { hears, waking: hears, ..Self::default() }
    }
}
