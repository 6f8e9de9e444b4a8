use std::collections::HashSet;

use lock_core::quorum::{AcquireVote, Step};
use stateright::{Model, Property};

use super::action::{QueueAction, QueueRequest};
use super::node::{QueuePosition, key};
use super::setting::{QueueMutant, QueueSetting};
use super::state::{ATTEMPTS, Attempt, ProcessPhase, QueueState};
use crate::client::to_u8;
use crate::decider::{Decider, Decision};
use crate::node::HELD;
use crate::nodes::Nodes;
use crate::properties::{MAJORITY_GRANTS, MUTUAL_EXCLUSION, ORDERED_TOKENS, OWN_KEYS_ONLY, UNIQUE_TOKENS};
use crate::state::{NODES, Vote};

/// A node with a queue refines a node without one.
pub const REFINEMENT: &str = "a node with a queue grants nothing that it would not grant without";

/// The model of a lock whose nodes keep a queue.
#[derive(Clone, Debug)]
pub struct QueueModel {
    pub(super) setting: QueueSetting,
}

impl QueueModel {
    /// The model with this setting.
    #[must_use]
    pub fn new(setting: QueueSetting) -> Self {
        Self { setting }
    }

    pub(super) fn owner(&self, process: usize, attempt: usize) -> usize {
        process * ATTEMPTS + if self.setting.mutant == Some(QueueMutant::SharedOwnerId) { 0 } else { attempt }
    }

    /// The attempt that has this owner id, or the latest if several share it.
    pub(super) fn attempt_of(&self, state: &QueueState, owner: usize) -> usize {
        match self.setting.mutant {
            Some(QueueMutant::SharedOwnerId) => state.processes[owner / ATTEMPTS].attempts_begun.saturating_sub(1),
            _ => owner % ATTEMPTS,
        }
    }

    fn begin(state: &mut QueueState, process: usize) {
        let floor = state.processes.iter().filter_map(|process| process.token).max().unwrap_or_default();
        let beginner = &mut state.processes[process];
        beginner.sent[beginner.attempts_begun].acquires = Nodes::all();
        beginner.attempts_begun += 1;
        beginner.wakeups_from = Nodes::default();
        beginner.phase = ProcessPhase::Acquiring(Box::new(Attempt {
            decider: Decider::of_attempt(0, 1),
            floor,
            granted: Nodes::default(),
            awaited: Nodes::all(),
            round: (0, Nodes::default()),
        }));
    }

    fn execute(
        &self,
        state: &mut QueueState,
        process: usize,
        attempt: usize,
        at: usize,
        request: QueueRequest,
    ) -> Option<Vote> {
        let (owner, mutant) = (self.owner(process, attempt), self.setting.mutant);
        let is_current = state.processes[process].is_in(attempt);
        let (target, sent) = (&mut state.nodes[at], &mut state.processes[process].sent[attempt]);
        let (before, mut without) = (*target, target.lock);
        let vote = match request {
            QueueRequest::Acquire => {
                sent.acquires.remove(at);
                let vote = target.acquire(owner, process, mutant);
                let reference = without.acquire(key(owner), without.epoch, 1, None);
                let granted = matches!(vote, AcquireVote::Granted { .. });
                state.breaks_refinement |= granted && (reference != Some(vote) || without != target.lock);
                state.breaks_refinement |= !granted && target.lock != before.lock;
                Some(Vote::Acquire(vote))
            }
            QueueRequest::Confirm(round) => {
                let confirm = &mut sent.confirms[usize::from(round) - 1];
                confirm.nodes.remove(at);
                Some(Vote::Confirm(round, target.lock.confirm(owner, confirm.token, None)))
            }
            QueueRequest::Release(position) => {
                target.release(Some(owner), process, position, mutant);
                without.release(owner, None);
                state.breaks_refinement |= without != target.lock;
                None
            }
        };
        let others = before.lock.key.is_some_and(|held| held.owner != owner);
        state.foreign_key_changed |= others && target.lock.key != before.lock.key;
        state.late_requests +=
            u8::from(!is_current && *target != before && !matches!(request, QueueRequest::Release(_)));
        vote
    }

    fn deliver(&self, state: &mut QueueState, process: usize, node: usize, vote: Vote) {
        let Some(attempt) = state.processes[process].attempt() else { return };
        match vote {
            Vote::Acquire(vote) => {
                if vote == HELD && attempt.decider.is_gathering() {
                    return;
                }
                attempt.awaited.remove(node);
                if matches!(vote, AcquireVote::Granted { .. }) {
                    attempt.granted.insert(node);
                }
            }
            _ => attempt.round.1.remove(node),
        }
        let Some(Decision::Acquisition(step)) = attempt.decider.receive(node, vote, 0) else { return };
        match step {
            Step::Confirm { round, token, nodes } => {
                if attempt.round.0 != round {
                    attempt.round = (round, Nodes::default());
                }
                nodes.iter().for_each(|node| attempt.round.1.insert(*node));
                let sender = &mut state.processes[process];
                let confirm = &mut sender.sent[sender.attempts_begun - 1].confirms[usize::from(round) - 1];
                confirm.token = to_u8(token);
                nodes.into_iter().for_each(|node| confirm.nodes.insert(node));
            }
            Step::Granted { token } => {
                let token = to_u8(token);
                state.unordered_token |= token <= attempt.floor;
                state.token_without_majority |= !attempt.granted.are_majority();
                state.processes[process].token = Some(token);
                state.processes[process].phase = ProcessPhase::Holding;
            }
            Step::Failed(_) => Self::end(state, process, ProcessPhase::Waiting),
            Step::Wait => {}
        }
    }

