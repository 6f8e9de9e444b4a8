use lock_core::quorum::{AcquireVote, Step};
use stateright::{Model, Property};

use super::properties;
use super::setting::{PERMITS, PermitsMutant, PermitsSetting};
use super::state::{CLIENTS, ClientId, PermitsAttempt, PermitsPhase, PermitsState};
use crate::client::to_u8;
use crate::decider::{Decider, Decision};
use crate::node::HELD;
use crate::nodes::Nodes;
use crate::state::{Key, NODES, Vote};

/// The model of permits.
#[derive(Clone, Debug)]
pub struct PermitsModel {
    setting: PermitsSetting,
}

/// A step of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitsAction {
    /// A client tries a slot: any at first, and then one that a majority of the nodes lets it take.
    Try { client: ClientId, slot: usize },
    /// A node executes the acquire of a client.
    Acquire { client: ClientId, node: usize },
    /// A client gives its attempt up.
    Fail { client: ClientId },
    /// A node executes the release of a client.
    Release { client: ClientId, node: usize },
    /// A holder presents its token to the resource.
    Claim { client: ClientId },
    /// A holder releases, or one that waits leaves.
    End { client: ClientId },
}

impl PermitsModel {
    /// The model with this setting.
    #[must_use]
    pub fn new(setting: PermitsSetting) -> Self {
        Self { setting }
    }

    fn is(&self, mutant: PermitsMutant) -> bool {
        self.setting.mutant == Some(mutant)
    }

    fn begin(&self, state: &mut PermitsState, client: ClientId, slot: usize) {
        let floor = state.granted[slot];
        let trier = &mut state.clients[client];
        trier.left -= 1;
        trier.phase = PermitsPhase::Trying(Box::new(PermitsAttempt {
            slot,
            decider: Decider::of_attempt(0, 1),
            floor,
            unasked: Nodes::all(),
        }));
    }

    /// The vote of a node on the attempt of a client for a slot.
    fn vote(&self, state: &mut PermitsState, client: ClientId, node: usize, slot: usize) -> AcquireVote {
        if self.is(PermitsMutant::Counted) {
            let counted = &mut state.counted[node];
            if counted.len() >= PERMITS {
                return HELD;
            }
            counted.push(client);
            counted.sort_unstable();
            // Their tokens do not matter here: they agree.
            return AcquireVote::Granted { token: 1 };
        }
        if state.is_free(node, slot) && !self.may_take(state, client, node, slot) {
            return HELD;
        }
        let lock = &mut state.nodes[node][slot];
        lock.acquire(Key { owner: client, expires: 0 }, lock.epoch, 1, None).unwrap_or(HELD)
    }

    fn receive(&self, state: &mut PermitsState, client: ClientId, node: usize, vote: Vote) {
        let PermitsPhase::Trying(attempt) = &mut state.clients[client].phase else { return };
        let (slot, floor) = (attempt.slot, attempt.floor);
        let Some(Decision::Acquisition(step)) = attempt.decider.receive(node, vote, 0) else { return };
        match step {
            Step::Wait => {}
            Step::Confirm { round, token, nodes } => {
                for node in nodes {
                    let vote = state.nodes[node][slot].confirm(client, to_u8(token), None);
                    self.receive(state, client, node, Vote::Confirm(round, vote));
                }
            }
            Step::Granted { token } => {
                state.unordered_token |= token <= floor && !self.is(PermitsMutant::Counted);
                state.granted[slot] = state.granted[slot].max(token);
                state.clients[client].phase = PermitsPhase::Holding { slot, token };
                Self::leave(state, client);
            }
            Step::Failed(_) => Self::fail(state, client),
        }
    }

    /// Undoes an attempt. The client waits, unless it has no attempts left.
    fn fail(state: &mut PermitsState, client: ClientId) {
        let PermitsPhase::Trying(attempt) = &state.clients[client].phase else { return };
        let slot = attempt.slot;
        let is_last = state.clients[client].left == 0;
        state.clients[client].phase = if is_last { PermitsPhase::Gone } else { PermitsPhase::Waiting };
        if is_last {
            Self::leave(state, client);
        } else if !state.queue.iter().any(|(waiter, _)| *waiter == client) {
            state.queue.push((client, slot));
        }
        (0..NODES).for_each(|node| Self::release(state, client, node, slot));
    }

    /// Takes what a node has of a client for a slot.
    fn release(state: &mut PermitsState, client: ClientId, node: usize, slot: usize) {
        state.counted[node].retain(|counted| *counted != client);
        let lock = &mut state.nodes[node][slot];
        lock.key = lock.key.filter(|key| key.owner != client);
    }

    /// Leaves the queue.
    fn leave(state: &mut PermitsState, client: ClientId) {
        state.queue.retain(|(waiter, _)| *waiter != client);
    }

