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
    /// A client tries a slot: any at first, one that is free when it has looked, or one that was offered to it.
    Try { client: ClientId, slot: usize },
    /// A node executes the acquire of a client.
    Acquire { client: ClientId, node: usize },
    /// A client gives its attempt up.
    Fail { client: ClientId },
    /// A client that looks finds no slot free.
    FindNone { client: ClientId },
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
        let reserved = state.offered[slot].is_some_and(|offered| offered != client);
        if state.nodes[node][slot].key.is_none() && reserved {
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
            Step::Granted { token, .. } => {
                state.unordered_token |= token <= floor && !self.is(PermitsMutant::Counted);
                state.granted[slot] = state.granted[slot].max(token);
                state.clients[client].phase = PermitsPhase::Holding { slot, token };
                state.queue.retain(|(waiter, _)| *waiter != client);
                state.offered[slot] = state.offered[slot].filter(|offered| *offered != client);
                self.leave_offers(state, client);
            }
            Step::Failed(_) => self.fail(state, client),
        }
    }

    /// Undoes an attempt. The client waits, unless it has no attempts left.
    fn fail(&self, state: &mut PermitsState, client: ClientId) {
        let PermitsPhase::Trying(attempt) = &state.clients[client].phase else { return };
        let slot = attempt.slot;
        let is_last = state.clients[client].left == 0;
        state.clients[client].phase = match is_last {
            true => PermitsPhase::Gone,
            false if self.is(PermitsMutant::LooksBeforeQueueing) => PermitsPhase::Looking,
            false => PermitsPhase::Waiting { looked: false },
        };
        if is_last {
            self.leave(state, client);
        } else if !self.is(PermitsMutant::LooksBeforeQueueing)
            && !state.queue.iter().any(|(waiter, _)| *waiter == client)
        {
            state.queue.push((client, slot));
        }
        self.release(state, client, slot);
    }

    /// Takes what the nodes have of a client for a slot.
    fn release(&self, state: &mut PermitsState, client: ClientId, slot: usize) {
        for node in 0..NODES {
            state.counted[node].retain(|counted| *counted != client);
            let lock = &mut state.nodes[node][slot];
            lock.key = lock.key.filter(|key| key.owner != client);
        }
        self.offer(state, slot);
    }

    /// Leaves the queue, and what was offered.
    fn leave(&self, state: &mut PermitsState, client: ClientId) {
        state.queue.retain(|(waiter, _)| *waiter != client);
        self.leave_offers(state, client);
    }

    fn leave_offers(&self, state: &mut PermitsState, client: ClientId) {
        for slot in 0..PERMITS {
            if state.offered[slot] == Some(client) {
                state.offered[slot] = None;
                self.offer(state, slot);
            }
        }
    }

    /// Offers a slot that is free to the first in the queue that has no other offer.
    fn offer(&self, state: &mut PermitsState, slot: usize) {
        if !state.is_free(slot) || state.offered[slot].is_some() {
            return;
        }
        let has_offer = |waiter| state.offered.contains(&Some(waiter)) && !self.is(PermitsMutant::OffersTwice);
        let fits = |of: usize| of == slot || !self.is(PermitsMutant::QueuePerSlot);
        let first = state.queue.iter().find(|(waiter, of)| fits(*of) && !has_offer(*waiter));
        state.offered[slot] = first.map(|(waiter, _)| *waiter);
    }

    /// The slots that a client may try now.
    fn slots_to_try(&self, state: &PermitsState, client: ClientId) -> Vec<usize> {
        let free = || (0..PERMITS).filter(|slot| state.is_free(*slot) && state.offered[*slot].is_none()).collect();
        match &state.clients[client].phase {
            PermitsPhase::Idle if self.is(PermitsMutant::Counted) => vec![0],
            PermitsPhase::Idle => (0..PERMITS).collect(),
            PermitsPhase::Looking | PermitsPhase::Waiting { looked: false } => free(),
            PermitsPhase::Waiting { looked: true } => {
                (0..PERMITS).filter(|slot| state.offered[*slot] == Some(client)).collect()
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
            let finds_none = slots.is_empty();
            actions.extend(slots.into_iter().map(|slot| PermitsAction::Try { client, slot }));
            match &state.clients[client].phase {
                PermitsPhase::Trying(attempt) => {
                    let unasked = (0..NODES).filter(|node| attempt.unasked.contains(*node));
                    actions.extend(unasked.map(|node| PermitsAction::Acquire { client, node }));
                    actions.push(PermitsAction::Fail { client });
                }
                PermitsPhase::Looking | PermitsPhase::Entering | PermitsPhase::Waiting { looked: false } => {
                    actions.extend(finds_none.then_some(PermitsAction::FindNone { client }));
                    actions.push(PermitsAction::End { client });
                }
                PermitsPhase::Holding { .. } => {
                    actions.extend([PermitsAction::Claim { client }, PermitsAction::End { client }]);
                }
                PermitsPhase::Waiting { looked: true } => actions.push(PermitsAction::End { client }),
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
            PermitsAction::Fail { client } => self.fail(&mut state, client),
            PermitsAction::FindNone { client } => {
                let waiting = PermitsPhase::Waiting { looked: true };
                state.clients[client].phase = match state.clients[client].phase {
                    PermitsPhase::Looking => PermitsPhase::Entering,
                    PermitsPhase::Entering => {
                        state.queue.push((client, 0));
                        waiting
                    }
                    _ => waiting,
                };
            }
            PermitsAction::Claim { client } => {
                let PermitsPhase::Holding { slot, token } = state.clients[client].phase else { return None };
                let of_all = state.claimed.into_iter().max().unwrap_or_default();
                let largest = if self.is(PermitsMutant::OneFence) { of_all } else { state.claimed[slot] };
                state.valid_claim_refused |= token < largest;
                state.claimed[slot] = state.claimed[slot].max(token);
            }
            PermitsAction::End { client } => {
                let held = match state.clients[client].phase {
                    PermitsPhase::Holding { slot, .. } => Some(slot),
                    _ => None,
                };
                let is_last = state.clients[client].left == 0 || held.is_none();
                state.clients[client].phase = if is_last { PermitsPhase::Gone } else { PermitsPhase::Idle };
                self.leave(&mut state, client);
                if let Some(slot) = held {
                    self.release(&mut state, client, slot);
                }
            }
        }
        let state = state.representative();
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
