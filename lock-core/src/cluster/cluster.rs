use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Answers, Member, MemberState, NodeSet};
use crate::error::{NodeError, is_elsewhere};
use crate::mutex::Mutex;
use crate::node::{Keyspace, LockNode, NodeFuture, SetId};
use crate::observer::Reporter;
use crate::quorum::{Change, Membership, MembershipConfig, RollCall, cluster_clock, majority};
use crate::random::{Random, WaiterId};

/// How long callers wait for the first connections to be made.
pub(super) const FIRST_CONTACT: Duration = Duration::from_secs(1);

/// The latest clock reading that is accepted; it will be reached in the year 2112. Tokens have room above it, up to 2^53 - 1.
const LATEST_CLOCK: u64 = 1 << 52;

/// The reason that is reported for every node after a shutdown.
pub(crate) const SHUT_DOWN: &str = "the manager was shut down";

/// The nodes of one set, and the state of each.
pub(crate) struct Cluster {
    pub(crate) members: Vec<Member>,
    pub(crate) keyspace: Arc<Keyspace>,
    /// Who the members are, as far as this manager knows.
    membership: Mutex<Membership>,
    /// The first shard, unless this is it: no set is formed here before one is there. See [`may_form`](Self::may_form).
    first_shard: Option<Arc<Self>>,
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
    /// When the first connections began to be made, on the present runtime.
    began: Mutex<Option<Instant>>,
    /// The cluster clock, and when the last of the nodes' clocks was read: every acquisition asks for it twice.
    clock: Mutex<Option<(u64, Instant)>>,
}

/// The roster that votes are counted by, and how many there have been.
#[derive(Default)]
pub(super) struct NotedRoster {
    pub(super) roster: Option<(SetId, u64)>,
    pub(super) count: u64,
}

impl Cluster {
    pub(crate) fn new(
        nodes: Vec<Arc<dyn LockNode>>,
        keyspace: Keyspace,
        config: MembershipConfig,
        random: Arc<Random>,
        reporter: Arc<Reporter>,
        stop: CancellationToken,
    ) -> Self {
        let membership = Mutex::new(Membership::new(config, random.number()));
        Self {
            members: nodes.into_iter().enumerate().map(|(index, node)| Member::new(index, node, &reporter)).collect(),
            keyspace: Arc::new(keyspace),
            membership,
            first_shard: None,
            changed: Notify::new(),
            published: Notify::new(),
            noted: Mutex::default(),
            answers: Arc::new(Answers::new()),
            quorum_back: Notify::new(),
            waiter: random.waiter(),
            random,
            reporter,
            stop,
            began: Mutex::new(None),
            clock: Mutex::default(),
        }
    }

    /// The cluster of another shard than this first one.
    pub(crate) fn behind(self, first_shard: &Arc<Self>) -> Self {
        Self { first_shard: Some(Arc::clone(first_shard)), ..self }
    }

    /// Whether a set may be formed here if there is none. All clients have the first shard, however many they count: so the set there
    /// says whether they count the same, and those that do not find no other one to form.
    pub(super) fn may_form(&self) -> bool {
        self.first_shard.as_ref().is_none_or(|first| first.membership().is_of_same_shards())
    }

