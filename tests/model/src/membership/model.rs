use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lock_core::node::{Inspection, RecordWrite};
use lock_core::quorum::{Change, MembershipStep};
use stateright::{Model, Property};

use super::action::MembershipAction;
use super::mind::{Event, Memo, Mind};
use super::node::{MemberNode, max_ttl};
use super::properties::{NO_DEADLOCK_OF_CHANGES, ONE_ROSTER, ONE_RULING_ROSTER, QUARANTINE_IS_LONG_ENOUGH};
use super::setting::{MembershipSetting, Pace};
use super::shared::{Shared, hash_of};
use super::state::{Faults, Hashed, InFlight, MembershipState};
use crate::properties::{MUTUAL_EXCLUSION, ORDERED_TOKENS};

/// After this many steps without another's, a client goes on for ever.
pub(super) const MAX_STEPS: usize = 400;
/// How far the logs of nodes are written when the model begins, and how far that of an earlier copy is.
const WRITTEN: u64 = 2;
const COPIED: u64 = 1;

/// The model of the membership and of a lock.
#[derive(Clone, Debug)]
pub struct MembershipModel {
    pub(super) setting: MembershipSetting,
    pub(super) memo: Arc<Memo>,
    /// Whether a client comes to an end from here.
    pub(super) settled: Arc<Mutex<HashMap<u64, bool>>>,
}

impl MembershipModel {
    /// The model with this setting.
    #[must_use]
    pub fn new(setting: MembershipSetting) -> Self {
        Self { setting, memo: Arc::new(Memo::new()), settled: Arc::default() }
    }

    /// What a client knows after it has read a node.
    pub(super) fn look(
        &self,
        nodes: &[MemberNode],
        now: u8,
        client: usize,
        place: usize,
        mind: &Shared<Mind>,
    ) -> Shared<Mind> {
        let node = self.setting.lists[client][place];
        let (found, fence) = (&nodes[node], self.fence_seen(&nodes[node]));
        let event = hash_of(&("seen", place, &found.record, found.run, found.log, found.clock_read(now), fence));
        let make = || Event::Seen(place, found.inspection(node, now), fence);
        self.memo.after(mind, event, make, self.time(now), &self.setting)
    }

    /// The time, as far as it matters to what clients learn: only if they may leave a set.
    fn time(&self, now: u8) -> u8 {
        if self.setting.detours > 0 { now } else { 0 }
    }

    fn fence_seen(&self, node: &MemberNode) -> u8 {
        if self.setting.is(super::MembershipMutant::FloorReadBeforeInstall) { node.fence } else { 0 }
    }

    pub(super) fn look_at_all(
        &self,
        nodes: &[MemberNode],
        now: u8,
        client: usize,
        mind: &Shared<Mind>,
    ) -> Shared<Mind> {
        let places = 0..self.setting.lists[client].len();
        places.fold(mind.clone(), |mind, place| self.look(nodes, now, client, place, &mind))
    }

    /// A client does one step, and learns how it went.
    pub(super) fn carry_out(
        &self,
        nodes: &mut [MemberNode],
        now: u8,
        client: usize,
        step: usize,
        mind: &Shared<Mind>,
    ) -> Shared<Mind> {
        let step = &mind.steps[step];
        let (place, node) = (super::node::node_of(step), self.node_of(client, step));
        let after = match step {
            MembershipStep::Write { write, .. } => {
                let written = nodes[node].write(node, write, now, &self.setting);
                nodes[node].record.as_ref().filter(|_| written).map(|record| {
                    let event = hash_of(&("written", place, record));
                    let make = || Event::Written(place, (**record).clone());
                    self.memo.after(mind, event, make, self.time(now), &self.setting)
                })
            }
            MembershipStep::ReadFence { roster, .. } => nodes[node].fences().map(|reading| {
                let event = hash_of(&("fence", place, roster, reading));
                let make = || Event::Fence(place, *roster, reading);
                self.memo.after(mind, event, make, self.time(now), &self.setting)
            }),
        };
        after.unwrap_or_else(|| self.look(nodes, now, client, place, mind))
    }

    fn ask(&self, mind: &Shared<Mind>, change: Change) -> Shared<Mind> {
        self.memo.after(mind, hash_of(&("ask", change)), || Event::Ask(change), 0, &self.setting)
    }

    /// All connections to a node were lost, with the requests on them. Each client inspects it before anything else.
    fn connect_again(&self, state: &mut MembershipState, node: usize) {
        for (client, list) in self.setting.lists.iter().enumerate() {
            for place in (0..list.len()).filter(|place| list[*place] == node) {
                state.clients[client] = self.look(&state.nodes, state.now, client, place, &state.clients[client]);
                let attempts = state.attempts.iter_mut().zip(self.setting.attempts);
                let epochs = attempts.filter(|(_, of)| **of == client).map(|(attempt, _)| &mut attempt.epochs);
                epochs.filter_map(|epochs| epochs.get_mut(place)).for_each(|epoch| *epoch = None);
            }
        }
    }

