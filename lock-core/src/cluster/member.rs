use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::test_vote::TestVote;
use super::{Complaint, OrderedWatch};
use crate::error::{NodeError, NotMember, Refusal};
use crate::mutex::Mutex;
use crate::node::{LockNode, VoteReporter};
use crate::observer::Reporter;
use crate::random::Epoch;

/// For how many turns a wake-up has to arrive after one that did not, until it is believed again that they do. In a fleet in which some
/// cannot have others called, every other one may be missing.
const HEARD_AGAIN: u8 = 8;

/// One node of the manager's list, and its state: a member of the set, unless it is found not to be.
pub(crate) struct Member {
    pub(crate) node: Arc<dyn LockNode>,
    pub(super) votes: Arc<VoteReporter>,
    pub(super) state: OrderedWatch<MemberState>,
    pub(super) last_inspection: Mutex<LastInspection>,
    pub(super) test_vote: Mutex<TestVote>,
    /// Notified when a reply gave reason to inspect the node again.
    pub(super) recheck: Notify,
    /// Another node, if its address leads to the server that this one led to: see [`Membership::now_at`]. The node itself if none does.
    ///
    /// [`Membership::now_at`]: crate::quorum::Membership::now_at
    now_at: AtomicUsize,
    wakes: AtomicBool,
    silent: AtomicBool,
    /// For how many turns a wake-up has to arrive until it is believed that they do.
    unheard: AtomicU8,
}

/// What the last inspection found out.
#[derive(Default)]
pub(super) struct LastInspection {
    /// The node's clock in microseconds, and when it was read.
    pub(super) clock: Option<(u64, Instant)>,
    /// Why the node does not answer.
    pub(super) error: Option<NodeError>,
    /// Why its record cannot be read or written.
    pub(super) record: Complaint,
    /// Whether a reply said since that another server has its keys.
    pub(super) is_elsewhere: bool,
}

impl Member {
    pub(super) fn new(index: usize, node: Arc<dyn LockNode>, reporter: &Arc<Reporter>) -> Self {
        let state = OrderedWatch::new(MemberState::Joining);
        Self {
            votes: VoteReporter::new(reporter, node.name()),
            node,
            state,
            last_inspection: Mutex::default(),
            test_vote: Mutex::default(),
            recheck: Notify::new(),
            now_at: AtomicUsize::new(index),
            wakes: AtomicBool::default(),
            silent: AtomicBool::default(),
            unheard: AtomicU8::default(),
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

    /// The node whose address leads to the server that this one led to.
    pub(super) fn now_at(&self) -> usize {
        self.now_at.load(Ordering::Acquire)
    }

    pub(super) fn set_now_at(&self, node: usize) {
        // Releases wait for this: what is on the server can now be deleted over the other address.
        if self.now_at.swap(node, Ordering::AcqRel) != node {
            self.state.touch();
        }
    }

    /// Whether the wake-ups of the node arrive, as far as is known.
    pub(crate) fn is_heard(&self) -> bool {
        self.unheard.load(Ordering::Relaxed) == 0
    }

    /// A wake-up arrived, for a turn of this process.
    pub(crate) fn heard(&self) {
        _ = self.unheard.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |unheard| unheard.checked_sub(1));
    }

    /// A wake-up did not arrive.
    pub(crate) fn not_heard(&self) {
        self.unheard.store(HEARD_AGAIN, Ordering::Relaxed);
    }
}

/// Whether a node may vote.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MemberState {
    /// The first connection to it is being made.
    Joining,
    /// It votes.
    Admitted {
        /// In this epoch.
        epoch: Epoch,
        /// By this roster: the number grows with each that this client counted by.
        roster: u64,
        /// For this seat of it.
        seat: usize,
    },
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
    /// What keeps the node from voting.
    pub(crate) fn problem(&self) -> Option<NodeError> {
        Some(match self {
            Self::Admitted { .. } => return None,
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

    /// Whether it votes, or soon may: it was not asked yet.
    pub(super) fn may_vote(&self) -> bool {
        matches!(self, Self::Joining | Self::Admitted { .. })
    }

    /// Whether operations can be sent.
    pub(super) fn accepts_requests(&self) -> bool {
        matches!(self, Self::Admitted { .. })
    }
}
