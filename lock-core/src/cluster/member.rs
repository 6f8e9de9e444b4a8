use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::OrderedWatch;
use crate::error::{NodeError, Refusal};
use crate::node::{LockNode, Operation};
use crate::random::Epoch;

/// One node of the set, and its state.
pub(crate) struct Member {
    pub(crate) node: Arc<dyn LockNode>,
    pub(super) state: OrderedWatch<MemberState>,
    last_inspection: Mutex<LastInspection>,
    /// Notified when a reply gave reason to inspect the node again.
    pub(super) recheck: Notify,
}

/// What the last inspection found out.
#[derive(Default)]
pub(super) struct LastInspection {
    pub(super) run_id: Option<String>,
    /// The node's clock in microseconds, and when it was read.
    pub(super) clock: Option<(u64, Instant)>,
}

impl Member {
    pub(super) fn new(node: Arc<dyn LockNode>) -> Self {
        let state = OrderedWatch::new(MemberState::Joining);
        Self { node, state, last_inspection: Mutex::default(), recheck: Notify::new() }
    }

    pub(super) fn last_inspection(&self) -> MutexGuard<'_, LastInspection> {
        self.last_inspection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a node may vote.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MemberState {
    /// The first connection to it is being made.
    Joining,
    /// It votes.
    Admitted(Epoch),
    /// It carries out every operation except an acquire, until this time.
    Quarantined(Epoch, Instant),
    /// It does not answer.
    Away(NodeError),
    /// It answers, but has no record, and too few others answer to say why.
    Undecided,
    /// It must not be used.
    Refused(Refusal),
}

impl MemberState {
    /// The epoch in which an operation can be sent to the node, or what keeps it from being sent.
    pub(super) fn epoch_for(&self, operation: &Operation) -> Result<Epoch, NodeError> {
        match self {
            Self::Quarantined(epoch, _) if !matches!(operation, Operation::Acquire { .. }) => Ok(*epoch),
            Self::Admitted(epoch) => Ok(*epoch),
            other => Err(other.problem().unwrap_or(NodeError::Unadmitted)),
        }
    }

    /// What keeps the node from voting.
    pub(crate) fn problem(&self) -> Option<NodeError> {
        Some(match self {
            Self::Admitted(_) => return None,
            Self::Quarantined(_, until) => {
                NodeError::Quarantined { remaining: until.saturating_duration_since(Instant::now()) }
            }
            Self::Joining => NodeError::Unreachable { reason: "connecting".into() },
            Self::Undecided => NodeError::Undecided,
            // Whatever the inspection ran into, the request at hand was not sent.
            Self::Away(error) => NodeError::Unreachable { reason: error.to_string() },
            Self::Refused(refusal) => refusal.clone().into(),
        })
    }

    /// Whether operations other than an acquire can be sent.
    pub(super) fn accepts_requests(&self) -> bool {
        matches!(self, Self::Admitted(_) | Self::Quarantined(..))
    }
}
