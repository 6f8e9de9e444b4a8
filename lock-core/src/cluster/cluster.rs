use std::sync::atomic::AtomicBool;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::states::NotedRoster;
use super::{Answers, Beside, Member, MemberState, NodeSet};
use crate::error::{NodeError, NodeVote, Vote};
use crate::mutex::Mutex;
use crate::node::{Keyspace, LockNode};
use crate::observer::Reporter;
use crate::quorum::{Change, Membership, MembershipConfig, RollCall, majority};
use crate::random::{Random, WaiterId};
use crate::task::wait_until;

/// The reason that is reported for every node after a shutdown.
pub(crate) const SHUT_DOWN: &str = "the manager was shut down";

/// The nodes of one set, and the state of each.
pub(crate) struct Cluster {
    pub(crate) members: Vec<Member>,
    pub(crate) keyspace: Arc<Keyspace>,
    /// Who the members are, as far as this manager knows.
    membership: Mutex<Membership>,
    pub(super) beside: Beside,
    /// Notified when there may be something to do about the membership.
    pub(super) changed: Notify,
    /// Notified when the states of nodes were set.
    pub(super) published: Notify,
    pub(super) noted: Mutex<NotedRoster>,
    pub(crate) answers: Arc<Answers>,
    /// Notified when a majority votes again.
    pub(super) quorum_back: Notify,
    pub(crate) random: Arc<Random>,
    pub(crate) reporter: Arc<Reporter>,
    /// The id under which this manager waits in the queues of the nodes.
    pub(crate) waiter: WaiterId,
    pub(crate) stop: CancellationToken,
    /// Whether a majority votes, and no first connection is being made, as it was noted last: what an acquisition usually finds, without
    /// a look at each node.
    pub(super) has_contact: AtomicBool,
    /// When the first connections began to be made, on the present runtime.
    pub(super) began: Mutex<Option<Instant>>,
    /// The cluster clock, and when the last of the nodes' clocks was read: every acquisition asks for it twice.
    pub(super) clock: Mutex<Option<(u64, Instant)>>,
}

