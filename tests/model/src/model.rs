use std::sync::Arc;

use stateright::{Model, Property};

use super::action::Action;
use super::coverage::{Coverage, CoveragePoint};
use super::deadlock;
use super::eviction::{has_a_token_of_its_own, is_joined_by_nobody, shuts_out_nobody_else, shuts_out_the_evicted};
use super::mutant::Mutant;
use super::properties::{
    EVICTED_CANNOT_RENEW, EVICTED_JOINED_BY_NOBODY, EVICTED_SHUT_OUT, MAJORITY_GRANTS, MUTUAL_EXCLUSION, NO_DEADLOCK,
    NO_LOST_RENEWAL, ORDERED_TOKENS, OWN_KEYS_ONLY, SUCCESSOR_NOT_SHUT_OUT, UNIQUE_TOKENS,
};
use super::setting::Setting;
use super::state::{Breaches, CLIENTS, Node, Phase, ReplySlot, State};

/// The model of a lock whose nodes keep no queue.
#[derive(Clone, Debug)]
pub struct LockModel {
    pub(super) setting: Setting,
    pub(super) coverage: Arc<Coverage>,
}

impl LockModel {
    /// The model with this setting.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        Self { setting, coverage: Arc::default() }
    }

    /// The coverage points that the checker has reached.
    #[must_use]
    pub fn coverage(&self) -> Arc<Coverage> {
        Arc::clone(&self.coverage)
    }

    /// The same state with some nodes and attempts renamed.
    fn representative(&self, state: State) -> State {
        if self.setting.mutant == Some(Mutant::SharedOwnerId) {
            return state.with_nodes_in_order();
        }
        state.with_attempts_in_order(|client| self.setting.first_alike(client)).with_nodes_in_order()
    }

    /// The owner id of an attempt.
    pub(super) fn owner(&self, client: usize) -> usize {
        if self.setting.mutant == Some(Mutant::SharedOwnerId) { 0 } else { client }
    }

    fn tick(&self, state: &mut State) {
        state.now += 1;
        let now = state.now;
        state.nodes.iter_mut().for_each(|node| node.pass_time(now, self.setting.mutant));
        for client in 0..state.clients.len() {
            let ended = match &state.clients[client].phase {
                Phase::Holding { until, .. } => *until <= now,
                // No reply can arrive in time any more.
                Phase::Acquiring(attempt) => attempt.began + self.setting.ttl_of(client) <= now,
                Phase::Idle | Phase::Ended => false,
            };
            if ended {
                self.end(state, client);
            }
        }
    }

    fn forget(&self, state: &mut State, node: usize) {
        let mutant = self.setting.mutant;
        let quarantine_end = match mutant {
            Some(Mutant::NoQuarantine | Mutant::NoQuarantineNoFloor) => 0,
            _ => state.now + self.setting.time.map_or(0, |time| time.quarantine),
        };
        if state.nodes[node].key.is_some() {
            self.coverage.mark(CoveragePoint::LostKey);
        }
        state.forgets += 1;
        let others = state.nodes.iter().enumerate().filter(|(other, _)| *other != node);
        let floor = match mutant {
            Some(Mutant::NoFloor | Mutant::NoQuarantineNoFloor) => 0,
            _ => others.map(|(_, other)| other.fence).max().unwrap_or_default(),
        };
        state.nodes[node].forget(floor, quarantine_end);
        let all = 0..state.nodes.len();
        for installing in all.filter(|other| *other == node || mutant != Some(Mutant::FloorWithoutInstall)) {
            state.nodes[installing].epoch += 1;
            for client in &mut state.clients {
                client.extends.remove(installing);
                client.downgrades.remove(installing);
                client.confirms.iter_mut().for_each(|proposal| proposal.nodes.remove(installing));
            }
        }
    }

    fn advance_fence(&self, state: &mut State, node: usize, fence: u8) {
        let holder = state.nodes[node].key.and_then(|key| state.clients.get(key.owner));
        if holder.is_some_and(|holder| matches!(holder.phase, Phase::Acquiring(_))) {
            self.coverage.mark(CoveragePoint::FenceAdvanced);
        }
        state.fence_advances += 1;
        state.nodes[node].fence = fence;
    }

    fn cover_split(&self, state: &State) {
        let acquires = |client: usize| matches!(state.clients[client].phase, Phase::Acquiring(_));
        let holds = |client: usize| state.nodes.iter().filter(|node| node.is_held_by(client)).count() == 1;
        if (0..2).all(|client| acquires(client) && holds(client)) {
            self.coverage.mark(CoveragePoint::Split);
        }
    }

    /// Removes what no longer matters of an ended attempt, so that equivalent states become equal: requests for a past epoch,
    /// and confirms on nodes whose fence has reached the proposed token.
    fn normalize(&self, state: &mut State) {
        // A mutant may execute what finds no key of its owner.
        if self.setting.prompt && self.setting.mutant.is_none() {
            remove_idle_requests(state);
        }
        for client in state.clients.iter_mut().filter(|client| client.phase == Phase::Ended) {
            for (index, node) in state.nodes.iter().enumerate() {
                if client.acquires[index].take_if(|epoch| *epoch != node.epoch).is_some() {
                    self.coverage.mark(CoveragePoint::OldEpoch);
                }
                client.replaces[index].take_if(|replace| replace.epoch != node.epoch);
            }
            client.renewals = 0;
            if !self.setting.counts_tokens() {
                client.token = None;
            }
            for proposal in client.confirms.iter_mut().filter(|_| self.setting.forgets == 0) {
                for (index, node) in state.nodes.iter().enumerate() {
                    if node.fence >= proposal.token {
                        proposal.nodes.remove(index);
                    }
                }
                if proposal.nodes == Default::default() {
                    *proposal = Default::default();
                }
            }
        }
    }
}

