use std::sync::Arc;

use lock_core::quorum::AcquireVote;
use stateright::{Model, Property};

use super::calm;
use super::event::{Event, Message};
use super::node::HELD;
use super::promise::{CALM, EXCLUSIVE, MAJORITY, NOT_REVIVED, ORDERED, OWN_KEYS, UNIQUE};
use super::setting::{Rules, Setting};
use super::sight::{Sight, Sights};
use super::state::{Answer, Breaches, CLIENTS, Key, Line, Node, Phase, State};

/// The model.
#[derive(Clone, Debug)]
pub struct Locks {
    pub(super) setting: Setting,
    pub(super) sights: Arc<Sights>,
}

impl Locks {
    /// A model of a setting.
    #[must_use]
    pub fn new(setting: Setting) -> Self {
        Self { setting, sights: Arc::default() }
    }

    /// What was seen while it was checked.
    #[must_use]
    pub fn sights(&self) -> Arc<Sights> {
        Arc::clone(&self.sights)
    }

    /// Whether nothing tells attempts apart but their names.
    fn attempts_are_alike(&self) -> bool {
        self.setting.asks_for_blocks_alike() && self.setting.rules != Rules::OneOwner
    }

    /// The owner id of an attempt.
    pub(super) fn owner(&self, client: usize) -> usize {
        if self.setting.rules == Rules::OneOwner { 0 } else { client }
    }

    fn execute(&self, state: &mut State, number: usize, at: usize, message: Message, answered: bool) {
        let rules = self.setting.rules;
        let owner = self.owner(number);
        let key = Key { owner, expires: state.now + self.setting.ttl() };
        let (client, node) = (&mut state.clients[number], &mut state.nodes[at]);
        let before = *node;
        let answer = match message {
            Message::Acquire => {
                let tokens = if rules == Rules::BlockOfOne { 1 } else { self.setting.tokens[number] };
                let vote = node.acquire(key, client.acquires[at].unwrap_or_default(), client.hint, tokens);
                if let Some(vote) = vote {
                    self.note_vote(client, before, *node, at, vote, answered);
                } else if client.acquires[at] != Some(node.epoch) {
                    self.sights.note(Sight::OldEpoch);
                }
                let is_told = |vote: &AcquireVote| self.setting.held_is_told || *vote != HELD;
                vote.filter(is_told).map(Answer::Acquire)
            }
            Message::Confirm(round) => {
                let fence = client.confirms[usize::from(round) - 1].fence;
                let vote = node.confirm(owner, fence, rules);
                if client.phase == Phase::Over && *node != before {
                    self.sights.note(Sight::LateConfirm);
                }
                Some(Answer::Confirm(round, vote))
            }
            Message::Extend => {
                let vote = node.extend(key, rules);
                match &mut client.phase {
                    Phase::Holding { round: Some(round), .. } if round.epochs[at] == Some(node.epoch) => {
                        if answered && before.is_held_by(owner) {
                            round.kept.insert(at);
                            if client.replaces[at].is_some() {
                                self.sights.note(Sight::KeptAfterReplace);
                            }
                        }
                        Some(Answer::Extend(vote))
                    }
                    _ => None,
                }
            }
            Message::Replace => {
                node.replace(key, client.replaces[at].unwrap_or_default(), client.token.unwrap_or_default());
                if *node != before {
                    self.sights.note(if client.phase == Phase::Over { Sight::LateReplace } else { Sight::Replaced });
                }
                None
            }
            Message::Release => {
                node.release(owner, rules);
                None
            }
        };
        if !self.setting.doubled {
            client.forget_message(at, message);
        }
        state.breaches.trespass |= before.key.is_some_and(|held| held.owner != owner) && node.key != before.key;
        if let (true, Some(answer), Some(lines)) = (answered, answer, client.lines_mut()) {
            lines[at] = Line::Answered(answer);
        }
    }

    /// Whether a message that nobody hears of is in vain, so that most need not be followed.
    fn changes_nothing(&self, state: &State, number: usize, at: usize, message: Message) -> bool {
        let (client, node, shipped) = (&state.clients[number], &state.nodes[at], self.setting.rules == Rules::Shipped);
        match message {
            Message::Acquire => node.key.is_some() || client.acquires[at] != Some(node.epoch),
            Message::Replace => node.key.is_some() || client.replaces[at] != Some(node.epoch),
            Message::Confirm(_) | Message::Extend | Message::Release => shipped && !node.is_held_by(number),
        }
    }

    fn note_vote(
        &self,
        client: &mut super::state::Client,
        before: Node,
        after: Node,
        at: usize,
        vote: AcquireVote,
        answered: bool,
    ) {
        let AcquireVote::Granted { .. } = vote else { return };
        match &mut client.phase {
            Phase::Asking(asking) if answered => asking.granted.insert(at),
            Phase::Asking(_) => {}
            _ if after != before => self.sights.note(Sight::LateAcquire),
            _ => {}
        }
        if after.epoch > 0 {
            self.sights.note(Sight::GrantedAfterForgetting);
        }
    }

    fn tick(&self, state: &mut State) {
        state.now += 1;
        let now = state.now;
        state.nodes.iter_mut().for_each(|node| node.pass_time(now, self.setting.rules));
        self.send_at_last(state);
        for client in 0..state.clients.len() {
            let over = match &state.clients[client].phase {
                Phase::Holding { until, .. } => *until <= now,
                // Nothing that it hears will be in time.
                Phase::Asking(asking) => asking.began + self.setting.ttl() <= now,
                Phase::Idle | Phase::Over => false,
            };
            if over {
                self.end(state, client);
            }
        }
    }