    /// Resolves when a set may be formed here; never if it may be already.
    pub(super) async fn forming_allowed(&self) {
        match &self.first_shard {
            Some(first) if !self.may_form() => first.published_until(|| self.may_form()).await,
            _ => std::future::pending().await,
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

    /// Waits until a majority votes, or every first connection was made or failed, or a second has passed.
    pub(crate) async fn first_contact(&self) {
        // The common case, without a future: every acquisition passes here.
        if self.has_quorum() {
            return;
        }
        let mut joining: FuturesUnordered<_> = self.members.iter().map(|member| self.joined(member)).collect();
        // Not for the last node: a minority that is down must not delay the first lock of a process.
        while joining.next().await.is_some() && !self.has_quorum() {}
    }

    /// Waits until every first connection was made or failed, or a second has passed.
    pub(crate) async fn all_joined(&self) {
        futures_util::future::join_all(self.members.iter().map(|member| self.joined(member))).await;
    }

    /// The state of a node.
    pub(crate) fn state(&self, node: usize) -> MemberState {
        self.members[node].state.borrow().clone()
    }

    /// What keeps a node from being admitted, with the cause if it is that its record cannot be written.
    pub(crate) fn problem(&self, node: usize) -> Option<NodeError> {
        let member = &self.members[node];
        let problem = member.state.borrow().problem()?;
        Some(match problem {
            NodeError::NotMember(_) => member.last_inspection.lock().record.cause().cloned().unwrap_or(problem),
            problem => problem,
        })
    }

    /// Waits until a node's first connection was made or failed.
    async fn joined(&self, member: &Member) {
        // Counted from the beginning and not from this call: a node that is down would cost every caller a second.
        let deadline = self.first_contact_ends();
        let joined = member.state.wait_for(|state| *state != MemberState::Joining);
        _ = timeout_at(deadline, joined).await;
    }

    /// If the first connection to a node is being made: the future of its success or failure.
    pub(crate) fn joining(self: &Arc<Self>, node: usize) -> Option<NodeFuture<()>> {
        if *self.members[node].state.borrow() != MemberState::Joining {
            return None;
        }
        let cluster = Arc::clone(self);
        Some(Box::pin(async move { cluster.joined(&cluster.members[node]).await }))
    }

    /// How long the nodes are given to reply if the user does not say: what the slowest of them needs.
    pub(crate) fn default_node_timeout(&self, ttl: Duration) -> Duration {
        self.members.iter().map(|member| member.node.node_timeout(ttl)).max().unwrap_or_default()
    }

    /// How long replies to requests that are submitted now are awaited.
    pub(crate) fn deadline(&self, node_timeout: Duration) -> Instant {
        let joining = self.members.iter().any(|member| *member.state.borrow() == MemberState::Joining);
        let now = Instant::now();
        if joining { now.max(self.first_contact_ends()) + node_timeout } else { now + node_timeout }
    }

    /// How long first connections are awaited.
    fn first_contact_ends(&self) -> Instant {
        self.began.lock().unwrap_or_else(Instant::now) + FIRST_CONTACT
    }

    /// Reports an error that a node replied with, so that the node is inspected again where that may help.
    pub(crate) fn report(&self, node: usize, error: &NodeError) {
        let member = &self.members[node];
        let inspect_again = match (&*member.state.borrow(), error) {
            (
                MemberState::Admitted { .. },
                NodeError::Unadmitted
                | NodeError::Refused(_)
                | NodeError::Unreachable { .. }
                | NodeError::ConnectionLost { .. },
            ) => true,
            // It became a replica, or has the keys no more. An inspection changes nothing about other errors of a server.
            (MemberState::Admitted { .. }, NodeError::Rejected { code, .. }) => {
                code == "READONLY" || is_elsewhere(code)
            }
            // The connection gives up a node that hangs; the other states are known and being dealt with.
            _ => false,
        };
        if inspect_again {
            member.recheck.notify_one();
        }
    }

    /// The error for a reply of a node that did not come in time.
    pub(crate) fn timed_out(&self, node: usize) -> NodeError {
        self.members[node].node.last_words().map_or(NodeError::TimedOut, |reason| NodeError::HeldUp { reason })
    }

    /// Asks for a change of the members.
    pub(crate) fn request(&self, change: Option<Change>) {
        self.membership().request(change);
        self.changed.notify_one();
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
        loop {
            // Asked for before the states are read, so that no change in between is missed.
            let back = self.quorum_back.notified();
            if self.has_quorum() {
                return;
            }
            back.await;
        }
    }

    /// Waits until a majority votes by this roster, or a newer one.
    pub(crate) async fn majority_votes_by(&self, roster: u64) {
        self.published_until(|| self.has_majority_by(roster)).await;
    }

    /// Waits until the states of the nodes satisfy a condition.
    pub(crate) async fn published_until(&self, condition: impl Fn() -> bool) {
        loop {
            // Asked for before the states are read, so that no change in between is missed.
            let published = self.published.notified();
            if condition() {
                return;
            }
            published.await;
        }
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

    /// Whether no majority can wake this process, because too many nodes are known to be unable to.
    pub(crate) fn no_majority_wakes(&self) -> bool {
        self.size() - self.members.iter().filter(|member| member.is_silent()).count() < majority(self.size())
    }

    /// Waits until a node accepts requests, over its own address or another one of the same server.
    pub(crate) async fn wait_until_reachable(&self, node: usize) {
        let member = &self.members[node];
        loop {
            let way = member.way();
            let changed = |state: &MemberState| state.accepts_requests() || member.way() != way;
            tokio::select! {
                biased;
                () = self.members[way].state.wait_for(MemberState::accepts_requests) => return,
                () = member.state.wait_for(changed) => {}
            }
        }
    }

    /// The cluster clock, carried forward from when the nodes' clocks were read. 0 if a majority of them is not known.
    pub(crate) fn clock(&self) -> u64 {
        let read = *self.clock.lock();
        read.filter(|(micros, _)| *micros > 0).map_or(0, |read| carried_forward(read, Instant::now())).min(LATEST_CLOCK)
    }

    /// Sets the cluster clock by the nodes' clocks, one of which was read.
    pub(super) fn set_clock(&self) {
        let (mut clock, now) = (self.clock.lock(), Instant::now());
        let clocks = self.members.iter().filter_map(|member| member.last_inspection.lock().clock);
        *clock = Some((cluster_clock(self.size(), clocks.map(|read| carried_forward(read, now))), now));
    }
}

/// A clock that showed some microseconds at a time, as it is now.
fn carried_forward((micros, at): (u64, Instant), now: Instant) -> u64 {
    let since = now.saturating_duration_since(at);
    micros.saturating_add(u64::try_from(since.as_micros()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockError, LockManager, MemoryNode};

    const HUNG: Duration = Duration::from_secs(3600);

    /// The three nodes of a set, of which one hangs when a manager first connects.
    async fn one_hangs() -> (Vec<MemoryNode>, LockManager) {
        let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
        LockManager::builder().nodes(nodes.clone()).connect().await.unwrap();
        nodes[0].set_delay(HUNG);
        let locks = LockManager::builder().nodes(nodes.clone()).connect_lazy().unwrap();
        (nodes, locks)
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_hangs_from_the_beginning_costs_the_first_caller_no_second() {
        let (_nodes, locks) = one_hangs().await;
        let asked = Instant::now();
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
        assert_eq!(asked.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_released_on_a_node_that_was_not_asked() {
        let (_nodes, locks) = one_hangs().await;
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
        let asked = Instant::now();
        locks.shutdown(Duration::ZERO).await;
        assert_eq!(asked.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_of_first_contact_is_not_granted_twice() {
        let (nodes, locks) = one_hangs().await;
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
        tokio::time::sleep(FIRST_CONTACT).await;
        nodes[1..].iter().for_each(|node| node.set_delay(HUNG));
        let asked = Instant::now();
        assert!(matches!(locks.lock("r").try_acquire().await, Err(LockError::NoQuorum { .. })));
        assert!(asked.elapsed() < Duration::from_millis(100), "{:?}", asked.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_on_which_a_step_failed_is_inspected_again_soon() {
        let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
        let locks = LockManager::builder().nodes(nodes.clone()).connect().await.unwrap();
        nodes[2].forget();
        assert!(!locks.health().await.nodes[2].admitted);
        // Its promise is missing for the change of the roster.
        nodes[0].set_delay(HUNG);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(!locks.health().await.nodes[0].admitted);
        nodes[0].set_delay(Duration::ZERO);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(locks.health().await.nodes[0].admitted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quarantine_ends_when_two_nodes_can_say_so_and_not_at_their_next_inspection() {
        let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
        let builder = LockManager::builder().nodes(nodes.clone()).max_ttl(Duration::from_secs(1));
        let locks = builder.connect().await.unwrap();
        nodes[2].forget();
        assert!(!locks.health().await.nodes[2].admitted);
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert!(!locks.health().await.nodes[2].admitted);
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(locks.health().await.nodes[2].admitted);
    }
}
