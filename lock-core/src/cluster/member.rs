use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::test_vote::TestVote;
use super::{Complaint, OrderedWatch};
use crate::error::{NodeError, NotMember, Refusal};
use crate::node::{LockNode, VoteReporter};
use crate::observer::Reporter;
use crate::random::Epoch;

/// One node of the set, and its state.
pub(crate) struct Member {
    pub(crate) node: Arc<dyn LockNode>,
    pub(super) votes: Arc<VoteReporter>,
    pub(super) state: OrderedWatch<MemberState>,
    last_inspection: Mutex<LastInspection>,
    test_vote: Mutex<TestVote>,
    /// Notified when a reply gave reason to inspect the node again.
    pub(super) recheck: Notify,
    wakes: AtomicBool,
    silent: AtomicBool,
}

/// What the last inspection found out.
#[derive(Default)]
pub(super) struct LastInspection {
    /// The node's clock in microseconds, and when it was read.
    pub(super) clock: Option<(u64, Instant)>,
    /// Why the node does not answer.
    pub(super) error: Option<NodeError>,
    /// Whether there was one, whatever it found.
    pub(super) was_inspected: bool,
    /// Why its record cannot be read or written.
    pub(super) record: Complaint,
}

impl Member {
    pub(super) fn new(node: Arc<dyn LockNode>, reporter: &Arc<Reporter>) -> Self {
        let state = OrderedWatch::new(MemberState::Joining);
        Self {
            votes: VoteReporter::new(reporter, &node),
            node,
            state,
            last_inspection: Mutex::default(),
            test_vote: Mutex::default(),
            recheck: Notify::new(),
            wakes: AtomicBool::default(),
            silent: AtomicBool::default(),
        }
    }

    /// Whether the node can wake this process.
    pub(crate) fn wakes(&self) -> bool {
        self.wakes.load(Ordering::Relaxed)
    }

    /// Whether the node is known not to be able to. It may be neither: while a connection is being made.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    pub(crate) fn set_wakes(&self, wakes: bool) {
        self.wakes.store(wakes, Ordering::Relaxed);
        if wakes {
            self.silent.store(false, Ordering::Relaxed);
        }
    }

    pub(crate) fn set_silent(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    pub(super) fn last_inspection(&self) -> MutexGuard<'_, LastInspection> {
        self.last_inspection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn last_test_vote(&self) -> MutexGuard<'_, TestVote> {
        self.test_vote.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// By which roster the nodes have to vote that a round is sent to. See [`MemberState::Admitted`].
#[derive(Clone, Copy)]
pub(crate) enum VotesBy {
    /// Any: nothing is counted that rests on a majority.
    Any,
    /// By the one of the first node that a request is sent to.
    First,
    /// By this one.
    This(u64),
}

/// Whether a node may vote.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MemberState {
    /// The first connection to it is being made.
    Joining,
    /// It votes, in this epoch. The second number says by which roster: it grows with each that this client counted by.
    Admitted(Epoch, u64),
    /// It has a seat, and executes nothing before this time.
    Quarantined(Instant),
    /// It does not answer.
    Away(NodeError),
    /// It answers, but does not belong to the set.
    NotMember(NotMember),
    /// It must not be used.
    Refused(Refusal),
}

impl MemberState {
    /// The epoch in which an operation can be sent to the node, or what keeps it from being sent.
    pub(super) fn epoch_for(&self, roster: &mut VotesBy) -> Result<Epoch, NodeError> {
        let Self::Admitted(epoch, own) = self else {
            return Err(self.problem().unwrap_or(NodeError::Unadmitted));
        };
        match *roster {
            VotesBy::This(wanted) if wanted != *own => return Err(NodeError::Unadmitted),
            VotesBy::First => *roster = VotesBy::This(*own),
            VotesBy::This(_) | VotesBy::Any => {}
        }
        Ok(*epoch)
    }

    /// What keeps the node from voting.
    pub(crate) fn problem(&self) -> Option<NodeError> {
        Some(match self {
            Self::Admitted(..) => return None,
            Self::Quarantined(until) => {
                NodeError::Quarantined { remaining: until.saturating_duration_since(Instant::now()) }
            }
            Self::Joining => NodeError::Unreachable { reason: "still connecting".into() },
            Self::NotMember(reason) => reason.clone().into(),
            // Whatever the inspection ran into, the request at hand was not sent.
            Self::Away(error) if error.may_have_executed() => NodeError::Unreachable { reason: error.to_string() },
            Self::Away(error) => error.clone(),
            Self::Refused(refusal) => refusal.clone().into(),
        })
    }

    /// Whether operations can be sent.
    pub(super) fn accepts_requests(&self) -> bool {
        matches!(self, Self::Admitted(..))
    }
}
