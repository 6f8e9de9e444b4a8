use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_ok};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use thiserror::Error;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cluster::{Cluster, Member, MemberState, SHUT_DOWN};
use crate::error::{NodeError, NotMember, list_problems};
use crate::quorum::{RollCall, majority};

/// How long a node may take to answer before it is reported as not reachable.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The state of the nodes of a manager.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::ConnectError> {
/// use lock_core::{LockManager, MemoryNode};
///
/// let nodes = [MemoryNode::new(), MemoryNode::new(), MemoryNode::new()];
/// let locks = LockManager::builder().nodes(nodes.clone()).connect().await?;
/// nodes[0].set_down(true);
/// let health = locks.health().await;
/// assert!(health.quorum, "two of three are a majority");
/// for node in health.nodes.iter().filter(|node| !node.admitted) {
///     println!("{} does not vote: {:?}", node.name, node.problem);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether a majority of the nodes would grant a lock, and so locks can be acquired; with
    /// [shards](crate::LockManagerBuilder::shards), in each of them.
    pub quorum: bool,
    /// The shards whose locks cannot be acquired. Without shards, all locks are in shard 0.
    pub shards_without_quorum: Vec<u32>,
    /// The generation of the roster that this manager counts by, if it knows the set; of the first shard. See
    /// [`Members`](super::Members).
    pub generation: Option<u64>,
    /// Each node, in the order in which they were named, shard by shard.
    pub nodes: Vec<NodeHealth>,
}

/// The state of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// Its name: an address, without a password.
    pub name: String,
    /// Which shard this is about.
    pub shard: u32,
    /// Whether it answers.
    pub reachable: bool,
    /// Whether it votes: it was asked to grant and renew a lock that nobody else can ask for, and did.
    pub admitted: bool,
    /// How long its answer took, if it answered.
    pub round_trip: Option<Duration>,
    /// The id of what it remembers, as in [`Members`](super::Members).
    pub member: Option<String>,
    /// How much longer it grants nothing after it joined, or more.
    pub joining: Option<Duration>,
    /// What keeps it from voting, with the remedy if there is one.
    pub problem: Option<NodeError>,
}

/// Why a manager can acquire no lock at present.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotReady {
    /// The manager was closed, and acquires no more locks.
    #[error("the lock manager is closed")]
    Closed,
    /// Fewer than a majority of the masters would grant a lock.
    #[error("{} of {nodes} masters can grant locks, {} are needed: {}", nodes - problems.len(), majority(*nodes), list_problems(problems))]
    NoQuorum {
        /// The number of masters.
        nodes: usize,
        /// Those that would not, with the reason and the remedy if there is one.
        problems: Vec<(String, NodeError)>,
    },
}

/// The health of the shards of a manager.
pub(crate) async fn check_all(clusters: Vec<Arc<Cluster>>) -> Health {
    of_shards(join_all(clusters.into_iter().map(check)).await)
}

async fn check(cluster: Arc<Cluster>) -> (bool, Option<u64>, Vec<NodeHealth>) {
    cluster.all_joined().await;
    let (quorum, nodes) = check_nodes(&cluster, false).await;
    (quorum, generation(&cluster), nodes)
}

/// The health of a manager that was shut down: nothing is asked.
pub(crate) fn after_shutdown(clusters: &[Arc<Cluster>]) -> Health {
    let problem = NodeError::Unreachable { reason: SHUT_DOWN.into() };
    let node = |member: &Member| NodeHealth {
        name: member.node.name().to_owned(),
        problem: Some(problem.clone()),
        ..NodeHealth::default()
    };
    let shard = |cluster: &Arc<Cluster>| (false, generation(cluster), cluster.members.iter().map(node).collect());
    of_shards(clusters.iter().map(shard).collect())
}

fn generation(cluster: &Cluster) -> Option<u64> {
    cluster.membership().roster().map(|roster| roster.generation)
}

/// The health of a manager, from that of each shard.
fn of_shards(shards: Vec<(bool, Option<u64>, Vec<NodeHealth>)>) -> Health {
    let generation = shards.first().and_then(|(_, generation, _)| *generation);
    let (mut shards_without_quorum, mut nodes) = (Vec::new(), Vec::new());
    for (shard, (quorum, _, of_shard)) in (0..).zip(shards) {
        shards_without_quorum.extend((!quorum).then_some(shard));
        nodes.extend(of_shard.into_iter().map(|node| NodeHealth { shard, ..node }));
    }
    Health { quorum: shards_without_quorum.is_empty(), shards_without_quorum, generation, nodes }
}

/// Asks the nodes of all shards, until a lock of one of them would be granted.
pub(crate) async fn ready(clusters: Vec<Arc<Cluster>>) -> Result<(), NotReady> {
    let shards = clusters.into_iter().map(|cluster| Box::pin(ready_in(cluster)));
    select_ok(shards).await.map(drop)
}

