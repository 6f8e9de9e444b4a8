use super::model::LockModel;
use super::state::{Client, NODES, Phase, ReplyKind, ReplySlot, State};

/// An action of the model: one step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client begins its attempt.
    Begin {
        /// The client.
        client: usize,
    },
    /// A node executes a request.
    Execute {
        /// The client that sent it.
        client: usize,
        /// The node.
        node: usize,
        /// The request.
        request: Request,
        /// Whether the reply is recorded, so that the client may receive it later. It replaces an earlier one.
        recorded: bool,
        /// The replies that arrive at once, this one among them. None of them leads to a decision if there are none.
        delivery: Delivery,
    },
    /// Replies arrive or time out, and the last of them leads to a decision.
    Deliver {
        /// The client that receives them.
        client: usize,
        /// The replies, in order.
        delivery: Delivery,
    },
    /// A client gives up its attempt or releases its lock. Its releases are sent.
    Release {
        /// The client.
        client: usize,
    },
    /// A holder begins a renewal.
    Renew {
        /// The holder.
        client: usize,
    },
    /// A holder that writes becomes a reader.
    Downgrade {
        /// The holder.
        client: usize,
    },
    /// A key expires, at any time.
    Expire {
        /// The node.
        node: usize,
    },
    /// The entry of a reader expires, at any time, while the marker lives.
    ExpireReader {
        /// The node.
        node: usize,
        /// The reader.
        client: usize,
    },
    /// Another lock that shares the fence advances it on a node.
    AdvanceFence {
        /// The node.
        node: usize,
        /// The new fence.
        fence: u8,
    },
    /// The operator looks at a node.
    Look {
        /// The node.
        node: usize,
    },
    /// The operator sends its evictions: the first, or those of the next round.
    SendEvictions,
    /// A node executes the eviction of this round.
    Evict {
        /// The node.
        node: usize,
    },
    /// A node loses its data, and joins again.
    Forget {
        /// The node.
        node: usize,
    },
    /// A tick passes.
    Tick,
}

/// Replies in the order in which they are delivered: the node, and whether its reply arrives or times out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Delivery {
    replies: [(usize, bool); NODES],
    len: usize,
}

impl Delivery {
    pub(super) fn push(&mut self, node: usize, arrives: bool) {
        self.replies[self.len] = (node, arrives);
        self.len += 1;
    }

    pub(super) fn pop(&mut self) {
        self.len -= 1;
    }

    /// Whether the reply of a node arrives with it.
    fn brings(&self, node: usize) -> bool {
        self.iter().any(|(of, arrives)| of == node && arrives)
    }

    /// The nodes in order, each with whether its reply arrives.
    pub fn iter(&self) -> impl Iterator<Item = (usize, bool)> {
        self.replies[..self.len].iter().copied()
    }
}

/// A request to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Takes the lock.
    Acquire,
    /// Confirms the token proposed in this round.
    Confirm(u8),
    /// Extends the key.
    Extend,
    /// Puts the key back.
    Replace,
    /// Makes a reader of the writer.
    Downgrade,
    /// Deletes the key.
    Release,
}

impl Request {
    /// The kind of reply that a client awaits for it. Nobody awaits the reply to a replace or a release.
    #[must_use]
    pub fn reply_kind(self) -> Option<ReplyKind> {
        match self {
            Self::Acquire => Some(ReplyKind::Acquire),
            Self::Confirm(round) => Some(ReplyKind::Confirm(round)),
            Self::Extend => Some(ReplyKind::Extend),
            Self::Downgrade => Some(ReplyKind::Downgrade),
            Self::Replace | Self::Release => None,
        }
    }
}

