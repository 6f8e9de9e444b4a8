use futures_util::future::join_all;

use super::{ConfigError, ConnectError};
use crate::cluster::Cluster;
use crate::error::{NodeError, NotMember};
use crate::quorum::majority;

/// Waits for the first connections, and checks that a majority of the masters would grant a lock.
pub(super) async fn check_masters(cluster: &Cluster) -> Result<(), ConnectError> {
    cluster.all_joined().await;
    let nodes = cluster.size();
    let problems = join_all((0..nodes).map(|node| problem(cluster, node))).await;
    let (mut unreachable, mut not_formed) = (Vec::new(), None);
    for (member, problem) in cluster.members.iter().zip(problems) {
        let name = member.node.name().to_owned();
        match problem {
            None => {}
            Some(problem) if ends_by_itself(&problem) => {}
            Some(NodeError::Refused(refusal)) => {
                return Err(ConfigError::RefusedNode { node: name, refusal }.into());
            }
            Some(NodeError::NotMember(NotMember::Unformed { missing })) if !missing.is_empty() => {
                not_formed = Some(missing);
            }
            Some(error) => unreachable.push((name, error)),
        }
    }
    let reachable = nodes - unreachable.len();
    if reachable < majority(nodes) {
        return Err(ConnectError::NoQuorum { nodes, reachable, unreachable });
    }
    not_formed.map_or(Ok(()), |missing| Err(ConnectError::NotFormed { missing }))
}

/// What keeps a node from granting locks.
async fn problem(cluster: &Cluster, node: usize) -> Option<NodeError> {
    match cluster.problem(node) {
        None => cluster.test_vote_since_admission(node).await.err(),
        problem => problem,
    }
}

/// Whether a node will vote without anybody's help, or with that of this manager.
fn ends_by_itself(problem: &NodeError) -> bool {
    match problem {
        NodeError::Quarantined { .. } | NodeError::Unadmitted => true,
        NodeError::NotMember(NotMember::Forgot { missing }) => missing.is_empty(),
        NodeError::NotMember(reason) => matches!(
            reason,
            NotMember::Candidate | NotMember::Behind | NotMember::MaxTtl { .. } | NotMember::MajorityForgot { .. }
        ),
        _ => false,
    }
}
