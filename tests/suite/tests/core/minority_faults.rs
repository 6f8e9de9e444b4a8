//! Promise 5 on in-memory nodes: the loss of a minority is invisible, and the loss of a majority is reported
//! quickly. In virtual time.

use std::time::Duration;

use lock_core::{LockError, LockManager, MemoryNode, NodeError, Vote};
use lock_support::{MemoryCluster, eventually, eventually_async};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(10);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
const HANGS: Duration = Duration::from_secs(3600);

type Fault = fn(&MemoryNode);

/// The faults of a node, by name.
const FAULTS: [(&str, Fault); 4] = [
    ("down", |node| node.set_down(true)),
    ("hung", |node| node.set_delay(HANGS)),
    ("slow", |node| node.set_delay(Duration::from_millis(45))),
    ("loses replies", |node| node.drop_replies(true)),
];

fn heal(node: &MemoryNode) {
    node.set_down(false);
    node.set_delay(Duration::ZERO);
    node.drop_replies(false);
}

/// How long it takes to acquire and release the lock ten times.
async fn ten_times(locks: &LockManager) -> Duration {
    let started = Instant::now();
    for _ in 0..10 {
        let guard = locks.lock("r").ttl(TTL).acquire().await.unwrap();
        assert!(guard.release().await.unwrap());
    }
    started.elapsed()
}

// promise: minority-faults
#[tokio::test(start_paused = true)]
async fn faults_on_two_of_five_nodes_do_not_slow_an_acquisition() {
    let round_trip = Duration::from_millis(3);
    for (one, fault) in FAULTS {
        for (other, other_fault) in FAULTS {
            let cluster = MemoryCluster::new(5);
            cluster.nodes.iter().for_each(|node| node.set_delay(round_trip));
            let locks = cluster.builder().connect().await.unwrap();
            let healthy = ten_times(&locks).await;
            fault(&cluster.nodes[0]);
            other_fault(&cluster.nodes[3]);
            let degraded = ten_times(&locks).await;
            assert_eq!(degraded, healthy, "one node: {one}, another: {other}");
        }
    }
}

// promise: minority-faults
#[tokio::test(start_paused = true)]
async fn two_of_five_nodes_that_do_not_come_up_delay_the_first_acquisition_by_a_second_at_most() {
    for (name, fault) in FAULTS {
        let cluster = MemoryCluster::new(5);
        cluster.builder().connect().await.unwrap();
        cluster.nodes[..2].iter().for_each(fault);
        let locks = cluster.manager();
        let started = Instant::now();
        let guard = locks.lock("r").acquire().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(started.elapsed() <= Duration::from_millis(1100), "{name}: {:?}", started.elapsed());
        assert!(guard.release().await.unwrap());
    }
}

// promise: minority-faults
#[tokio::test(start_paused = true)]
async fn contention_is_reported_at_the_speed_of_the_majority() {
    for (name, fault) in FAULTS {
        let cluster = MemoryCluster::new(5);
        let locks = cluster.builder().connect().await.unwrap();
        let _holder = locks.lock("r").acquire().await.unwrap();
        cluster.nodes[..2].iter().for_each(fault);
        let started = Instant::now();
        let error = locks.lock("r").try_acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Contended { .. }), "{name}: {error}");
        assert_eq!(started.elapsed(), Duration::ZERO, "{name}");
        assert!(error.retry_after().unwrap() <= TTL);
    }
}

// promise: lost-quorum
#[tokio::test(start_paused = true)]
async fn without_three_of_five_nodes_callers_get_no_quorum_within_the_node_timeout() {
    for (name, fault) in FAULTS.into_iter().filter(|(name, _)| *name != "slow") {
        let cluster = MemoryCluster::new(5);
        let locks = cluster.builder().ttl(TTL).connect().await.unwrap();
        cluster.nodes[1..4].iter().for_each(fault);
        let started = Instant::now();
        let error = locks.lock("r").try_acquire().await.unwrap_err();
        assert!(started.elapsed() <= NODE_TIMEOUT, "{name}: {:?}", started.elapsed());
        let LockError::NoQuorum { votes, .. } = &error else { panic!("{name}: {error}") };
        assert_eq!(votes.len(), 5);
        for (node, vote) in votes.iter().enumerate() {
            let failed = matches!(
                vote.vote,
                Vote::Failed(NodeError::TimedOut | NodeError::Unreachable { .. } | NodeError::ConnectionLost { .. })
            );
            assert_eq!(failed, (1..4).contains(&node), "{name}: {vote}");
        }
        assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
        cluster.nodes.iter().for_each(heal);
        eventually("no key remains", || cluster.lock_keys().is_empty()).await;
        eventually_async("a majority votes again", async || locks.health().await.quorum).await;
        assert!(locks.lock("r").try_acquire().await.is_ok(), "{name}");
    }
}

