use stateright::{Model, Property};

use super::action::ReservationsAction;
use super::node::{ReservationsKey, ReservationsReply, ReservationsRequest, STRANGER, Sender, TTL};
use super::properties;
use super::setting::ReservationsSetting;
use super::state::{ReservationsAttempt, ReservationsPhase, ReservationsProcess, ReservationsState, to_u8};
use crate::nodes::Nodes;
use crate::queue::{Queue, QueueMutant};
use crate::state::NODES;

/// The model of the reservations that waiters get.
#[derive(Clone, Debug)]
pub struct ReservationsModel {
    pub(super) setting: ReservationsSetting,
}

impl ReservationsModel {
    /// The model with this setting.
    #[must_use]
    pub fn new(setting: ReservationsSetting) -> Self {
        Self { setting }
    }

    fn begin_to_wait(&self, state: &mut ReservationsState, process: usize, at_once: bool) {
        let latest = state.processes.iter().map(|other| other.since).max().unwrap_or_default();
        let since = if at_once && latest > 0 { latest } else { state.latest() + 1 };
        state.waits += u8::from(self.setting.waits.is_some());
        (state.processes[process].since, state.processes[process].began) = (since, since);
    }

    fn execute(&self, state: &mut ReservationsState, index: usize, at: usize) {
        let attempt = match state.processes[index].phase {
            ReservationsPhase::Acquiring(attempt) => attempt,
            _ => ReservationsAttempt::default(),
        };
        let request = state.processes[index].requests[at].remove(0);
        let id = to_u8(index);
        let polls = !state.processes[index].waking.contains(at);
        let sender = Sender { id, polls, reads: self.setting.reads(index) };
        let before = state.nodes[at].queue;
        let (node, processes) = (&mut state.nodes[at], &mut state.processes);
        let wake = |waiter: u8, before: u8| {
            let woken = &mut processes[usize::from(waiter)];
            let hears = woken.hears.contains(at);
            if hears {
                woken.wakeups[at] = Some(before);
            }
            hears
        };
        let mut refused = None;
        let mut placed_since = None;
        let reply = match request {
            ReservationsRequest::Acquire(since) => {
                let reply = node.acquire(sender, since, &self.setting, wake, &mut refused);
                placed_since = since.filter(|_| reply != ReservationsReply::Granted);
                Some(reply)
            }
            ReservationsRequest::Release(since) => {
                node.release(sender, request, &self.setting, wake, &mut refused);
                placed_since = since;
                None
            }
            ReservationsRequest::Leave => {
                node.release(sender, request, &self.setting, wake, &mut refused);
                None
            }
        };
        state.withdraw_claims(at, &before);
        let process = &mut state.processes[index];
        if process.is_waiting() && placed_since == Some(process.since) {
            process.placed.insert(at);
        }
        if let Some(refused) = refused.filter(|_| self.setting.mutant != Some(QueueMutant::FullDropsOldest)) {
            state.processes[usize::from(refused)].placed.remove(at);
        }
        if let Some(reply) = reply
            && state.processes[index].reply(at, reply)
        {
            properties::acquired(state, index, &attempt, &self.setting);
        }
        self.wake_at_once(state);
    }

    /// Wake-ups need time only where they may be lost.
    fn wake_at_once(&self, state: &mut ReservationsState) {
        let answers = self.setting.mutant != Some(QueueMutant::LeaveIsNotSent);
        for process in state.processes.iter_mut().filter(|process| !process.frozen && self.setting.lost_wakeups == 0) {
            for node in 0..NODES {
                if let Some(before) = process.wakeups[node].take() {
                    process.wake(node, before, answers);
                }
            }
        }
    }

    fn kill(state: &mut ReservationsState, index: usize) {
        let process = &mut state.processes[index];
        process.stop(ReservationsPhase::Dead);
        (process.hears, process.frozen, process.is_late) = (Nodes::default(), false, false);
        process.wakeups = Default::default();
        process.requests = Default::default();
        for key in state.nodes.iter_mut().filter_map(|node| node.key.as_mut()) {
            if usize::from(key.owner) == index && key.left.is_none() {
                key.left = Some(TTL);
            }
        }
        state.faults.kills += 1;
    }

    fn tick(&self, state: &mut ReservationsState) {
        properties::count_idle(state, &self.setting);
        for at in 0..NODES {
            let before = state.nodes[at].queue;
            state.nodes[at].tick(&self.setting);
            state.withdraw_claims(at, &before);
        }
        state.processes.iter_mut().for_each(ReservationsProcess::tick);
    }
}

impl Model for ReservationsModel {
    type State = ReservationsState;
    type Action = ReservationsAction;