impl Cluster {
    pub(crate) fn new(
        nodes: Vec<Arc<dyn LockNode>>,
        keyspace: Keyspace,
        config: MembershipConfig,
        beside: Beside,
        random: Arc<Random>,
        reporter: Arc<Reporter>,
        stop: CancellationToken,
    ) -> Self {
        let membership = Mutex::new(Membership::new(config, random.number()));
        Self {
            members: nodes.into_iter().enumerate().map(|(index, node)| Member::new(index, node, &reporter)).collect(),
            keyspace: Arc::new(keyspace),
            membership,
            beside,
            changed: Notify::new(),
            published: Notify::new(),
            noted: Mutex::default(),
            answers: Arc::new(Answers::new()),
            quorum_back: Notify::new(),
            waiter: random.waiter(),
            random,
            reporter,
            stop,
            has_contact: AtomicBool::default(),
            began: Mutex::new(None),
            clock: Mutex::default(),
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn membership(&self) -> MutexGuard<'_, Membership> {
        self.membership.lock()
    }

    /// The time since this manager was built.
    pub(crate) fn now(&self) -> Duration {
        self.answers.now()
    }

    /// Begins on a runtime: gives up the connections that are left from another one, and forgets what was found out over them.
    pub(crate) fn begin(&self) {
        self.members.iter().for_each(|member| member.node.disconnect());
        self.forget_inspections();
        *self.began.lock() = Some(Instant::now());
    }

    /// Closes the connections for good. The background work that opens them has ended.
    pub(crate) fn end(&self) {
        let ended = NodeError::Unreachable { reason: SHUT_DOWN.into() };
        for member in &self.members {
            member.node.disconnect();
            member.state.replace(MemberState::Away(ended.clone()));
        }
    }

    /// The state of a node.
    pub(crate) fn state(&self, node: usize) -> MemberState {
        self.members[node].state.borrow().clone()
    }

    /// The name of a node.
    pub(crate) fn name(&self, node: usize) -> &str {
        self.members[node].node.name()
    }

    /// The vote of a node, for people.
    pub(crate) fn vote(&self, node: usize, vote: Vote) -> NodeVote {
        NodeVote { node: self.name(node).to_owned(), vote }
    }

    /// A vote for each node.
    pub(crate) fn vote_of_each(&self, of: impl Fn(usize) -> Vote) -> Vec<NodeVote> {
        (0..self.size()).map(|node| self.vote(node, of(node))).collect()
    }

    /// What keeps a node from being admitted, with the cause if it is that its record cannot be written.
    pub(crate) fn problem(&self, node: usize) -> Option<NodeError> {
        Some(match self.no_vote(node)? {
            problem @ NodeError::NotMember(_) => self.not_written(node).unwrap_or(problem),
            problem => problem,
        })
    }

    /// Why a node has no vote. The end of a quarantine has to be written, too: nothing else can be said of one that is over.
    pub(super) fn no_vote(&self, node: usize) -> Option<NodeError> {
        let problem = self.members[node].state.borrow().problem()?;
        Some(match problem {
            NodeError::Quarantined { remaining } if remaining.is_zero() => self.not_written(node).unwrap_or(problem),
            problem => problem,
        })
    }

    /// Why the record of a node cannot be written.
    pub(super) fn not_written(&self, node: usize) -> Option<NodeError> {
        self.members[node].last_inspection.lock().record.cause().cloned()
    }

    /// How long the nodes are given to reply if the user does not say: what the slowest of them needs.
    pub(crate) fn default_node_timeout(&self, ttl: Duration) -> Duration {
        self.members.iter().map(|member| member.node.node_timeout(ttl)).max().unwrap_or_default()
    }

    /// Reports an error that a node replied with, so that the node is inspected again where that may help.
    pub(crate) fn report(&self, node: usize, error: &NodeError) {
        let member = &self.members[node];
        // It changes nothing about other errors of a server. The connection gives up a node that hangs; the other states are known and being
        // dealt with.
        let inspection_may_help = matches!(
            (&*member.state.borrow(), error),
            (
                MemberState::Admitted { .. },
                NodeError::Unadmitted
                    | NodeError::Refused(_)
                    | NodeError::Unreachable { .. }
                    | NodeError::ConnectionLost { .. }
                    | NodeError::Elsewhere { .. },
            )
        );
        if inspection_may_help {
            if matches!(error, NodeError::Elsewhere { .. }) {
                member.last_inspection.lock().is_elsewhere = true;
            }
            member.recheck.notify_one();
        }
    }

    /// The error for a reply of a node that did not come in time.
    pub(crate) fn timed_out(&self, node: usize) -> NodeError {
        self.members[node].node.last_words().map_or(NodeError::TimedOut, |reason| NodeError::HeldUp { reason })
    }

    /// Asks for a change of the members, unless it is asked for already.
    pub(crate) fn request(&self, change: Change) {
        let mut membership = self.membership();
        if !membership.is_requested(change) {
            membership.request(change);
            drop(membership);
            self.changed.notify_one();
        }
    }

    /// Whether a majority votes.
    pub(crate) fn has_quorum(&self) -> bool {
        self.has_majority_by(0)
    }

    /// Whether a majority votes by this roster, or a newer one. See [`MemberState::Admitted`].
    pub(crate) fn has_majority_by(&self, roster: u64) -> bool {
        let mut roll = RollCall::by_any_roster();
        let mut votes = |member: &&Member| match *member.state.borrow() {
            MemberState::Admitted { roster: own, seat, .. } => own >= roster && roll.call(own, seat).is_ok(),
            _ => false,
        };
        self.members.iter().filter(|member| votes(member)).count() >= majority(self.size())
    }

    /// Waits until a majority votes. Unlike [`majority_votes_by`](Self::majority_votes_by), this may be awaited by many: it does
    /// not wake for every change.
    pub(crate) async fn quorum_is_back(&self) {
        wait_until(&self.quorum_back, || self.has_quorum()).await;
    }

    /// Waits until a majority votes by this roster, or a newer one.
    pub(crate) async fn majority_votes_by(&self, roster: u64) {
        self.published_until(|| self.has_majority_by(roster)).await;
    }

    /// Waits until the states of the nodes satisfy a condition.
    pub(crate) async fn published_until(&self, condition: impl Fn() -> bool) {
        wait_until(&self.published, condition).await;
    }

    /// The nodes that can wake this process.
    pub(crate) fn waking_nodes(&self) -> NodeSet {
        (0..self.size()).filter(|node| self.members[*node].wakes()).collect()
    }

    /// The nodes that can, and whose wake-ups arrive.
    pub(crate) fn heard_nodes(&self) -> NodeSet {
        self.waking_nodes().iter().filter(|node| self.members[*node].is_heard()).collect()
    }

    /// Whether a majority can wake this process.
    pub(crate) fn majority_wakes(&self) -> bool {
        self.waking_nodes().len() >= majority(self.size())
    }

    /// Whether a majority votes, but none can wake this process, because too many nodes are known to be unable to, or are away. In an
    /// outage that is not known.
    pub(crate) fn no_majority_wakes(&self) -> bool {
        let may_wake = |member: &&Member| !member.is_silent() && member.state.borrow().may_vote();
        self.has_quorum() && self.members.iter().filter(may_wake).count() < majority(self.size())
    }

    /// Waits until a node accepts requests, over its own address or another one of the same server.
    pub(crate) async fn wait_until_reachable(&self, node: usize) {
        let member = &self.members[node];
        loop {
            let now_at = member.now_at();
            let changed = |state: &MemberState| state.accepts_requests() || member.now_at() != now_at;
            tokio::select! {
                biased;
                () = self.members[now_at].state.wait_for(MemberState::accepts_requests) => return,
                () = member.state.wait_for(changed) => {}
            }
        }
    }
}