/// Removes requests whose reply nobody awaits, and that find no key of their owner, now or later.
fn remove_idle_requests(state: &mut State) {
    for (index, client) in state.clients.iter_mut().enumerate() {
        for (at, node) in state.nodes.iter().enumerate() {
            let has_key = node.is_held_by(index) || client.acquires[at].is_some() || client.replaces[at].is_some();
            if !has_key && client.replies().is_none_or(|replies| replies[at] == ReplySlot::Closed) {
                client.extends.remove(at);
                client.downgrades.remove(at);
            }
        }
    }
}

/// Whether two attempts were granted the same token.
fn has_duplicate_token(model: &LockModel, state: &State) -> bool {
    let mut given: [Option<(u8, u8)>; CLIENTS] = [None; CLIENTS];
    for (given, (client, tokens)) in given.iter_mut().zip(state.clients.iter().zip(model.setting.tokens)) {
        *given = client.token.zip(client.last_token(tokens));
    }
    // Readers may share a token.
    let reads = |client| model.setting.reads(client);
    let pairs = (0..CLIENTS).flat_map(|one| (0..one).map(move |other| (one, other)));
    let reads_by_now = |client: usize| reads(client) || state.clients[client].downgraded;
    let share = |one: usize, other: usize| reads(one) && reads_by_now(other) || reads(other) && reads_by_now(one);
    let pairs = pairs.filter(|(one, other)| !share(*one, *other));
    let pairs = pairs.map(|(one, other)| (given[one], given[other]));
    pairs.into_iter().any(|pair| matches!(pair, (Some(one), Some(other)) if one.0 <= other.1 && other.0 <= one.1))
}

