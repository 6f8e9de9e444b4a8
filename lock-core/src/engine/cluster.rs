use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::watched::Watched;
use crate::node::{Answer, Ballot, Keyspace, LockKeys, LockNode, NodeError, NodeFuture, Refusal, Request, SetConfig};
use crate::quorum::{cluster_clock, majority};
use crate::random::{Epoch, Random, WaiterId};

/// How long callers wait for nodes that are being connected to for the first time.
const FIRST_CONTACT: Duration = Duration::from_secs(1);

/// The latest time that is believed: tokens have room above it up to 2^53 - 1. It will come in the year 2112.
const LATEST_CLOCK: u64 = 1 << 52;

/// The nodes of one set, and how each of them stands.
pub(crate) struct Cluster {
    pub(crate) members: Vec<Member>,
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) config: SetConfig,
    pub(super) random: Arc<Random>,
    /// The name under which this manager waits in the queues of the nodes.
    pub(crate) waiter: WaiterId,
    /// Held while the nodes are counted, so that two nodes without a record do not take each other for the set.
    pub(super) counting: tokio::sync::Mutex<()>,
    pub(super) stop: CancellationToken,
    run: Mutex<Option<Run>>,
}

/// The membership task, and when it began.
struct Run {
    task: JoinHandle<()>,
    began: Instant,
}

/// One node.
pub(crate) struct Member {
    pub(crate) node: Arc<dyn LockNode>,
    pub(super) standing: Watched<Standing>,
    pub(super) facts: Mutex<Facts>,
    /// Told when a vote met something that an inspection should look into.
    pub(super) trouble: Notify,
}

/// What the last inspection told.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) run_id: Option<String>,
    /// The node's clock in microseconds, and when it was read.
    pub(super) clock: Option<(u64, Instant)>,
}

/// Whether a node may vote.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Standing {
    /// It is being connected to for the first time.
    Joining,
    /// It votes.
    Admitted(Epoch),
    /// It does all but grant.
    Quarantined(Epoch, Instant),
    /// It does not answer.
    Away(NodeError),
    /// It answers, but has no record, and too few others answer to tell why.
    Undecided,
    /// It must not be used.
    Refused(Refusal),
}

impl Standing {
    fn epoch_for(&self, request: &Request) -> Result<Epoch, NodeError> {
        match self {
            Self::Quarantined(epoch, _) if !matches!(request, Request::Acquire { .. }) => Ok(*epoch),
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
            // Whatever the inspection met, the request of now was not sent.
            Self::Away(error) => NodeError::Unreachable { reason: error.to_string() },
            Self::Refused(refusal) => refusal.clone().into(),
        })
    }

    /// Whether requests other than an acquire can be sent.
    fn takes_requests(&self) -> bool {
        matches!(self, Self::Admitted(_) | Self::Quarantined(..))
    }
}