/// Asks all nodes of a shard, until a majority would grant a lock or all of them have answered.
async fn ready_in(cluster: Arc<Cluster>) -> Result<(), NotReady> {
    cluster.first_contact().await;
    let (quorum, nodes) = check_nodes(&cluster, true).await;
    let problem = |node: &NodeHealth| Some((node.name.clone(), node.problem.clone()?));
    let problems = || nodes.iter().filter_map(problem).collect();
    if quorum { Ok(()) } else { Err(NotReady::NoQuorum { nodes: nodes.len(), problems: problems() }) }
}

/// The roster and the seat for which a node votes.
type VotingSeat = (u64, usize);

/// Asks all nodes whether they would grant a lock, or only as long as a majority has not said so. Returns whether a majority would, and
/// the nodes that have answered, in their order.
async fn check_nodes(cluster: &Cluster, until_quorum: bool) -> (bool, Vec<NodeHealth>) {
    let (size, quorum) = (cluster.size(), majority(cluster.size()));
    let mut checks: FuturesUnordered<_> =
        (0..size).map(|node| async move { (node, check_node(cluster, node).await) }).collect();
    let (mut roll, mut votes, mut checked) = (RollCall::default(), 0, Vec::with_capacity(size));
    while let Some((node, (health, seat))) = checks.next().await {
        // A master that answers over two addresses, one after the other, has one vote.
        votes += usize::from(seat.is_some_and(|(roster, seat)| roll.call(roster, seat).is_ok()));
        checked.push((node, health));
        if until_quorum && votes >= quorum {
            break;
        }
    }
    checked.sort_by_key(|(node, _)| *node);
    (votes >= quorum, checked.into_iter().map(|(_, health)| health).collect())
}

/// The state of a node; and the roster and the seat for which it votes, if it does.
async fn check_node(cluster: &Cluster, node: usize) -> (NodeHealth, Option<VotingSeat>) {
    let master = &cluster.members[node].node;
    let asked = Instant::now();
    let answer = match timeout(TIMEOUT, master.inspect(&cluster.keyspace)).await {
        Err(_) | Ok(Err(NodeError::TimedOut)) => Err(cluster.timed_out(node)),
        Ok(answer) => answer,
    };
    let round_trip = answer.is_ok().then(|| asked.elapsed());
    if let Ok(seen) = &answer {
        cluster.membership().note_log_position(seen);
    }
    let record = answer.as_ref().ok().and_then(|seen| seen.record.get());
    let member = record.map(|record| record.member.to_string());
    let (state, problem) = match answer {
        Ok(_) => standing(cluster, node, asked + TIMEOUT).await,
        Err(error) => (cluster.state(node), Some(error)),
    };
    let seat = match state {
        MemberState::Admitted { roster, seat, .. } => Some((roster, seat)),
        _ => None,
    };
    // An error is an answer, too: of a refused login, say.
    let has_answered = |problem: &NodeError| {
        matches!(problem, NodeError::Refused(_) | NodeError::Rejected { .. } | NodeError::Elsewhere { .. })
    };
    let reachable = round_trip.is_some() || problem.as_ref().is_some_and(has_answered);
    let joining = match &problem {
        Some(NodeError::Quarantined { remaining }) => Some(*remaining),
        _ => None,
    };
    let (name, admitted) = (master.name().to_owned(), problem.is_none());
    // Which shard it is, the caller knows.
    let health = NodeHealth { name, shard: 0, reachable, admitted, round_trip, member, joining, problem };
    (health, seat.filter(|_| admitted))
}

/// The state of a node that answers, and what keeps it from granting locks.
async fn standing(cluster: &Cluster, node: usize, until: Instant) -> (MemberState, Option<NodeError>) {
    let problem = async || match cluster.state(node) {
        MemberState::Admitted { .. } => {
            let vote = timeout_at(until, cluster.test_vote(node)).await;
            vote.unwrap_or_else(|_| Err(cluster.timed_out(node))).err()
        }
        _ => cluster.problem(node),
    };
    let is_behind = |error: &NodeError| *error == NodeError::NotMember(NotMember::Behind);
    let (state, found) = (cluster.state(node), problem().await);
    if !found.as_ref().is_some_and(|error| *error == NodeError::Unadmitted || is_behind(error)) {
        return (state, found);
    }
    // Another manager changed the members, or the node lost its data, which no request of ours has run into so far: this manager is
    // finding out which.
    let is_settled = || {
        let present = cluster.state(node);
        present != state && !present.problem().as_ref().is_some_and(is_behind)
    };
    match timeout_at(until, cluster.published_until(is_settled)).await {
        Ok(()) => (cluster.state(node), problem().await),
        Err(_) => (state, found),
    }
}
