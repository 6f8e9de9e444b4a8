use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};

use super::{ConfigError, ConnectError};
use crate::cluster::{Cluster, MemberState};
use crate::error::{NodeError, NotMember};
use crate::quorum::majority;

/// Waits for the first connections, and checks that a majority of the masters would grant a lock.
pub(super) async fn check_masters(cluster: &Cluster, connect_timeout: Duration) -> Result<(), ConnectError> {
    let deadline = Instant::now() + connect_timeout;
    let connected = async {
        cluster.all_joined().await;
        cluster.published_until(|| !is_worth_waiting(cluster)).await;
    };
    _ = timeout_at(deadline, connected).await;
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

/// Whether no majority can be used, but one could if nodes answer that have not answered so far.
fn is_worth_waiting(cluster: &Cluster) -> bool {
    let (mut usable, mut connecting, mut unformed) = (0, 0, 0);
    for node in 0..cluster.size() {
        match cluster.state(node) {
            MemberState::Joining | MemberState::Away(NodeError::TimedOut) => connecting += 1,
            MemberState::Away(_) | MemberState::Refused(_) => {}
            MemberState::NotMember(NotMember::Unformed { missing }) if !missing.is_empty() => unformed += 1,
            _ => usable += 1,
        }
    }
    let quorum = majority(cluster.size());
    usable < quorum && connecting > 0 && usable + connecting + unformed >= quorum
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

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::{LockManager, MemoryNode};

    const HUNG: Duration = Duration::from_secs(3600);

    /// Three nodes, of which so many answer nothing.
    fn nodes(hung: usize) -> Vec<MemoryNode> {
        let nodes: Vec<_> = (0..3).map(|_| MemoryNode::new()).collect();
        nodes[..hung].iter().for_each(|node| node.set_delay(HUNG));
        nodes
    }

    #[tokio::test(start_paused = true)]
    async fn connect_waits_for_nodes_that_are_still_connecting() {
        let (nodes, began) = (nodes(3), Instant::now());
        let answer = async {
            sleep(Duration::from_secs(3)).await;
            nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
        };
        let (connected, ()) = tokio::join!(LockManager::builder().nodes(nodes.clone()).connect(), answer);
        assert!(connected.is_ok(), "{connected:?}");
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn connect_gives_up_after_its_timeout() {
        for timeout in [Duration::from_millis(500), Duration::from_secs(5)] {
            let (nodes, began) = (nodes(2), Instant::now());
            let refused = LockManager::builder().nodes(nodes).connect_timeout(timeout).connect().await;
            assert!(
                matches!(refused, Err(ConnectError::NoQuorum { .. } | ConnectError::NotFormed { .. })),
                "{refused:?}"
            );
            assert!(began.elapsed() >= timeout && began.elapsed() < timeout * 2, "{:?}", began.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connect_waits_for_nobody_if_a_majority_can_be_used_or_none_can_be() {
        let nodes = nodes(0);
        LockManager::builder().nodes(nodes.clone()).connect().await.unwrap();
        nodes[0].set_delay(HUNG);
        let began = Instant::now();
        LockManager::builder().nodes(nodes.clone()).connect().await.unwrap();
        assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
        nodes[1..].iter().for_each(|node| node.set_down(true));
        let began = Instant::now();
        let refused = LockManager::builder().nodes(nodes.clone()).connect().await;
        assert!(matches!(refused, Err(ConnectError::NoQuorum { .. })), "{refused:?}");
        assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
    }

    #[test]
    fn a_connect_timeout_out_of_range_is_refused() {
        for timeout in [Duration::ZERO, Duration::from_secs(601)] {
            let refused = LockManager::builder().nodes(nodes(0)).connect_timeout(timeout).connect_lazy();
            let Err(ConfigError::OutOfRange(refused)) = refused else { panic!("{refused:?}") };
            assert_eq!(refused.field, "connect_timeout");
        }
    }
}