    fn forget(&self, state: &mut State, node: usize) {
        let sits_out = match self.setting.rules {
            Rules::NoQuarantine | Rules::NoQuarantineNoClock => 0,
            _ => state.now + self.setting.time.map_or(0, |time| time.quarantine),
        };
        if state.nodes[node].key.is_some() {
            self.sights.note(Sight::Forgot);
        }
        state.forgets += 1;
        state.nodes[node].forget(sits_out);
    }

    fn move_on(&self, state: &mut State, node: usize, fence: u8) {
        let holder = state.nodes[node].key.and_then(|key| state.clients.get(key.owner));
        if holder.is_some_and(|holder| matches!(holder.phase, Phase::Asking(_))) {
            self.sights.note(Sight::MovedOn);
        }
        state.neighbours += 1;
        state.nodes[node].fence = fence;
    }

    fn note_split(&self, state: &State) {
        let asks = |client: usize| matches!(state.clients[client].phase, Phase::Asking(_));
        let holds = |client: usize| state.nodes.iter().filter(|node| node.is_held_by(client)).count() == 1;
        if (0..2).all(|client| asks(client) && holds(client)) {
            self.sights.note(Sight::Split);
        }
    }

    /// Drops what can not matter any more of an attempt that is over: messages of an epoch that is over, too; the clock that it knew,
    /// when none of its acquires is on its way; a confirm, where the number is not lower already.
    fn tidy(&self, state: &mut State) {
        for client in state.clients.iter_mut().filter(|client| client.phase == Phase::Over) {
            for (number, node) in state.nodes.iter().enumerate() {
                let is_past = |epoch: &mut u8| *epoch != node.epoch;
                if client.acquires[number].take_if(is_past).is_some() {
                    self.sights.note(Sight::OldEpoch);
                }
                client.replaces[number].take_if(is_past);
            }
            if client.acquires.iter().all(Option::is_none) {
                client.hint = 0;
            }
            client.renewals = 0;
            for proposal in client.confirms.iter_mut().filter(|_| self.setting.forgets == 0) {
                for (number, node) in state.nodes.iter().enumerate() {
                    if node.fence >= proposal.fence {
                        proposal.nodes.remove(number);
                    }
                }
                if proposal.nodes == Default::default() {
                    *proposal = Default::default();
                }
            }
        }
    }
}

/// Whether two attempts were given one token.
fn has_shared_token(locks: &Locks, state: &State) -> bool {
    let mut given: [Option<(u8, u8)>; CLIENTS] = [None; CLIENTS];
    for (given, (client, tokens)) in given.iter_mut().zip(state.clients.iter().zip(locks.setting.tokens)) {
        *given = client.token.zip(client.last_token(tokens));
    }
    let pairs = (0..CLIENTS).flat_map(|one| (0..one).map(move |other| (given[one], given[other])));
    pairs.into_iter().any(|pair| matches!(pair, (Some(one), Some(other)) if one.0 <= other.1 && other.0 <= one.1))
}

impl Model for Locks {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let nodes = self.setting.fences.map(|fence| Node { fence, ..Node::default() });
        let now = u8::from(self.setting.time.is_some());
        vec![State {
            now,
            forgets: 0,
            neighbours: 0,
            nodes,
            clients: Default::default(),
            breaches: Breaches::default(),
        }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        self.events(state, events);
    }

    fn next_state(&self, before: &State, event: Event) -> Option<State> {
        if let Event::Execute { client, node, message, answered: false } = event
            && self.changes_nothing(before, client, node, message)
        {
            return None;
        }
        let mut state = before.clone();
        match event {
            Event::Begin { client, hint } => self.begin(&mut state, client, hint),
            Event::Execute { client, node, message, answered } => {
                self.execute(&mut state, client, node, message, answered);
            }
            Event::Hear { client, hearing } => self.hear(&mut state, client, hearing),
            Event::Leave { client } => self.end(&mut state, client),
            Event::Renew { client } => self.renew(&mut state, client),
            Event::Expire { node } => state.nodes[node].pass_time(u8::MAX, self.setting.rules),
            Event::MoveOn { node, fence } => self.move_on(&mut state, node, fence),
            Event::Forget { node } => self.forget(&mut state, node),
            Event::Tick => self.tick(&mut state),
        }
        self.tidy(&mut state);
        self.note_split(&state);
        let state = state.representative(self.attempts_are_alike());
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::<Self>::always(UNIQUE, |locks, state| !has_shared_token(locks, state)),
            Property::<Self>::always(ORDERED, |_, state| !state.breaches.disorder),
            Property::<Self>::always(MAJORITY, |_, state| !state.breaches.minority),
            Property::<Self>::always(OWN_KEYS, |_, state| !state.breaches.trespass),
            Property::<Self>::always(CALM, calm::leads_to_a_grant),
        ];
        if self.setting.time.is_some() {
            properties.push(Property::<Self>::always(EXCLUSIVE, |_, state| {
                state.clients.iter().filter(|client| matches!(client.phase, Phase::Holding { .. })).count() <= 1
            }));
            properties.push(Property::<Self>::always(NOT_REVIVED, |_, state| !state.breaches.resurrection));
        }
        properties
    }

    fn within_boundary(&self, state: &State) -> bool {
        let ceiling = self.setting.ceiling(state.now);
        state.nodes.iter().all(|node| node.fence <= ceiling)
    }
}