    /// A client votes for the next roster on one node after the other, until that is chosen.
    fn choose(&self, state: &mut MembershipState, client: usize) {
        for _ in 0..MAX_STEPS {
            let mind = state.clients[client].clone();
            if !mind.is_choosing() {
                break;
            }
            state.clients[client] = self.carry_out(&mut state.nodes, state.now, client, 0, &mind);
        }
    }

    /// A client does everything that can be done now.
    fn work(&self, state: &mut MembershipState, client: usize) {
        for _ in 0..MAX_STEPS {
            let mind = self.look_at_all(&state.nodes, state.now, client, &state.clients[client]);
            state.clients[client] = mind.clone();
            if mind.steps.is_empty() {
                break;
            }
            state.clients[client] = self.carry_out(&mut state.nodes, state.now, client, 0, &mind);
        }
    }

    /// Notes the rosters that are in use.
    fn note_rosters(state: &mut MembershipState) {
        let nodes = state.nodes.iter().chain(&state.elsewhere);
        let installed = nodes.filter_map(|node| node.roster.as_ref());
        let known = state.clients.iter().filter_map(|client| client.roster.as_ref());
        for roster in installed.chain(known) {
            if let Err(place) = state.rosters.binary_search(roster) {
                state.rosters.insert(place, roster.clone());
            }
        }
    }

    /// Lets a client with the first list form a set.
    fn found(&self, nodes: &mut [MemberNode]) {
        let mut founder = self.look_at_all(nodes, 0, 0, &Shared::new(Mind::founder(&self.setting)));
        while !founder.steps.is_empty() {
            founder = self.carry_out(nodes, 0, 0, 0, &founder);
        }
    }

    fn initial(&self) -> MembershipState {
        let log = if self.setting.restores > 0 { WRITTEN } else { 0 };
        let mut nodes = vec![MemberNode { log, ..MemberNode::default() }; self.setting.nodes()];
        let minds = (0..self.setting.lists.len()).map(|client| Shared::new(Mind::new(client, &self.setting)));
        let mut clients: Vec<Shared<Mind>> = minds.collect();
        if self.setting.formed {
            self.found(&mut nodes);
            let knows = |client: &usize| !self.setting.ignorant.contains(client);
            for client in (0..clients.len()).filter(knows) {
                clients[client] = self.look_at_all(&nodes, 0, client, &clients[client]);
            }
        }
        if let Some(client) = self.setting.successor {
            for (_, node) in nodes.iter_mut().enumerate().filter(|(node, _)| !self.setting.lists[client].contains(node))
            {
                *node = MemberNode { ids: node.ids, ..MemberNode::default() };
            }
            let mut mind = self.look_at_all(&nodes, 0, client, &Shared::new(Mind::new(client, &self.setting)));
            while !mind.steps.is_empty() {
                mind = self.carry_out(&mut nodes, 0, client, 0, &mind);
            }
            clients[client] = mind;
        }
        let mut elsewhere = Vec::new();
        if self.setting.detours > 0 {
            elsewhere = vec![MemberNode { run: 50, ids: 5, ..MemberNode::default() }; self.setting.nodes()];
            self.found(&mut elsewhere);
        }
        for client in self.setting.fresh.iter().copied() {
            clients[client] = self.look_at_all(&nodes, 0, client, &clients[client]);
        }
        if let Some(client) = self.setting.lowering {
            let change = Change::LowerMaxTtl(max_ttl(self.setting.asked_ttl()));
            clients[client] = self.ask(&clients[client], change);
        }
        let attempts = vec![super::state::MemberAttempt::default(); self.setting.attempts.len()];
        let mut state = MembershipState {
            now: 0,
            nodes,
            elsewhere,
            clients,
            in_flight: Vec::new(),
            attempts,
            rosters: Vec::new(),
            faults: Faults::default(),
            lowered: None,
            unordered_token: false,
        };
        Self::note_rosters(&mut state);
        state
    }

