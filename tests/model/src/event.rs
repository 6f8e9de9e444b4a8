use super::locks::Locks;
use super::state::{Line, NODES, Phase, Question, State};

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A client begins its attempt, with this clock.
    Begin {
        /// Which.
        client: usize,
        /// The clock.
        hint: u8,
    },
    /// A message is executed.
    Execute {
        /// Whose.
        client: usize,
        /// Where.
        node: usize,
        /// Which.
        message: Message,
        /// Whether this is the answer that the client may hear, at any time after this, and not one before.
        answered: bool,
    },
    /// Answers come, in this order, and the last one leads to something.
    Hear {
        /// Who hears.
        client: usize,
        /// What.
        hearing: Hearing,
    },
    /// A client gives up its attempt, or lets go of its lock. Its releases are sent.
    Leave {
        /// Which.
        client: usize,
    },
    /// A holder begins a round of renewal.
    Renew {
        /// Which.
        client: usize,
    },
    /// A key ends before anyone expects it.
    Expire {
        /// Where.
        node: usize,
    },
    /// Another lock, which has the same fence, moves that of a node on.
    MoveOn {
        /// Where.
        node: usize,
        /// To which number.
        fence: u8,
    },
    /// A node restarts and has forgotten everything.
    Forget {
        /// Which.
        node: usize,
    },
    /// A tick passes.
    Tick,
}

/// Answers in the order in which they come: of which node, and whether it comes or is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hearing {
    answers: [(usize, bool); NODES],
    len: usize,
}

impl Hearing {
    pub(super) fn push(&mut self, node: usize, comes: bool) {
        self.answers[self.len] = (node, comes);
        self.len += 1;
    }

    pub(super) fn pop(&mut self) {
        self.len -= 1;
    }

    /// The answers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, bool)> {
        self.answers[..self.len].iter().copied()
    }
}

/// A message to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// Acquire.
    Acquire,
    /// The confirm of this round.
    Confirm(u8),
    /// Extend.
    Extend,
    /// Replace.
    Replace,
    /// Release.
    Release,
}

impl Message {
    /// What an answer to it would be to.
    #[must_use]
    pub fn question(self) -> Option<Question> {
        match self {
            Self::Acquire => Some(Question::Acquire),
            Self::Confirm(round) => Some(Question::Confirm(round)),
            Self::Extend => Some(Question::Extend),
            Self::Replace | Self::Release => None,
        }
    }
}

impl Locks {
    /// All that can happen next.
    pub(super) fn events(&self, state: &State, events: &mut Vec<Event>) {
        for client in 0..self.setting.attempts {
            self.events_of(state, client, events);
        }
        let nodes = state.nodes.iter().enumerate();
        if state.neighbours < self.setting.neighbours {
            events.extend(nodes.clone().flat_map(|(node, place)| {
                let numbers = self.setting.moved_on_to(place.fence, state.now);
                numbers.map(move |fence| Event::MoveOn { node, fence })
            }));
        }
        if let Some(time) = self.setting.time {
            if state.now < time.horizon {
                events.push(Event::Tick);
            }
            // Only a minority at a time.
            let all_remember = state.nodes.iter().all(|node| !node.is_quarantined());
            if all_remember && state.forgets < self.setting.forgets {
                events.extend(nodes.map(|(node, _)| Event::Forget { node }));
            }
        } else {
            events.extend(nodes.filter(|(_, node)| node.key.is_some()).map(|(node, _)| Event::Expire { node }));
        }
    }

    fn events_of(&self, state: &State, number: usize, events: &mut Vec<Event>) {
        let client = &state.clients[number];
        match &client.phase {
            // In order: the other way round is the same with the names changed, if they ask for the same.
            Phase::Idle => {
                let alike = self.setting.asks_for_blocks_alike();
                if number == 0 || !alike || state.clients[number - 1].phase != Phase::Idle {
                    events.extend(self.hints(state).map(|hint| Event::Begin { client: number, hint }));
                }
                return;
            }
            Phase::Holding { round: None, .. } if client.renewals < self.setting.renewals => {
                events.push(Event::Renew { client: number });
            }
            _ => {}
        }
        if client.phase != Phase::Over {
            events.push(Event::Leave { client: number });
        }
        for node in 0..NODES {
            for message in sent(state, number, node) {
                let execute = |answered| Event::Execute { client: number, node, message, answered };
                // The first answer is kept, which changes nothing if it is not heard; of another one, either.
                let waits = message.question().is_some_and(|question| client.waits_for(node, question));
                if waits {
                    events.push(execute(true));
                }
                if !waits || client.lines().is_some_and(|lines| matches!(lines[node], Line::Answered(_))) {
                    events.push(execute(false));
                }
            }
        }
        let mut hearings = Vec::new();
        self.hearings(state, number, &mut hearings);
        events.extend(hearings.into_iter().map(|hearing| Event::Hear { client: number, hearing }));
    }

    /// The clocks that an attempt may begin with.
    fn hints(&self, state: &State) -> impl Iterator<Item = u8> {
        let stale = self.setting.time.map(|time| 0..=time.lag.min(state.now)).into_iter().flatten();
        let hints = if self.setting.time.is_some() { &[][..] } else { self.setting.hints };
        let clocks =
            stale.map(|stale| self.setting.clock(state.now - stale)).collect::<std::collections::BTreeSet<_>>();
        hints.iter().copied().chain(clocks)
    }
}

/// The messages of a client that a node may execute.
fn sent(state: &State, client: usize, node: usize) -> impl Iterator<Item = Message> {
    let client = &state.clients[client];
    let confirms =
        [1, 2].map(|round| (Message::Confirm(round), client.confirms[usize::from(round) - 1].nodes.contains(node)));
    [
        (Message::Acquire, client.acquires[node].is_some()),
        confirms[0],
        confirms[1],
        (Message::Extend, client.extends.contains(node)),
        (Message::Replace, client.replaces[node].is_some()),
        (Message::Release, client.phase == Phase::Over),
    ]
    .into_iter()
    .filter_map(|(message, sent)| sent.then_some(message))
}
