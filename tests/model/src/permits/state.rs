use std::fmt;

use super::setting::PERMITS;
use crate::decider::Decider;
use crate::nodes::Nodes;
use crate::state::{NODES, Node};

pub(super) const CLIENTS: usize = 4;

/// A client: its index.
pub(super) type ClientId = usize;

/// The state of the model of permits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PermitsState {
    /// What each node has of each slot.
    pub(super) nodes: [[Node; PERMITS]; NODES],
    /// Of the mutant that counts: the clients that each node has let in.
    pub(super) counted: [Vec<ClientId>; NODES],
    pub(super) clients: [PermitsClient; CLIENTS],
    /// The waiting clients, in the order in which they began to wait, and the slot for which.
    pub(super) queue: Vec<(ClientId, usize)>,
    /// The largest token of each slot that a resource has seen.
    pub(super) claimed: [u64; PERMITS],
    /// The largest token of each slot that was granted.
    pub(super) granted: [u64; PERMITS],
    pub(super) unordered_token: bool,
    pub(super) valid_claim_refused: bool,
}

/// A client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PermitsClient {
    pub(super) phase: PermitsPhase,
    /// How many more attempts it may make.
    pub(super) left: u8,
}

impl PermitsClient {
    /// The slot that it tries or holds, and whether it tries it.
    pub(super) fn slot(&self) -> Option<(usize, bool)> {
        match &self.phase {
            PermitsPhase::Trying(attempt) => Some((attempt.slot, true)),
            PermitsPhase::Holding { slot, .. } | PermitsPhase::Releasing { slot, .. } => Some((*slot, false)),
            _ => None,
        }
    }
}

/// What a client is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum PermitsPhase {
    #[default]
    Idle,
    Trying(Box<PermitsAttempt>),
    /// It is in the queue.
    Waiting,
    Holding {
        slot: usize,
        token: u64,
    },
    /// It released its slot, and these nodes do not know yet.
    Releasing {
        slot: usize,
        nodes: Nodes,
    },
    Gone,
}

/// An attempt to take a slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PermitsAttempt {
    pub(super) slot: usize,
    pub(super) decider: Decider,
    /// The largest token of the slot that was granted before.
    pub(super) floor: u64,
    /// The nodes that were not asked.
    pub(super) unasked: Nodes,
}

impl PermitsState {
    /// Whether a node has no holder for the slot.
    pub(super) fn is_free(&self, node: usize, slot: usize) -> bool {
        self.nodes[node][slot].key.is_none()
    }

    /// Whether a client is among the first in the queue, as many as there are free slots on a node.
    pub(super) fn is_called(&self, node: usize, client: ClientId) -> bool {
        let free = (0..PERMITS).filter(|slot| self.is_free(node, *slot)).count();
        self.queue.iter().take_while(|(waiter, _)| *waiter != client).count() < free
    }
}

impl fmt::Display for PermitsState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, node) in self.nodes.iter().enumerate() {
            let owners = node.map(|slot| slot.key.map(|key| key.owner));
            write!(f, "node {index} {owners:?} {:?}; ", self.counted[index])?;
        }
        write!(f, "queue {:?}; ", self.queue)?;
        self.clients.iter().try_for_each(|client| match &client.phase {
            PermitsPhase::Trying(attempt) => write!(f, "tries {}; ", attempt.slot),
            phase => write!(f, "{phase:?}; "),
        })
    }
}
