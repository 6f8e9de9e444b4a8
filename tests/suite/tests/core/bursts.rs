//! Many callers at once: attempts wait in line, and what follows an attempt does not. In virtual time.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockManager, MemoryNode, NodeError, Vote};
use lock_support::{MemoryCluster, Recorder};
use tokio::time::{Instant, sleep};

/// How long the nodes take for a request.
const ROUND_TRIP: Duration = Duration::from_millis(40);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
/// The most attempts of a manager that are in progress at once on five nodes.
const MAX_ATTEMPTS: usize = 128;
/// How many rounds of attempts a thousand callers need.
const ROUNDS: usize = 1000_usize.div_ceil(MAX_ATTEMPTS);
const WAIT: Duration = Duration::from_secs(20);

fn slow_down(nodes: &[MemoryNode]) {
    nodes.iter().for_each(|node| node.set_delay(ROUND_TRIP));
}

async fn slow_cluster() -> (MemoryCluster, LockManager) {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).connect().await.unwrap();
    slow_down(&cluster.nodes);
    (cluster, locks)
}

// promise: overload
#[tokio::test(start_paused = true)]
async fn a_burst_of_callers_waits_in_line_and_all_are_granted() {
    let nodes: Vec<_> = (0..5).map(|_| MemoryNode::new()).collect();
    let recorders: Vec<_> = nodes.iter().cloned().map(Recorder::new).collect();
    let locks = LockManager::builder().nodes(recorders.clone()).wait(WAIT).connect().await.unwrap();
    slow_down(&nodes);
    let acquiring = join_all((0..1000).map(|number| locks.lock(format!("r{number}")).acquire()));
    let acquires = || recorders[0].owners().len();
    let watching = async {
        sleep(ROUND_TRIP / 2).await;
        for round in 1..=ROUNDS {
            assert_eq!(acquires(), 1000.min(round * MAX_ATTEMPTS), "in round {round}");
            sleep(ROUND_TRIP).await;
        }
    };
    let (guards, ()) = tokio::join!(acquiring, watching);
    assert!(guards.iter().all(Result::is_ok));
}

// promise: overload
#[tokio::test(start_paused = true)]
async fn renewals_and_releases_do_not_wait_in_line() {
    let (_cluster, locks) = slow_cluster().await;
    let ttl = Duration::from_secs(1);
    let guard = locks.lock("r").ttl(ttl).acquire().await.unwrap();
    let burst: Vec<_> = (0..10_000).map(|number| tokio::spawn(locks.lock(format!("r{number}")).acquire())).collect();
    sleep(2 * ttl).await;
    assert!(guard.is_valid(), "it was renewed");
    assert!(!burst.last().unwrap().is_finished());
    let started = Instant::now();
    assert!(guard.release().await.unwrap());
    assert_eq!(started.elapsed(), ROUND_TRIP);
    for acquired in join_all(burst).await {
        assert!(acquired.unwrap().is_ok());
    }
}

// promise: overload
#[tokio::test(start_paused = true)]
async fn a_caller_without_a_wait_stands_in_line_for_the_node_timeout_at_most() {
    let (_cluster, locks) = slow_cluster().await;
    let attempts = join_all((0..1000).map(|number| {
        let request = locks.lock(format!("r{number}"));
        async move {
            let started = Instant::now();
            (request.try_acquire().await, started.elapsed())
        }
    }));
    let mut granted = 0;
    for (outcome, took) in attempts.await {
        match outcome {
            Ok(_) => granted += 1,
            Err(error @ LockError::NoQuorum { .. }) => {
                let overloaded = |vote: &Vote| *vote == Vote::Failed(NodeError::Overloaded);
                assert!(error.votes().len() == 5 && error.votes().iter().all(|vote| overloaded(&vote.vote)), "{error}");
                assert!(took <= NODE_TIMEOUT, "{took:?}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(granted, 2 * MAX_ATTEMPTS, "the second round began within the node timeout");
}

#[tokio::test(start_paused = true)]
async fn closing_wakes_the_callers_in_line() {
    let (_cluster, locks) = slow_cluster().await;
    let waiting: Vec<_> = (0..1000).map(|number| tokio::spawn(locks.lock(format!("r{number}")).acquire())).collect();
    sleep(ROUND_TRIP / 2).await;
    locks.close();
    let closed = Instant::now();
    for waiting in join_all(waiting).await {
        assert!(matches!(waiting.unwrap(), Err(LockError::ShuttingDown { .. })));
    }
    assert!(closed.elapsed() <= ROUND_TRIP, "{:?}", closed.elapsed());
}

// promise: overload
#[tokio::test(start_paused = true)]
async fn a_caller_that_the_nodes_call_does_not_wait_behind_a_burst() {
    let (cluster, locks) = slow_cluster().await;
    let other = cluster.builder().connect().await.unwrap();
    let held = other.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("r").acquire());
    sleep(3 * ROUND_TRIP).await;
    let burst: Vec<_> = (0..10_000).map(|number| tokio::spawn(locks.lock(format!("r{number}")).acquire())).collect();
    sleep(ROUND_TRIP).await;
    let released = Instant::now();
    drop(held);
    assert!(waiting.await.unwrap().is_ok());
    assert!(released.elapsed() <= 4 * ROUND_TRIP, "{:?}", released.elapsed());
    assert!(!burst.last().unwrap().is_finished());
    for acquired in join_all(burst).await {
        assert!(acquired.unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_node_takes_as_many_requests_as_five_nodes_together() {
    let node = MemoryNode::new();
    let recorder = Recorder::new(node.clone());
    let locks = LockManager::builder().nodes([recorder.clone()]).wait(WAIT).connect().await.unwrap();
    node.set_delay(ROUND_TRIP);
    let acquiring = join_all((0..1000).map(|number| locks.lock(format!("r{number}")).acquire()));
    let watching = async {
        sleep(ROUND_TRIP / 2).await;
        assert_eq!(recorder.owners().len(), 5 * MAX_ATTEMPTS);
    };
    let (guards, ()) = tokio::join!(acquiring, watching);
    assert!(guards.iter().all(Result::is_ok));
}

// promise: overload
#[tokio::test(start_paused = true)]
async fn sets_wait_in_line_for_each_of_their_locks() {
    let nodes: Vec<_> = (0..5).map(|_| MemoryNode::new()).collect();
    let recorders: Vec<_> = nodes.iter().cloned().map(Recorder::new).collect();
    let locks = LockManager::builder().nodes(recorders.clone()).wait(WAIT).connect().await.unwrap();
    slow_down(&nodes);
    let sets = (0..8).map(|set| locks.lock_all((0..32).map(|number| format!("{set}-{number}"))).acquire());
    let watching = async {
        sleep(ROUND_TRIP / 2).await;
        assert_eq!(recorders[0].owners().len(), MAX_ATTEMPTS);
    };
    let (guards, ()) = tokio::join!(join_all(sets), watching);
    assert!(guards.iter().all(Result::is_ok));
}
