use std::sync::Arc;

use futures_util::future::select_ok;
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
