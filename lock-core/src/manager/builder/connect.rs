use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout_at};

use super::{ConfigError, ConnectError};
use crate::cluster::{Cluster, MemberState};
use crate::error::{NodeError, NotMember};
use crate::quorum::majority;

/// How long after a test vote that was lost the masters are asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until a majority of the masters would grant a lock, or is not to be expected, or the time is over.
pub(super) async fn check_masters(cluster: &Cluster, connect_timeout: Duration) -> Result<(), ConnectError> {
    let deadline = Instant::now() + connect_timeout;
    loop {
        let connected = async {
            cluster.all_joined().await;
            cluster.published_until(|| !is_worth_waiting(cluster)).await;
        };
        let is_late = timeout_at(deadline, connected).await.is_err();
        let Err((error, may_pass)) = check(cluster).await else { return Ok(()) };
        if is_late || !may_pass || Instant::now() + PAUSE >= deadline {
            return Err(error);
        }
        // A master that was there for the inspection was gone for the test vote.
        sleep(PAUSE).await;
    }
}

/// Whether a majority of the masters would grant a lock; if not, why, and whether that may pass by itself.
async fn check(cluster: &Cluster) -> Result<(), (ConnectError, bool)> {
    let nodes = cluster.size();
    let problems = join_all((0..nodes).map(|node| problem(cluster, node))).await;
    let (mut unreachable, mut not_formed, mut passing) = (Vec::new(), None, 0);
    for (node, problem) in problems.into_iter().enumerate() {
        let name = cluster.name(node).to_owned();
        match problem {
            None => {}
            Some(problem) if ends_by_itself(&problem) => {}
            Some(NodeError::Refused(refusal)) => {
                return Err((ConfigError::RefusedNode { node: name, refusal }.into(), false));
            }
            Some(NodeError::NotMember(NotMember::Unformed { missing })) if !missing.is_empty() => {
                not_formed = Some(missing);
            }
            Some(error) => {
                passing += usize::from(found(cluster, node).unwrap_or_else(|| error.clone()).may_pass());
                unreachable.push((name, error));
            }
        }
    }
    let (reachable, quorum) = (nodes - unreachable.len(), majority(nodes));
    if reachable < quorum {
        let error = ConnectError::NoQuorum { nodes, reachable, unreachable };
        return Err((error, reachable + passing >= quorum));
    }
    not_formed.map_or(Ok(()), |missing| Err((ConnectError::NotFormed { missing }, false)))
}

/// Whether no majority can be used, but one could be as soon as what is wrong with some masters has passed.
fn is_worth_waiting(cluster: &Cluster) -> bool {
    let (mut usable, mut passing, mut dependent, mut lasting) = (0, 0, 0, 0);
    for node in 0..cluster.size() {
        match found(cluster, node) {
            None => usable += 1,
            Some(problem) if ends_by_itself(&problem) => usable += 1,
            // That is an error, whatever becomes of the others.
            Some(NodeError::Refused(_)) => return false,
            Some(problem) if problem.may_pass() => passing += 1,
            // A set is formed when all of its masters can be used, and one that forgot is let in by the others.
            Some(NodeError::NotMember(NotMember::Unformed { .. } | NotMember::Forgot { .. })) => dependent += 1,
            Some(_) => lasting += 1,
        }
    }
    let quorum = majority(cluster.size());
    usable < quorum && usable + passing + dependent >= quorum && (passing > 0 || lasting == 0)
}

/// What the inspection of a node found to be wrong with it.
fn found(cluster: &Cluster, node: usize) -> Option<NodeError> {
    match cluster.state(node) {
        MemberState::Away(error) => Some(error),
        _ => cluster.problem(node),
    }
}

/// What keeps a node from granting locks.
async fn problem(cluster: &Cluster, node: usize) -> Option<NodeError> {
    match cluster.problem(node) {
        None => cluster.test_vote_since_admission(node).await.err(),
        problem => problem,
    }
}

/// Whether a node will vote without help, or with the help of this manager alone.
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
    use super::*;
    use crate::{LockManager, MemoryNode};

    const HUNG: Duration = Duration::from_secs(3600);

    /// Three nodes, `hung` of which answer nothing.
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
    async fn connect_waits_for_nodes_that_are_not_there_yet() {
        for is_formed in [false, true] {
            let (nodes, began) = (nodes(0), Instant::now());
            if is_formed {
                LockManager::builder().nodes(nodes.clone()).connect().await.unwrap();
            }
            nodes[..2].iter().for_each(|node| node.set_down(true));
            let start = async {
                sleep(Duration::from_secs(3)).await;
                nodes.iter().for_each(|node| node.set_down(false));
            };
            let (connected, ()) = tokio::join!(LockManager::builder().nodes(nodes.clone()).connect(), start);
            assert!(connected.is_ok(), "{connected:?}");
            assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connect_waits_for_a_node_that_goes_between_the_inspection_and_the_test_vote() {
        let nodes = nodes(0);
        LockManager::builder().nodes(nodes.clone()).connect().await.unwrap();
        nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(20)));
        let restart = async {
            // Later than the inspection, and earlier than the reply to the test vote.
            sleep(Duration::from_millis(30)).await;
            nodes.iter().for_each(|node| node.set_down(true));
            sleep(Duration::from_secs(1)).await;
            nodes.iter().for_each(|node| node.set_down(false));
        };
        let (connected, ()) = tokio::join!(LockManager::builder().nodes(nodes.clone()).connect(), restart);
        assert!(connected.is_ok(), "{connected:?}");
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
        let mut of_different_sets = vec![nodes[1].clone()];
        for _ in 0..2 {
            let others = self::nodes(0);
            LockManager::builder().nodes(others.clone()).connect().await.unwrap();
            of_different_sets.push(others[0].clone());
        }
        let began = Instant::now();
        let refused = LockManager::builder().nodes(of_different_sets).connect().await;
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