impl Model for LockModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let nodes = self.setting.initial_fences.map(|fence| Node { fence, ..Node::default() });
        let now = u8::from(self.setting.time.is_some());
        vec![State {
            now,
            forgets: 0,
            fence_advances: 0,
            nodes,
            clients: Default::default(),
            eviction: self.setting.evicts.then(Box::default),
            breaches: Breaches::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.enabled_actions(state, actions);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        if let Action::Execute { client, node, request, recorded: false, .. } = action
            && self.changes_nothing(before, client, node, request)
        {
            return None;
        }
        let mut state = before.clone();
        match action {
            Action::Begin { client } => self.begin(&mut state, client),
            Action::Execute { client, node, request, recorded, delivery } => {
                self.execute(&mut state, client, node, request, recorded);
                let is_noticed =
                    state.nodes != before.nodes || state.clients[client].replies() != before.clients[client].replies();
                if self.setting.prompt && !is_noticed {
                    return None;
                }
                self.deliver(&mut state, client, delivery);
            }
            Action::Deliver { client, delivery } => self.deliver(&mut state, client, delivery),
            Action::Release { client } => self.end(&mut state, client),
            Action::Renew { client } => self.renew(&mut state, client),
            Action::Downgrade { client } => self.downgrade(&mut state, client),
            Action::Expire { node } => state.nodes[node].expire_key(u8::MAX, self.setting.mutant),
            Action::ExpireReader { node, client } => state.nodes[node].readers[client] = 0,
            Action::Look { node } => self.look(&mut state, node),
            Action::SendEvictions => self.send_evictions(&mut state),
            Action::Evict { node } => self.evict(&mut state, node),
            Action::AdvanceFence { node, fence } => self.advance_fence(&mut state, node, fence),
            Action::Forget { node } => self.forget(&mut state, node),
            Action::Tick => self.tick(&mut state),
        }
        self.normalize(&mut state);
        self.cover_split(&state);
        let state = self.representative(state);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::<Self>::always(MAJORITY_GRANTS, |_, state| !state.breaches.token_without_majority),
            Property::<Self>::always(OWN_KEYS_ONLY, |_, state| !state.breaches.foreign_key_changed),
            Property::<Self>::always(NO_DEADLOCK, deadlock::is_deadlock_free),
        ];
        if self.setting.counts_tokens() {
            properties.push(Property::<Self>::always(UNIQUE_TOKENS, |model, state| {
                !has_duplicate_token(model, state) && has_a_token_of_its_own(model, state)
            }));
            properties.push(Property::<Self>::always(ORDERED_TOKENS, |_, state| !state.breaches.unordered_token));
        }
        if self.setting.time.is_some() {
            properties.push(Property::<Self>::always(MUTUAL_EXCLUSION, |model, state| {
                let holds = |client: &usize| {
                    matches!(state.clients[*client].phase, Phase::Holding { .. }) && !state.is_evicted(*client)
                };
                let holders = || (0..CLIENTS).filter(holds);
                let reads = |client: usize| model.setting.reads(client) || state.clients[client].downgraded;
                holders().count() <= 1 || holders().all(reads)
            }));
            properties.push(Property::<Self>::always(NO_LOST_RENEWAL, |_, state| !state.breaches.lost_key_renewed));
        }
        if self.setting.evicts {
            properties.push(Property::<Self>::always(EVICTED_CANNOT_RENEW, |_, state| !state.breaches.evicted_renewed));
        }
        if self.setting.joins {
            properties.push(Property::<Self>::always(EVICTED_JOINED_BY_NOBODY, is_joined_by_nobody));
        }
        if self.setting.evicts && self.setting.counts_tokens() {
            properties.push(Property::<Self>::always(EVICTED_SHUT_OUT, shuts_out_the_evicted));
            // An eviction that arrives after a key has expired finds no successor there, although the key was a vote for its token.
            if self.setting.no_key_expires() {
                properties.push(Property::<Self>::always(SUCCESSOR_NOT_SHUT_OUT, shuts_out_nobody_else));
            }
        }
        properties
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.nodes.iter().all(|node| node.fence <= self.setting.max_fence)
    }
}