impl LockModel {
    /// Every action that is possible in a state.
    pub(super) fn enabled_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for client in 0..self.setting.attempts {
            self.client_actions(state, client, actions);
        }
        self.eviction_actions(state, actions);
        let nodes = state.nodes.iter().enumerate();
        if state.fence_advances < self.setting.fence_advances {
            actions.extend(nodes.clone().flat_map(|(index, node)| {
                let fences = self.setting.fences_after(node.fence);
                fences.map(move |fence| Action::AdvanceFence { node: index, fence })
            }));
        }
        if let Some(time) = self.setting.time {
            if state.now < time.last_tick {
                actions.push(Action::Tick);
            }
            // A minority of nodes at a time.
            let none_quarantined = state.nodes.iter().all(|node| !node.is_quarantined());
            if none_quarantined && state.forgets < self.setting.forgets {
                actions.extend(nodes.map(|(node, _)| Action::Forget { node }));
            }
        } else {
            for (node, _) in nodes.filter(|(_, node)| node.key.is_some()) {
                actions.push(Action::Expire { node });
                let readers = (0..self.setting.attempts).filter(|client| state.nodes[node].has_entry(*client));
                actions.extend(readers.map(|client| Action::ExpireReader { node, client }));
            }
        }
    }

    fn client_actions(&self, state: &State, index: usize, actions: &mut Vec<Action>) {
        let client = &state.clients[index];
        match &client.phase {
            // Symmetric attempts begin in order: any other order is the same with the names changed.
            Phase::Idle => {
                let first = self.setting.first_alike(index);
                if index == first || state.clients[index - 1].phase != Phase::Idle {
                    actions.push(Action::Begin { client: index });
                }
                return;
            }
            Phase::Holding { renewal: None, until } if client.renewals < self.setting.renewals => {
                let prolongs = *until < state.now + self.setting.ttl_of(index);
                if prolongs || !self.setting.prompt {
                    actions.push(Action::Renew { client: index });
                }
            }
            _ => {}
        }
        if self.may_downgrade(client, index) {
            actions.push(Action::Downgrade { client: index });
        }
        if client.phase != Phase::Ended {
            actions.push(Action::Release { client: index });
        }
        for node in 0..NODES {
            for request in sent_requests(state, index, node) {
                let delivery = Delivery::default();
                let execute = |recorded| Action::Execute { client: index, node, request, recorded, delivery };
                // The first reply is always recorded, because it may stay undelivered; of a later one, either is kept.
                let awaited = request.reply_kind().is_some_and(|kind| client.awaits(node, kind));
                if awaited {
                    actions.push(execute(true));
                    if self.setting.prompt {
                        self.prompt_deliveries(state, execute(true), actions);
                    }
                }
                if !awaited || client.replies().is_some_and(|replies| matches!(replies[node], ReplySlot::InFlight(_))) {
                    actions.push(execute(false));
                }
            }
        }
        let mut deliveries = Vec::new();
        self.deliveries(state, index, &mut deliveries);
        // Replies that arrive do so at once.
        deliveries.retain(|delivery| !self.setting.prompt || delivery.iter().all(|(_, arrives)| !arrives));
        actions.extend(deliveries.into_iter().map(|delivery| Action::Deliver { client: index, delivery }));
    }
}

impl LockModel {
    /// Adds the execution of a request together with each delivery that its reply makes possible.
    fn prompt_deliveries(&self, state: &State, executed: Action, actions: &mut Vec<Action>) {
        let Action::Execute { client, node, request, recorded, .. } = executed else { return };
        let mut after = state.clone();
        self.execute(&mut after, client, node, request, recorded);
        let mut deliveries = Vec::new();
        self.deliveries(&after, client, &mut deliveries);
        let brought = deliveries.into_iter().filter(|delivery| delivery.brings(node));
        actions.extend(brought.map(|delivery| Action::Execute { client, node, request, recorded, delivery }));
    }

    fn may_downgrade(&self, client: &Client, index: usize) -> bool {
        let holds = match client.phase {
            Phase::Holding { renewal: None, .. } => true,
            // Without time, a holder has released at once, and what it sent before may still be executed.
            Phase::Ended => self.setting.time.is_none() && client.token.is_some(),
            _ => false,
        };
        holds && self.setting.downgrades && !client.downgraded && !self.setting.reads(index)
    }
}

/// The requests of a client that a node may execute.
fn sent_requests(state: &State, client: usize, node: usize) -> impl Iterator<Item = Request> {
    let client = &state.clients[client];
    let confirms =
        [1, 2].map(|round| (Request::Confirm(round), client.confirms[usize::from(round) - 1].nodes.contains(node)));
    [
        (Request::Acquire, client.acquires[node].is_some()),
        confirms[0],
        confirms[1],
        (Request::Extend, client.extends.contains(node)),
        (Request::Replace, client.replaces[node].is_some()),
        (Request::Downgrade, client.downgrades.contains(node)),
        (Request::Release, client.phase == Phase::Ended),
    ]
    .into_iter()
    .filter_map(|(request, sent)| sent.then_some(request))
}