    fn init_states(&self) -> Vec<ReservationsState> {
        let mut state = ReservationsState::default();
        for (index, process) in state.processes.iter_mut().enumerate().take(self.setting.processes) {
            let hears = if index < self.setting.pollers { Nodes::default() } else { Nodes::all() };
            *process = ReservationsProcess::new(hears);
        }
        state.processes[self.setting.processes..].iter_mut().for_each(|absent| absent.phase = ReservationsPhase::Dead);
        vec![state]
    }

    fn actions(&self, state: &ReservationsState, actions: &mut Vec<ReservationsAction>) {
        self.enabled_actions(state, actions);
    }

    fn next_state(&self, before: &ReservationsState, action: ReservationsAction) -> Option<ReservationsState> {
        let mut state = before.clone();
        match action {
            ReservationsAction::Begin(index) | ReservationsAction::BeginAtOnce(index) => {
                if state.processes[index].phase == ReservationsPhase::Idle {
                    self.begin_to_wait(&mut state, index, matches!(action, ReservationsAction::BeginAtOnce(_)));
                }
                let in_line = state.in_line();
                state.processes[index].begin(true);
                if let ReservationsPhase::Acquiring(attempt) = &mut state.processes[index].phase
                    && self.setting.reads(index)
                {
                    attempt.behind = in_line;
                }
                state.processes[index].is_late = !self.setting.splits;
            }
            ReservationsAction::Try(index) => {
                state.processes[index].begin(false);
                state.processes[index].is_late = !self.setting.splits;
            }
            ReservationsAction::Release(index) | ReservationsAction::Abandon(index) => state.processes[index].leave(),
            ReservationsAction::Execute(index, node) => self.execute(&mut state, index, node),
            ReservationsAction::Wake(index, node) => {
                let before = state.processes[index].wakeups[node].take()?;
                let answers = self.setting.mutant != Some(QueueMutant::LeaveIsNotSent);
                state.processes[index].wake(node, before, answers);
            }
            ReservationsAction::LoseWakeup(index, node) => {
                state.processes[index].wakeups[node] = None;
                state.processes[index].placed.remove(node);
                state.faults.lost_wakeups += 1;
            }
            ReservationsAction::LoseLeave(index, node) => {
                let process = &mut state.processes[index];
                process.requests[node].remove(0);
                state.faults.lost_leaves += 1;
            }
            ReservationsAction::Kill(index) => Self::kill(&mut state, index),
            ReservationsAction::Freeze(index) => {
                state.processes[index].frozen = true;
                state.faults.freezes += 1;
            }
            ReservationsAction::Thaw(index) => {
                state.processes[index].frozen = false;
                self.wake_at_once(&mut state);
            }
            ReservationsAction::Cut(index, node) => {
                let process = &mut state.processes[index];
                process.hears.remove(node);
                process.placed.remove(node);
                process.wakeups[node] = None;
                state.faults.cuts += 1;
                state.processes[index].tell_change();
            }
            ReservationsAction::Reconnect(index, node) => {
                if self.setting.mutant == Some(QueueMutant::SinceIsLost) && state.processes[index].since > 0 {
                    state.processes[index].since = state.latest() + 1;
                }
                state.processes[index].hears.insert(node);
                state.processes[index].tell_change();
            }
            ReservationsAction::StrangerTakes => {
                for node in state.nodes.iter_mut().filter(|node| node.key.is_none()) {
                    node.key = Some(ReservationsKey { owner: STRANGER, left: None });
                }
                state.idle = 0;
            }
            ReservationsAction::StrangerReleases => {
                for node in &mut state.nodes {
                    node.key = node.key.filter(|key| key.owner != STRANGER);
                }
            }
            ReservationsAction::Tick => self.tick(&mut state),
        }
        state.forget_claims();
        state.processes.iter_mut().for_each(|process| process.is_late &= process.is_busy());
        let state = state.representative(&self.setting);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl ReservationsState {
    /// The latest time at which anyone began to wait, as far as anyone knows.
    pub(super) fn latest(&self) -> u8 {
        self.times().into_iter().max().unwrap_or_default()
    }

    /// A waiter has no claim on a node any more whose queue it left because it let a reservation pass that it knew of.
    fn withdraw_claims(&mut self, at: usize, before: &Queue) {
        let after = self.nodes[at].queue;
        let had_it = |at: usize| at == usize::from(before.passed) || before.expected & 1 << at != 0;
        let reserved = before.reserved.iter().enumerate().take(usize::from(before.passed) + 1);
        let has_passed = reserved.filter(|(at, _)| had_it(*at)).map(|(_, id)| id);
        for id in has_passed.filter(|id| Some(*id) != after.reservation() && after.place(*id).is_none()) {
            self.processes[usize::from(id)].placed.remove(at);
        }
    }

    /// Counts nothing against waiters that are not in line.
    fn forget_claims(&mut self) {
        for process in &mut self.processes {
            if !process.is_in_line() {
                process.passed = 0;
            }
        }
    }
}
