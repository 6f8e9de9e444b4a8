//! Test votes: what they cost, whom they are asked of, and how often a cause is logged. In virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::masters::NotMember;
use lock_core::node::{Keyspace, NodeFuture, NodeRecord, Operation, RecordWrite, ReplySender, Request};
use lock_core::{ConnectError, LockManager, LockManagerBuilder, LockNode, MemoryNode, NodeError, Vote};
use lock_support::{Events, eventually_async, on_one_thread};
use tokio::time::{Instant, sleep};

/// A node that can be told to refuse writes, and counts the test votes that it is asked for.
#[derive(Clone)]
struct FullNode {
    node: MemoryNode,
    full: Arc<AtomicBool>,
    test_votes: Arc<AtomicUsize>,
}

impl FullNode {
    fn new() -> Self {
        Self { node: MemoryNode::new(), full: Arc::default(), test_votes: Arc::default() }
    }

    fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    fn is_full(&self) -> bool {
        self.full.load(Ordering::SeqCst)
    }

    fn test_votes(&self) -> usize {
        self.test_votes.load(Ordering::SeqCst)
    }
}

fn oom() -> NodeError {
    NodeError::Rejected { code: "OOM".into(), detail: "command not allowed".into() }
}

impl LockNode for FullNode {
    lock_core::forward_to_node!(self => self.node; name inspect read_fences wakeups disconnected disconnect look evict);

    fn write_record(
        &self,
        keyspace: &Arc<Keyspace>,
        write: RecordWrite,
    ) -> NodeFuture<Result<Option<NodeRecord>, NodeError>> {
        if self.is_full() { Box::pin(async { Err(oom()) }) } else { self.node.write_record(keyspace, write) }
    }

    fn submit(&self, request: Request, reply_to: ReplySender) {
        if matches!(request.operation, Operation::Acquire { .. }) {
            self.test_votes.fetch_add(usize::from(request.keys.fence() == Keyspace::TEST_FENCE), Ordering::SeqCst);
            if self.is_full() {
                return reply_to.send(Err(oom()));
            }
        }
        self.node.submit(request, reply_to);
    }
}

fn three() -> Vec<FullNode> {
    (0..3).map(|_| FullNode::new()).collect()
}

fn builder(nodes: &[FullNode]) -> LockManagerBuilder {
    LockManager::builder().nodes(nodes.to_vec())
}

// promise: health
#[tokio::test(start_paused = true)]
async fn to_connect_takes_one_round_trip_for_the_inspection_and_one_for_the_test_vote() {
    let nodes = three();
    builder(&nodes).connect().await.unwrap();
    let delay = Duration::from_millis(40);
    nodes.iter().for_each(|node| node.node.set_delay(delay));
    let started = Instant::now();
    builder(&nodes).connect().await.unwrap();
    assert_eq!(started.elapsed(), 2 * delay);
}

#[tokio::test(start_paused = true)]
async fn a_node_in_good_order_is_asked_once_when_it_is_admitted_and_by_each_health() {
    let nodes = three();
    let locks = builder(&nodes).connect().await.unwrap();
    sleep(Duration::from_secs(3600)).await;
    assert!(nodes.iter().all(|node| node.test_votes() == 1));
    for asked in 2..5 {
        assert!(locks.health().await.quorum);
        assert!(nodes.iter().all(|node| node.test_votes() == asked && node.node.lock_keys().is_empty()));
    }
    nodes[0].node.set_down(true);
    sleep(Duration::from_secs(10)).await;
    nodes[0].node.set_down(false);
    sleep(Duration::from_secs(10)).await;
    assert_eq!([nodes[0].test_votes(), nodes[1].test_votes()], [5, 4], "admitted again, it is asked again");
}

// promise: health
#[tokio::test(start_paused = true)]
async fn a_node_in_quarantine_is_not_asked() {
    let nodes = three();
    let locks = builder(&nodes).max_ttl(Duration::from_secs(10)).connect().await.unwrap();
    nodes[2].node.forget();
    let asked = nodes[2].test_votes();
    _ = locks.health().await;
    sleep(Duration::from_secs(5)).await;
    let health = locks.health().await;
    assert!(matches!(health.nodes[2].problem, Some(NodeError::Quarantined { .. })) && health.quorum);
    assert!(nodes[2].test_votes() <= asked + 1, "but for the one that showed that it forgot");
    let asked = nodes[2].test_votes();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(nodes[2].test_votes(), asked + 1, "admitted, it is asked");
    assert!(locks.health().await.nodes[2].admitted);
}

// promise: health
#[tokio::test(start_paused = true)]
async fn a_minority_that_cannot_vote_is_reported_and_a_majority_fails_connect() {
    let nodes = three();
    builder(&nodes).connect().await.unwrap();
    nodes[0].set_full(true);
    let locks = builder(&nodes).connect().await.unwrap();
    let health = locks.health().await;
    assert!(health.quorum && health.nodes[0].reachable && !health.nodes[0].admitted);
    assert_eq!(health.nodes[0].problem, Some(oom()));
    nodes[1].set_full(true);
    assert!(!locks.health().await.quorum);
    let error = builder(&nodes).connect().await.unwrap_err();
    let unreachable = [0, 1].map(|node| (nodes[node].name().to_owned(), oom())).to_vec();
    assert_eq!(error, ConnectError::NoQuorum { nodes: 3, reachable: 1, unreachable });
    nodes.iter().for_each(|node| node.set_full(false));
    assert!(locks.health().await.quorum);
}