    /// Whether a node lets a client take a slot that is free there.
    fn may_take(&self, state: &PermitsState, client: ClientId, node: usize, slot: usize) -> bool {
        if self.is(PermitsMutant::QueuePerSlot) {
            return state.queue.iter().find(|(_, of)| *of == slot).is_none_or(|(first, _)| *first == client);
        }
        state.is_called(node, client)
    }

    /// The slots that a client may try now.
    pub(super) fn slots_to_try(&self, state: &PermitsState, client: ClientId) -> Vec<usize> {
        match &state.clients[client].phase {
            PermitsPhase::Idle if self.is(PermitsMutant::Counted) => vec![0],
            PermitsPhase::Idle => (0..PERMITS).collect(),
            PermitsPhase::Waiting => {
                let lets = |node: usize, slot| state.is_free(node, slot) && self.may_take(state, client, node, slot);
                let by_majority = |slot: &usize| (0..NODES).filter(|node| lets(*node, *slot)).count() > NODES / 2;
                let is_other =
                    |slot: &usize| self.is(PermitsMutant::QueuePerSlot) && !state.queue.contains(&(client, *slot));
                (0..PERMITS).filter(|slot| !is_other(slot) && by_majority(slot)).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Model for PermitsModel {
    type State = PermitsState;
    type Action = PermitsAction;

    fn init_states(&self) -> Vec<PermitsState> {
        let mut state = PermitsState::default();
        for (client, attempts) in state.clients.iter_mut().zip(self.setting.attempts) {
            client.left = attempts;
            if attempts == 0 {
                client.phase = PermitsPhase::Gone;
            }
        }
        vec![state.representative()]
    }

    fn actions(&self, state: &PermitsState, actions: &mut Vec<PermitsAction>) {
        for client in 0..CLIENTS {
            let may_try = state.clients[client].left > 0;
            let slots = if may_try { self.slots_to_try(state, client) } else { Vec::new() };
            actions.extend(slots.into_iter().map(|slot| PermitsAction::Try { client, slot }));
            match &state.clients[client].phase {
                PermitsPhase::Trying(attempt) => {
                    let unasked = (0..NODES).filter(|node| attempt.unasked.contains(*node));
                    actions.extend(unasked.map(|node| PermitsAction::Acquire { client, node }));
                    actions.push(PermitsAction::Fail { client });
                }
                PermitsPhase::Holding { .. } => {
                    actions.extend([PermitsAction::Claim { client }, PermitsAction::End { client }]);
                }
                PermitsPhase::Waiting => actions.push(PermitsAction::End { client }),
                PermitsPhase::Releasing { nodes, .. } => {
                    let nodes = (0..NODES).filter(|node| nodes.contains(*node));
                    actions.extend(nodes.map(|node| PermitsAction::Release { client, node }));
                }
                PermitsPhase::Idle | PermitsPhase::Gone => {}
            }
        }
    }

    fn next_state(&self, before: &PermitsState, action: PermitsAction) -> Option<PermitsState> {
        let mut state = before.clone();
        match action {
            PermitsAction::Try { client, slot } => self.begin(&mut state, client, slot),
            PermitsAction::Acquire { client, node } => {
                let PermitsPhase::Trying(attempt) = &mut state.clients[client].phase else { return None };
                attempt.unasked.remove(node);
                let slot = attempt.slot;
                let vote = self.vote(&mut state, client, node, slot);
                self.receive(&mut state, client, node, Vote::Acquire(vote));
            }
            PermitsAction::Fail { client } => Self::fail(&mut state, client),
            PermitsAction::Release { client, node } => {
                let PermitsPhase::Releasing { slot, nodes } = &mut state.clients[client].phase else { return None };
                let slot = *slot;
                nodes.remove(node);
                let is_done = *nodes == Nodes::default();
                Self::release(&mut state, client, node, slot);
                if is_done {
                    let is_last = state.clients[client].left == 0;
                    state.clients[client].phase = if is_last { PermitsPhase::Gone } else { PermitsPhase::Idle };
                }
            }
            PermitsAction::Claim { client } => {
                let PermitsPhase::Holding { slot, token } = state.clients[client].phase else { return None };
                let of_all = state.claimed.into_iter().max().unwrap_or_default();
                let largest = if self.is(PermitsMutant::OneFence) { of_all } else { state.claimed[slot] };
                state.valid_claim_refused |= token < largest;
                state.claimed[slot] = state.claimed[slot].max(token);
            }
            PermitsAction::End { client } => {
                let next = match state.clients[client].phase {
                    PermitsPhase::Holding { slot, .. } => PermitsPhase::Releasing { slot, nodes: Nodes::all() },
                    _ => PermitsPhase::Gone,
                };
                state.clients[client].phase = next;
                Self::leave(&mut state, client);
            }
        }
        let state = state.representative();
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