// promise: no-deadlock
#[tokio::test(start_paused = true)]
async fn locks_whose_replies_are_lost_are_released_or_expire() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(TTL).connect().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.drop_replies(true));
    let started = Instant::now();
    let error = locks.lock("r").try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    assert_eq!(started.elapsed(), NODE_TIMEOUT);
    assert_eq!(cluster.lock_keys(), Vec::<String>::new(), "the release was executed, although its reply was lost");

    // Now the nodes execute the acquire and go down before the release.
    cluster.nodes.iter().for_each(heal);
    eventually_async("a majority votes", async || locks.health().await.quorum).await;
    cluster.nodes.iter().for_each(|node| node.drop_replies(true));
    let acquiring = locks.lock("r").try_acquire();
    let outage = async {
        sleep(NODE_TIMEOUT / 2).await;
        assert_eq!(cluster.holding(), 5);
        cluster.nodes.iter().for_each(|node| node.set_down(true));
    };
    assert!(tokio::join!(acquiring, outage).0.is_err());
    let started = Instant::now();
    eventually("the keys have expired", || cluster.lock_keys().is_empty()).await;
    assert!(started.elapsed() <= TTL);
}

// promise: exclusion
#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_too_late_is_expired_and_released() {
    let cluster = MemoryCluster::new(5);
    let builder = cluster.builder().node_timeout(Duration::from_millis(200));
    let locks = builder.ttl(Duration::from_millis(100)).connect().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(99)));
    let error = locks.lock("r").wait(Duration::from_millis(300)).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Expired { .. }), "{error}");
    assert!(error.waited() >= Duration::from_millis(300), "it tried again while there was time: {:?}", error.waited());
    cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(30)));
    let error = locks.lock("r").min_validity(Duration::from_millis(80)).try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Expired { .. }), "{error}");
    assert!(locks.lock("r").min_validity(Duration::from_millis(60)).acquire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_recovers_votes_again() {
    for (name, fault) in FAULTS {
        let cluster = MemoryCluster::new(5);
        let locks = cluster.builder().connect().await.unwrap();
        fault(&cluster.nodes[0]);
        ten_times(&locks).await;
        sleep(Duration::from_secs(120)).await;
        heal(&cluster.nodes[0]);
        eventually_async(name, async || locks.health().await.nodes[0].admitted).await;
        // Now its vote is needed.
        cluster.nodes[1..3].iter().for_each(|node| node.set_down(true));
        assert!(locks.lock("r").acquire().await.is_ok(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn health_reports_every_node_and_the_quorum() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(7)));
    let health = locks.health().await;
    assert!(health.quorum);
    for node in &health.nodes {
        assert!(node.reachable && node.admitted && node.problem.is_none(), "{node:?}");
        assert_eq!(node.round_trip, Some(Duration::from_millis(7)));
    }
    cluster.nodes[0].set_down(true);
    cluster.nodes[1].set_delay(HANGS);
    let started = Instant::now();
    let health = locks.health().await;
    assert!(started.elapsed() <= Duration::from_secs(2), "{:?}", started.elapsed());
    assert!(health.quorum);
    assert!(matches!(health.nodes[0].problem, Some(NodeError::Unreachable { .. })), "{:?}", health.nodes[0]);
    assert_eq!(health.nodes[1].problem, Some(NodeError::TimedOut));
    assert!(health.nodes[..2].iter().all(|node| !node.reachable && !node.admitted && node.round_trip.is_none()));
    cluster.nodes[2].set_down(true);
    assert!(!locks.health().await.quorum);
}