    /// Ends an attempt or its lease, and sends its release.
    fn end(state: &mut QueueState, process: usize, then: ProcessPhase) {
        let ended = &mut state.processes[process];
        let position = match ended.phase {
            ProcessPhase::Holding => Some(QueuePosition::Leave),
            ProcessPhase::Acquiring(_) if then == ProcessPhase::Gone => Some(QueuePosition::Leave),
            ProcessPhase::Acquiring(_) => Some(QueuePosition::Keep),
            ProcessPhase::Waiting | ProcessPhase::Gone => None,
        };
        if let (Some(position), Some(last)) = (position, ended.attempts_begun.checked_sub(1)) {
            ended.sent[last].release = Some(position);
        }
        ended.phase = then;
        ended.wakeups_from = Nodes::default();
    }

    fn wake_up(&self, state: &mut QueueState, process: usize, node: usize) {
        let receiver = &mut state.processes[process];
        receiver.wakeups_from.insert(node);
        if self.setting.mutant == Some(QueueMutant::WakeupsAsVotes) && receiver.wakeups_from.are_majority() {
            receiver.phase = ProcessPhase::Holding;
            state.token_without_majority = true;
        }
    }

    /// Removes what no longer matters, so that equivalent states become equal.
    fn normalize(&self, state: &mut QueueState) {
        for process in &mut state.processes {
            for index in 0..process.attempts_begun {
                if process.is_in(index) && process.phase != ProcessPhase::Holding {
                    continue;
                }
                let sent = &mut process.sent[index];
                if state.late_requests == self.setting.late_requests && sent.release.is_some() {
                    sent.acquires = Nodes::default();
                    sent.confirms = Default::default();
                }
                for confirm in &mut sent.confirms {
                    let past = (0..NODES).filter(|node| state.nodes[*node].lock.fence >= confirm.token);
                    past.for_each(|node| confirm.nodes.remove(node));
                    if confirm.nodes == Nodes::default() {
                        *confirm = Default::default();
                    }
                }
            }
        }
        if !self.setting.wakeups {
            state.nodes.iter_mut().for_each(|node| node.wakeups = 0);
        }
    }
}

impl Model for QueueModel {
    type State = QueueState;
    type Action = QueueAction;

    fn init_states(&self) -> Vec<QueueState> {
        let mut state = QueueState::default();
        let absent = state.processes.iter_mut().zip(self.setting.attempts).filter(|(_, attempts)| *attempts == 0);
        absent.for_each(|(process, _)| process.phase = ProcessPhase::Gone);
        vec![state]
    }

    fn actions(&self, state: &QueueState, actions: &mut Vec<QueueAction>) {
        self.enabled_actions(state, actions);
    }

    fn next_state(&self, before: &QueueState, action: QueueAction) -> Option<QueueState> {
        let mut state = before.clone();
        match action {
            QueueAction::Begin { process } => Self::begin(&mut state, process),
            QueueAction::Execute { process, attempt, node, request, delivered } => {
                let vote = self.execute(&mut state, process, attempt, node, request);
                if let Some(vote) = vote.filter(|_| delivered) {
                    self.deliver(&mut state, process, node, vote);
                }
            }
            QueueAction::TimeOut { process, node } => {
                self.deliver(&mut state, process, node, Vote::Acquire(AcquireVote::NoReply));
            }
            QueueAction::Fail { process } => Self::end(&mut state, process, ProcessPhase::Waiting),
            QueueAction::Leave { process } => Self::end(&mut state, process, ProcessPhase::Gone),
            QueueAction::LeaveQueue { process, node } => {
                state.nodes[node].release(None, process, QueuePosition::Leave, self.setting.mutant);
            }
            QueueAction::WakeUp { process, node } => self.wake_up(&mut state, process, node),
            QueueAction::Expire { node } => state.nodes[node].lock.key = None,
            QueueAction::Pass { node } => state.nodes[node].queue.pass(self.setting.mutant),
            QueueAction::LosePosition { node, process } => {
                state.nodes[node].queue.remove(u8::try_from(process).unwrap_or(u8::MAX));
                state.lost_positions += 1;
            }
        }
        self.normalize(&mut state);
        let state = state.representative();
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::<Self>::always(UNIQUE_TOKENS, |_, state| {
                let mut granted = HashSet::new();
                state.processes.iter().filter_map(|process| process.token).all(|token| granted.insert(token))
            }),
            Property::<Self>::always(ORDERED_TOKENS, |_, state| !state.unordered_token),
            Property::<Self>::always(MAJORITY_GRANTS, |_, state| !state.token_without_majority),
            Property::<Self>::always(OWN_KEYS_ONLY, |_, state| !state.foreign_key_changed),
            Property::<Self>::always(REFINEMENT, |_, state| !state.breaks_refinement),
        ];
        if self.setting.validity_holds {
            properties.push(Property::<Self>::always(MUTUAL_EXCLUSION, |_, state| {
                state.processes.iter().filter(|process| process.phase == ProcessPhase::Holding).count() <= 1
            }));
        }
        properties
    }

    fn within_boundary(&self, state: &QueueState) -> bool {
        state.nodes.iter().all(|node| node.lock.fence <= self.setting.max_fence)
    }
}
