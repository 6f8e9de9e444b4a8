//! Two attempts on three masters, in every order of events: messages late, lost and doubled, keys that expire at any step,
//! attempts that are given up or released at any step. What decides is the shipped [`Acquisition`]; the masters follow the rules of
//! [`lock_core::Request`].

#![allow(clippy::unwrap_used, reason = "in a test, what can not go on has to end it")]

use std::collections::BTreeSet;
use std::time::Duration;

use lock_core::quorum::{AcquireVote, Acquisition, ConfirmVote, Step, Terms};
use stateright::{Checker, HasDiscoveries, Model, Property};

const NODES: usize = 3;
const CLIENTS: usize = 2;

/// The rules, or the nearest wrong ones.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rules {
    Shipped,
    /// The token is the largest of the grants, without a confirmation.
    LargestGrant,
    /// A master confirms without a look at whose key it is.
    ConfirmWithoutOwner,
    /// Both attempts use one owner id.
    OneOwner,
}

struct Locks {
    rules: Rules,
    /// The fencing numbers that the masters begin with.
    fences: [u8; NODES],
    /// Beyond this number the model is not followed.
    highest: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: [Node; NODES],
    clients: [Client; CLIENTS],
    /// Confirms that were sent. They stay: a message may come at any time, more than once, or never.
    confirms: BTreeSet<(usize, usize, u8, u8)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    owner: Option<usize>,
    fence: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Client {
    phase: Phase,
    token: Option<u8>,
    /// The largest token of the acquisitions that had completed when this one began.
    floor: u8,
    /// The masters that ever granted.
    granted: [bool; NODES],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    Idle,
    Asking(Acquisition),
    /// It has the lock, had it, or failed. Its messages may come yet.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Reply {
    Granted(u8),
    Held,
    Confirmed { round: u8 },
    Refused { round: u8, fence: u8 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Event {
    Begin(usize),
    /// A message is executed. Its answer comes, or is lost. (One that comes late tells no more than one that comes at
    /// once, for what it leads to may be late as well.)
    Acquire {
        client: usize,
        node: usize,
        answered: bool,
    },
    Confirm {
        client: usize,
        node: usize,
        round: u8,
        fence: u8,
        answered: bool,
    },
    /// A key ends: it expires, or its owner's release is executed. (To the masters both are the same. An attempt that is
    /// given up is one whose answers are lost.)
    End(usize),
}

impl Locks {
    /// Hands an answer to the shipped decider, and does what that says.
    fn answer(&self, state: &mut State, client: usize, node: usize, reply: Reply) {
        let Phase::Asking(acquisition) = &mut state.clients[client].phase else { return };
        let now = Duration::ZERO;
        let step = match reply {
            Reply::Granted(fence) => acquisition.acquire_vote(node, AcquireVote::Granted { fence: fence.into() }, now),
            Reply::Held => acquisition.acquire_vote(node, AcquireVote::Held { remaining: None }, now),
            Reply::Confirmed { round } => acquisition.confirm_vote(node, round, ConfirmVote::Confirmed, now),
            Reply::Refused { round, fence } => {
                acquisition.confirm_vote(node, round, ConfirmVote::Refused { fence: fence.into() }, now)
            }
        };
        self.follow(state, client, step);
    }

    fn owner(&self, client: usize) -> usize {
        if self.rules == Rules::OneOwner { 0 } else { client }
    }

    fn follow(&self, state: &mut State, client: usize, step: Step) {
        match step {
            Step::Wait => {}
            Step::Confirm { fence, .. } if self.rules == Rules::LargestGrant => hold(state, client, fence),
            Step::Confirm { round, fence, nodes } => {
                let fence = u8::try_from(fence).unwrap();
                state.confirms.extend(nodes.into_iter().map(|node| (client, node, round, fence)));
            }
            Step::Granted { token, .. } => hold(state, client, token),
            Step::Failed(_) => state.clients[client].phase = Phase::Over,
        }
    }
}

fn hold(state: &mut State, client: usize, token: u64) {
    state.clients[client].phase = Phase::Over;
    state.clients[client].token = Some(u8::try_from(token).unwrap());
}

impl Model for Locks {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let nodes = self.fences.map(|fence| Node { owner: None, fence });
        vec![State { nodes, clients: Default::default(), confirms: BTreeSet::new() }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        let acquires = |client, answered| (0..NODES).map(move |node| Event::Acquire { client, node, answered });
        for (client, Client { phase, .. }) in state.clients.iter().enumerate() {
            match phase {
                // In order: the other way round is the same with the names changed.
                Phase::Idle => {
                    if client == 0 || state.clients[client - 1].phase != Phase::Idle {
                        events.push(Event::Begin(client));
                    }
                    continue;
                }
                Phase::Asking(_) => events.extend(acquires(client, true)),
                Phase::Over => {}
            }
            events.extend(acquires(client, false));
        }
        for &(client, node, round, fence) in &state.confirms {
            let confirm = |answered| Event::Confirm { client, node, round, fence, answered };
            events.push(confirm(false));
            if matches!(state.clients[client].phase, Phase::Asking(_)) {
                events.push(confirm(true));
            }
        }
        events.extend((0..NODES).filter(|node| state.nodes[*node].owner.is_some()).map(Event::End));
    }

    fn next_state(&self, before: &State, event: Event) -> Option<State> {
        let mut state = before.clone();
        match event {
            Event::Begin(client) => {
                let terms = Terms { ttl: Duration::from_secs(1), min_validity: Duration::ZERO, tokens: 1 };
                let floor = before.clients.iter().filter_map(|other| other.token).max().unwrap_or_default();
                state.clients[client].floor = floor;
                state.clients[client].phase = Phase::Asking(Acquisition::new(NODES, terms));
            }
            Event::Acquire { client, node, answered } => {
                let (owner, place) = (self.owner(client), &mut state.nodes[node]);
                let reply = match place.owner {
                    Some(holder) if holder != owner => Reply::Held,
                    Some(_) => Reply::Granted(place.fence),
                    None => {
                        *place = Node { owner: Some(owner), fence: place.fence + 1 };
                        Reply::Granted(place.fence)
                    }
                };
                state.clients[client].granted[node] |= reply != Reply::Held;
                if answered {
                    self.answer(&mut state, client, node, reply);
                }
            }
            Event::Confirm { client, node, round, fence, answered } => {
                let (owner, place) = (self.owner(client), &mut state.nodes[node]);
                let ours = place.owner == Some(owner) || self.rules == Rules::ConfirmWithoutOwner;
                let reply = if ours && place.fence <= fence {
                    place.fence = fence;
                    Reply::Confirmed { round }
                } else {
                    Reply::Refused { round, fence: place.fence }
                };
                if answered {
                    self.answer(&mut state, client, node, reply);
                }
            }
            Event::End(node) => state.nodes[node].owner = None,
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(UNIQUE, |_, state: &State| {
                let [one, other] = &state.clients;
                one.token.is_none() || one.token != other.token
            }),
            Property::always(ORDERED, |_, state: &State| {
                state.clients.iter().all(|client| client.token.is_none_or(|token| token > client.floor))
            }),
            Property::always("no token without the grants of a majority", |_, state: &State| {
                let majority = |client: &Client| client.granted.iter().filter(|granted| **granted).count() > NODES / 2;
                state.clients.iter().all(|client| client.token.is_none() || majority(client))
            }),
            Property::sometimes("both get the lock, one after the other", |_, state: &State| {
                state.clients.iter().all(|client| client.token.is_some()) && state.clients[1].floor > 0
            }),
            Property::sometimes("an attempt fails", |_, state: &State| {
                state.clients.iter().any(|client| client.token.is_none() && client.phase == Phase::Over)
            }),
        ]
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.nodes.iter().all(|node| node.fence <= self.highest)
    }
}

const UNIQUE: &str = "tokens are unique";
const ORDERED: &str = "an acquisition that began after another completed has the larger token";

/// Goes through all states that can be reached and returns the properties that were decided: an `always` that does not
/// hold, a `sometimes` that does.
fn explore(rules: Rules, fences: [u8; NODES], highest: u8) -> (usize, Vec<&'static str>) {
    let locks = Locks { rules, fences, highest };
    let checker = locks.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    if rules == Rules::Shipped {
        checker.assert_properties();
    }
    (checker.unique_state_count(), checker.discoveries().into_keys().collect())
}

#[test]
fn the_shipped_rules_give_unique_and_ordered_tokens_in_every_order_of_events() {
    for (fences, highest) in [([0, 0, 0], 2), ([0, 1, 2], 3)] {
        let (states, _) = explore(Rules::Shipped, fences, highest);
        assert!(states > 100_000, "{states} states are not all");
    }
}

#[test]
fn the_nearest_wrong_rules_are_caught() {
    for rules in [Rules::LargestGrant, Rules::ConfirmWithoutOwner, Rules::OneOwner] {
        let (_, found) = explore(rules, [0, 1, 2], 3);
        assert!(found.contains(&UNIQUE) || found.contains(&ORDERED), "{rules:?} was not caught, but {found:?}");
    }
}
