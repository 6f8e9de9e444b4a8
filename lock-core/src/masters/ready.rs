use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use thiserror::Error;

use super::health::{VotingSeats, check_node};
use crate::cluster::Cluster;
use crate::error::{NodeError, list_problems};
use crate::quorum::majority;

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

/// Asks all nodes, until a majority would grant a lock or all of them have answered.
pub(crate) async fn ready(cluster: Arc<Cluster>) -> Result<(), NotReady> {
    cluster.first_contact().await;
    let nodes = cluster.size();
    let cluster = &cluster;
    let mut checks: FuturesUnordered<_> =
        (0..nodes).map(|node| async move { (node, check_node(cluster, node).await) }).collect();
    let (mut votes, mut problems) = (VotingSeats::default(), Vec::new());
    while let Some((node, (health, seat))) = checks.next().await {
        votes.note(seat);
        if let Some(problem) = health.problem {
            problems.push((node, health.name, problem));
        }
        if votes.are_majority_of(nodes) {
            return Ok(());
        }
    }
    problems.sort_by_key(|(node, ..)| *node);
    Err(NotReady::NoQuorum {
        nodes,
        problems: problems.into_iter().map(|(_, name, problem)| (name, problem)).collect(),
    })
}
