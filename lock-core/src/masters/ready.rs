use std::sync::Arc;

use thiserror::Error;

use super::health::{NodeHealth, check_nodes};
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
    let (quorum, nodes) = check_nodes(&cluster, true).await;
    let problem = |node: &NodeHealth| Some((node.name.clone(), node.problem.clone()?));
    let problems = || nodes.iter().filter_map(problem).collect();
    if quorum { Ok(()) } else { Err(NotReady::NoQuorum { nodes: nodes.len(), problems: problems() }) }
}