    fn apply(&self, before: &MembershipState, action: &MembershipAction) -> Option<MembershipState> {
        let mut state = before.clone();
        match *action {
            MembershipAction::Tick => state.now += 1,
            MembershipAction::Look { client, place } => {
                state.clients[client] = self.look(&state.nodes, state.now, client, place, &state.clients[client]);
            }
            MembershipAction::LookAtAll { client } => {
                state.clients[client] = self.look_at_all(&state.nodes, state.now, client, &state.clients[client]);
            }
            MembershipAction::Do { client, step } => {
                let mind = state.clients[client].clone();
                state.clients[client] = self.carry_out(&mut state.nodes, state.now, client, step, &mind);
                if self.setting.pace == Pace::Choice && mind.is_choosing() {
                    self.choose(&mut state, client);
                }
            }
            MembershipAction::Work { client } => self.work(&mut state, client),
            MembershipAction::FindLowered { client } => {
                let generation = state.clients[client].membership.roster()?.generation;
                state.lowered = Some((generation, state.now));
            }
            MembershipAction::LowerQuarantine { client } => {
                let generation = state.clients[client].membership.roster()?.generation;
                state.clients[client] = self.ask(&state.clients[client], Change::LowerQuarantine { generation });
            }
            MembershipAction::Send { client, step } => {
                let step = &state.clients[client].steps[step];
                let MembershipStep::Write { write, .. } = step else { return None };
                let message = InFlight::Write(self.node_of(client, step), Shared::new(Hashed(write.clone())));
                if state.in_flight.contains(&message) {
                    return None;
                }
                state.in_flight.push(message);
                state.faults.late_writes += 1;
            }
            MembershipAction::Reply { client, place } => {
                let node = self.setting.lists[client][place];
                let seen: Inspection = state.nodes[node].inspection(node, state.now);
                state.in_flight.push(InFlight::Read(client, place, Shared::new(seen)));
                state.faults.late_reads += 1;
            }
            MembershipAction::Arrive { message } => match state.in_flight[message].clone() {
                InFlight::Write(node, write) => {
                    let write: &RecordWrite = &write.0;
                    if !state.nodes[node].write(node, write, state.now, &self.setting) {
                        return None;
                    }
                }
                InFlight::Read(client, place, seen) => {
                    state.in_flight.remove(message);
                    let make = || Event::Seen(place, (*seen).clone(), 0);
                    let event = hash_of(&("late", place, &seen));
                    state.clients[client] =
                        self.memo.after(&state.clients[client], event, make, self.time(state.now), &self.setting);
                }
            },
            MembershipAction::Forget { node } => {
                let MemberNode { run, ids, jumped, .. } = state.nodes[node];
                state.nodes[node] = MemberNode { run, ids, jumped, ..MemberNode::default() };
                state.faults.forgets += 1;
            }
            MembershipAction::Restart { node } => {
                let restarted = &mut state.nodes[node];
                (restarted.run, restarted.key, restarted.fence) = (restarted.run + 1, None, 0);
                state.faults.restarts += 1;
            }
            MembershipAction::Restore { node } => {
                let restored = &mut state.nodes[node];
                (restored.log, restored.key, restored.fence) = (COPIED, None, 0);
                state.faults.restores += 1;
                self.connect_again(&mut state, node);
            }
            MembershipAction::Jump { node } => {
                state.nodes[node].jumped = true;
                state.faults.jumps += 1;
            }
            MembershipAction::Detour => {
                std::mem::swap(&mut state.nodes, &mut state.elsewhere);
                state.faults.detours += 1;
            }
            MembershipAction::AskLate { attempt, place } => self.ask_late(&mut state, attempt, place)?,
            MembershipAction::Begin { attempt } => self.begin(&mut state, attempt)?,
            MembershipAction::Execute { attempt, place } => self.execute(&mut state, attempt, place)?,
            MembershipAction::Renew { attempt } => self.renew(&mut state, attempt)?,
            MembershipAction::End { attempt } => Self::end(&mut state, attempt),
        }
        Some(state)
    }
}

impl Model for MembershipModel {
    type State = MembershipState;
    type Action = MembershipAction;

    fn init_states(&self) -> Vec<MembershipState> {
        vec![self.initial()]
    }

    fn actions(&self, state: &MembershipState, actions: &mut Vec<MembershipAction>) {
        self.enabled_actions(state, actions);
    }

    fn next_state(&self, before: &MembershipState, action: MembershipAction) -> Option<MembershipState> {
        let mut state = self.apply(before, &action)?;
        for client in self.setting.fresh.iter().copied() {
            state.clients[client] = self.look_at_all(&state.nodes, state.now, client, &state.clients[client]);
        }
        self.normalize(&mut state);
        Self::note_rosters(&mut state);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::<Self>::always(ONE_ROSTER, |_, state| state.has_one_roster_each()),
            Property::<Self>::always(ONE_RULING_ROSTER, |_, state| state.has_one_ruling_roster()),
        ];
        if !self.setting.attempts.is_empty() {
            properties.push(Property::<Self>::always(ORDERED_TOKENS, |_, state| !state.unordered_token));
        }
        if self.setting.is_timed() {
            properties.push(Property::<Self>::always(MUTUAL_EXCLUSION, |_, state| state.is_exclusive()));
            properties.push(Property::<Self>::always(QUARANTINE_IS_LONG_ENOUGH, |_, state| {
                state.quarantines_are_long_enough()
            }));
        }
        if self.setting.deadlocks {
            properties.push(Property::<Self>::always(NO_DEADLOCK_OF_CHANGES, Self::comes_to_an_end));
        }
        properties
    }

    fn within_boundary(&self, state: &MembershipState) -> bool {
        let rounds =
            |node: &MemberNode| node.record.as_ref().and_then(|record| record.promised).map(|ballot| ballot.round);
        state.nodes.iter().filter_map(rounds).all(|round| round <= self.setting.max_round)
            && state.rosters.iter().all(|roster| roster.generation <= self.setting.max_generation)
    }
}
