use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cluster::{Cluster, MemberState, SHUT_DOWN};
use crate::error::NodeError;
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
    /// Whether a majority of the nodes would grant a lock, and so locks can be acquired.
    pub quorum: bool,
    /// The generation of the roster that this manager counts by, if it knows the set. See [`Members`](super::Members).
    pub generation: Option<u64>,
    /// Each node, in the order in which they were named.
    pub nodes: Vec<NodeHealth>,
}

/// The state of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// Its name: an address, without a password.
    pub name: String,
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

pub(crate) async fn check(cluster: Arc<Cluster>) -> Health {
    cluster.all_joined().await;
    let checked = join_all((0..cluster.size()).map(|node| check_node(&cluster, node))).await;
    let mut votes = VotingSeats::default();
    let nodes = checked.into_iter().map(|(health, seat)| {
        votes.note(seat);
        health
    });
    let nodes = nodes.collect();
    let generation = cluster.membership().roster().map(|roster| roster.generation);
    Health { quorum: votes.are_majority_of(cluster.size()), generation, nodes }
}

/// The health of a manager that was shut down: nothing is asked.
pub(crate) fn after_shutdown(cluster: &Cluster) -> Health {
    let nodes = cluster.members.iter().map(|member| NodeHealth {
        name: member.node.name().to_owned(),
        reachable: false,
        admitted: false,
        round_trip: None,
        member: None,
        joining: None,
        problem: Some(NodeError::Unreachable { reason: SHUT_DOWN.into() }),
    });
    let generation = cluster.membership().roster().map(|roster| roster.generation);
    Health { quorum: false, generation, nodes: nodes.collect() }
}

/// The seats that were found to vote: of a master that answers over two addresses one after the other, one.
#[derive(Default)]
pub(super) struct VotingSeats {
    roll: RollCall,
    count: usize,
}

impl VotingSeats {
    pub(super) fn note(&mut self, vote: Option<(u64, usize)>) {
        self.count += usize::from(vote.is_some_and(|(roster, seat)| self.roll.call(roster, seat).is_ok()));
    }

    pub(super) fn are_majority_of(&self, nodes: usize) -> bool {
        self.count >= majority(nodes)
    }
}

/// The state of a node; and the roster and the seat for which it votes, if it does.
pub(super) async fn check_node(cluster: &Cluster, node: usize) -> (NodeHealth, Option<(u64, usize)>) {
    let member = &cluster.members[node];
    let asked = Instant::now();
    let answer = match timeout(TIMEOUT, member.node.inspect(&cluster.keyspace)).await {
        Err(_) | Ok(Err(NodeError::TimedOut)) => Err(cluster.timed_out(node)),
        Ok(answer) => answer,
    };
    let round_trip = answer.is_ok().then(|| asked.elapsed());
    if let Ok(seen) = &answer {
        cluster.membership().note_log_position(seen);
    }
    let seen = answer.as_ref().ok().and_then(|seen| seen.record.get());
    let member_id = seen.map(|record| record.member.to_string());
    let state = cluster.state(node);
    let seat = match state {
        MemberState::Admitted { roster, seat, .. } => Some((roster, seat)),
        _ => None,
    };
    let problem = match (state, answer) {
        (_, Err(error)) => Some(error),
        // It lost its data and was established again by another client, which no request of ours has run into so far.
        (MemberState::Admitted { epoch, .. }, Ok(seen))
            if seen.record.get().is_none_or(|record| record.epoch != Some(epoch)) =>
        {
            cluster.report(node, &NodeError::Unadmitted);
            Some(NodeError::Unadmitted)
        }
        (MemberState::Admitted { .. }, Ok(_)) => {
            let vote = timeout_at(asked + TIMEOUT, cluster.test_vote(node)).await;
            vote.unwrap_or_else(|_| Err(cluster.timed_out(node))).err()
        }
        (_, Ok(_)) => cluster.problem(node),
    };
    // An error is an answer, too: of a refused login, say.
    let reachable = round_trip.is_some() || matches!(problem, Some(NodeError::Refused(_) | NodeError::Rejected { .. }));
    let joining = match &problem {
        Some(NodeError::Quarantined { remaining }) => Some(*remaining),
        _ => None,
    };
    let (name, admitted) = (member.node.name().to_owned(), problem.is_none());
    (
        NodeHealth { name, reachable, admitted, round_trip, member: member_id, joining, problem },
        seat.filter(|_| admitted),
    )
}