// promise: health
#[tokio::test(start_paused = true)]
async fn to_connect_to_masters_of_different_sets_fails() {
    let sets = [three(), three(), three()];
    for nodes in &sets {
        builder(nodes).connect().await.unwrap();
    }
    let [one, another, third] = sets.map(|mut nodes| nodes.remove(0));
    let error = builder(&[one, another, third]).connect().await.unwrap_err();
    let ConnectError::NoQuorum { reachable: 1, unreachable, .. } = &error else { panic!("{error}") };
    let is_of_another_set = |error: &NodeError| *error == NodeError::NotMember(NotMember::OtherSet);
    assert!(unreachable.iter().all(|(_, error)| is_of_another_set(error)), "{error}");
}

// promise: health
#[tokio::test(start_paused = true)]
async fn a_node_that_takes_no_new_locks_still_renews_those_that_are_held() {
    let nodes = three();
    let locks = builder(&nodes).connect().await.unwrap();
    let guard = locks.lock("r").max_hold(Duration::from_secs(600)).acquire().await.unwrap();
    nodes.iter().for_each(|node| node.set_full(true));
    assert!(!locks.health().await.quorum);
    sleep(Duration::from_secs(300)).await;
    assert!(guard.is_valid());
    assert!(guard.release().await.unwrap());
}

// promise: health
#[tokio::test(start_paused = true)]
async fn the_cause_for_which_a_node_cannot_vote_is_logged_once() {
    let nodes = three();
    builder(&nodes).connect().await.unwrap();
    let events = Events::record();
    let locks = builder(&nodes).connect_lazy().unwrap();
    nodes[0].set_full(true);
    for times in 1..3 {
        assert!(locks.health().await.quorum);
        sleep(Duration::from_secs(300)).await;
        assert_eq!(events.named("lock.node_cannot_vote").len(), times);
        nodes[0].set_full(false);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(events.named("lock.node_votes_again").len(), times, "noticed without being asked for");
        nodes[0].set_full(true);
    }
}

#[tokio::test(start_paused = true)]
async fn the_cause_for_which_a_record_is_not_written_is_logged_once() {
    let nodes = three();
    nodes[0].set_full(true);
    let events = Events::record();
    let locks = builder(&nodes).connect_lazy().unwrap();
    sleep(Duration::from_secs(300)).await;
    assert_eq!(locks.health().await.nodes[0].problem, Some(oom()));
    assert_eq!(events.named("lock.record_not_written").len(), 1);
    nodes[0].set_full(false);
    sleep(Duration::from_secs(10)).await;
    assert!(locks.health().await.nodes[0].admitted);
}

// promise: health
#[tokio::test(start_paused = true)]
async fn a_node_whose_quarantine_is_over_says_why_its_end_cannot_be_written() {
    let (nodes, max_ttl) = (three(), Duration::from_secs(1));
    let builder = || builder(&nodes).ttl(max_ttl).max_ttl(max_ttl);
    let locks = builder().connect().await.unwrap();
    nodes[2].node.forget();
    eventually_async("it joins", async || locks.health().await.nodes[2].joining.is_some()).await;
    nodes[2].set_full(true);
    assert!(matches!(locks.health().await.nodes[2].problem, Some(NodeError::Quarantined { .. })));
    sleep(max_ttl * 5).await;
    let health = locks.health().await.nodes[2].clone();
    assert_eq!((health.problem, health.joining), (Some(oom()), None));
    // Who cannot acquire a lock for it is told, too; and a manager that starts.
    nodes[1].set_full(true);
    let refused = locks.lock("r").acquire().await.unwrap_err();
    assert!(
        refused.votes().iter().all(|vote| vote.vote == Vote::Failed(oom()) || vote.node == nodes[0].name()),
        "{refused}"
    );
    let refused = builder().connect().await.unwrap_err();
    assert_eq!(refused.to_string().matches("OOM").count(), 2, "{refused}");
    nodes[1..].iter().for_each(|node| node.set_full(false));
    eventually_async("it votes", async || locks.health().await.nodes.iter().all(|node| node.admitted)).await;
}

#[test]
fn a_node_is_asked_again_when_its_connections_move_to_another_runtime() {
    let nodes = three();
    let locks = on_one_thread().block_on(builder(&nodes).connect()).unwrap();
    assert!(nodes.iter().all(|node| node.test_votes() == 1));
    on_one_thread().block_on(async {
        assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
        eventually_async("each is asked", async || nodes.iter().all(|node| node.test_votes() == 2)).await;
    });
}

#[test]
fn a_record_that_still_cannot_be_written_from_another_runtime_is_logged_again() {
    let nodes = three();
    nodes[0].set_full(true);
    let events = Events::record();
    let locks = builder(&nodes).connect_lazy().unwrap();
    for times in 1..3 {
        on_one_thread().block_on(async {
            assert!(!locks.health().await.quorum);
            eventually_async("it is logged", async || events.named("lock.record_not_written").len() == times).await;
        });
    }
}