impl Cluster {
    pub(super) fn new(
        nodes: Vec<Arc<dyn LockNode>>,
        keyspace: Keyspace,
        config: SetConfig,
        random: Arc<Random>,
        stop: CancellationToken,
    ) -> Self {
        let member = |node| Member {
            node,
            standing: Watched::new(Standing::Joining),
            facts: Mutex::default(),
            trouble: Notify::new(),
        };
        Self {
            members: nodes.into_iter().map(member).collect(),
            keyspace: Arc::new(keyspace),
            config,
            waiter: random.waiter(),
            random,
            counting: tokio::sync::Mutex::new(()),
            stop,
            run: Mutex::new(None),
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }

    /// Starts looking after the nodes, unless that is going on. A runtime that was shut down took the task with it; the next
    /// use on another one starts anew. True if it was started.
    pub(super) fn start(self: &Arc<Self>) -> bool {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        if run.as_ref().is_some_and(|run| !run.task.is_finished()) || self.stop.is_cancelled() {
            return false;
        }
        for member in &self.members {
            member.standing.replace(Standing::Joining);
        }
        let task = tokio::spawn(Arc::clone(self).keep_members());
        *run = Some(Run { task, began: Instant::now() });
        true
    }

    /// Waits until the nodes that are being connected to for the first time stand one way or another, or a majority votes,
    /// or a second is over.
    pub(crate) async fn first_contact(&self) {
        let voting = |member: &&Member| matches!(*member.standing.borrow(), Standing::Admitted(_));
        let majority_votes = || self.members.iter().filter(voting).count() >= majority(self.size());
        // As nearly always: every acquisition passes here.
        if majority_votes() {
            return;
        }
        let mut joining: FuturesUnordered<_> = self.members.iter().map(|member| self.joined(member)).collect();
        while joining.next().await.is_some() && !majority_votes() {}
    }

    /// Waits until all nodes that are being connected to for the first time stand one way or another, or a second is over.
    pub(crate) async fn all_joined(&self) {
        futures_util::future::join_all(self.members.iter().map(|member| self.joined(member))).await;
    }

    /// How a node stands.
    pub(crate) fn standing(&self, node: usize) -> Standing {
        self.members[node].standing.borrow().clone()
    }

    /// Waits until a node's first connection succeeded or failed.
    async fn joined(&self, member: &Member) {
        let deadline = self.first_contact_ends();
        let joined = member.standing.wait_for(|standing| *standing != Standing::Joining);
        _ = timeout_at(deadline, joined).await;
    }

    /// Casts a request: when this returns, it is handed over, or it never will be and the answer says why.
    pub(crate) fn cast(&self, node: usize, keys: &LockKeys, request: Request, answer: Answer) {
        let member = &self.members[node];
        let epoch = member.standing.borrow().epoch_for(&request);
        match epoch {
            Ok(epoch) => member.node.vote(Ballot { keys: keys.clone(), epoch, waiter: self.waiter, request }, answer),
            Err(error) => answer.send(Err(error)),
        }
    }

    /// If a node is being connected to for the first time: until that succeeded or failed.
    pub(crate) fn joining(self: &Arc<Self>, node: usize) -> Option<NodeFuture<()>> {
        if *self.members[node].standing.borrow() != Standing::Joining {
            return None;
        }
        let cluster = Arc::clone(self);
        Some(Box::pin(async move { cluster.joined(&cluster.members[node]).await }))
    }

    /// Until when answers to requests that are cast now are to be awaited.
    pub(crate) fn deadline(&self, node_timeout: Duration) -> Instant {
        let joining = self.members.iter().any(|member| *member.standing.borrow() == Standing::Joining);
        let now = Instant::now();
        if joining { now.max(self.first_contact_ends()) + node_timeout } else { now + node_timeout }
    }

    /// Until when nodes that are being connected to for the first time are awaited.
    fn first_contact_ends(&self) -> Instant {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        run.as_ref().map_or_else(Instant::now, |run| run.began) + FIRST_CONTACT
    }

    /// Has a node looked at because of what a vote met.
    pub(crate) fn note(&self, node: usize, error: &NodeError) {
        let member = &self.members[node];
        let telling = match (&*member.standing.borrow(), error) {
            (
                Standing::Admitted(_) | Standing::Quarantined(..),
                NodeError::Unadmitted | NodeError::Unreachable { .. } | NodeError::ConnectionLost { .. },
            )
            | (Standing::Admitted(_), NodeError::Quarantined { .. }) => true,
            // It became a replica. Other errors of a server do not go away by being looked at.
            (Standing::Admitted(_), NodeError::Rejected { code, .. }) => code == "READONLY",
            // A node that hangs is given up by its connection; how the others stand is known, and looked after.
            _ => false,
        };
        if telling {
            member.trouble.notify_one();
        }
    }

    /// Waits until a node takes requests.
    pub(crate) async fn reachable(&self, node: usize) {
        self.members[node].standing.wait_for(Standing::takes_requests).await;
    }

    /// The cluster clock, carried forward from when the nodes' clocks were read.
    pub(crate) fn clock(&self) -> u64 {
        let now = Instant::now();
        let readings = self.members.iter().filter_map(|member| {
            let facts = member.facts.lock().unwrap_or_else(PoisonError::into_inner);
            let (micros, at) = facts.clock?;
            let since = now.saturating_duration_since(at);
            Some(micros.saturating_add(u64::try_from(since.as_micros()).unwrap_or_default()))
        });
        cluster_clock(self.size(), readings).min(LATEST_CLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockError, LockManager, MemoryNode};

    const HUNG: Duration = Duration::from_secs(3600);

    /// Three nodes, of which one hangs from the beginning.
    fn one_hangs() -> (Vec<MemoryNode>, LockManager) {
        let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
        nodes[0].set_delay(HUNG);
        let locks = LockManager::builder().nodes(nodes.clone()).connect_lazy().unwrap();
        (nodes, locks)
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_hangs_from_the_beginning_costs_the_first_caller_no_second() {
        let (_nodes, locks) = one_hangs();
        let asked = Instant::now();
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
        // Not nothing: that it is the first start is told by counting the nodes.
        assert!(asked.elapsed() < FIRST_CONTACT / 2, "{:?}", asked.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_released_on_a_node_that_was_not_asked() {
        let (_nodes, locks) = one_hangs();
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
        let asked = Instant::now();
        locks.shutdown(Duration::ZERO).await;
        assert_eq!(asked.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_of_first_contact_is_not_granted_twice() {
        let (nodes, locks) = one_hangs();
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
        tokio::time::sleep(FIRST_CONTACT).await;
        nodes[1..].iter().for_each(|node| node.set_delay(HUNG));
        let asked = Instant::now();
        assert!(matches!(locks.lock("r").acquire().await, Err(LockError::NoQuorum { .. })));
        assert!(asked.elapsed() < Duration::from_millis(100), "{:?}", asked.elapsed());
    }
}
