//! Votes that wait for replicas.

use std::time::Duration;

use lock_core::masters::InvalidReplication;
use lock_core::{ConfigError, ConnectError, LockError, LockManager, MemoryNode, NodeError, Vote};
use lock_support::{Proxy, RedisServer, eventually_async};

const TTL: Duration = Duration::from_secs(1);
/// The longest that is allowed, because replicas may be slow on a busy machine.
const TIMEOUT: Duration = Duration::from_millis(250);

/// What each master voted.
fn failures(error: &LockError) -> Vec<&NodeError> {
    let failures = error.votes().iter().filter_map(|vote| match &vote.vote {
        Vote::Failed(error) => Some(error),
        _ => None,
    });
    failures.collect()
}

/// A manager whose votes wait for a replica.
async fn connect(master: &RedisServer) -> LockManager {
    let builder = LockManager::builder().redis([master.url()]).replicated(1, TIMEOUT);
    builder.ttl(TTL).node_timeout(TTL / 2).connect().await.unwrap()
}

// promise: replicas
#[tokio::test]
async fn a_vote_that_no_replica_acknowledged_does_not_count_and_leaves_nothing_behind() {
    let master = RedisServer::start().await;
    let replica = master.start_replica().await;
    let locks = connect(&master).await;
    let guard = locks.lock("r").acquire().await.unwrap();
    assert_eq!(replica.keys("lock:r").await, ["lock:r"], "the replica has it when it is granted");
    assert!(guard.release().await.unwrap());

    replica.stop();
    let error = locks.lock("r").try_acquire().await.unwrap_err();
    let [NodeError::NotReplicated { detail }] = failures(&error)[..] else { panic!("{error}") };
    assert_eq!(detail, "0 of 1 replicas acknowledged it within 250ms");
    eventually_async("what was set is released", async || master.keys("lock:r").await.is_empty()).await;
    let health = locks.health().await;
    assert!(!health.quorum && matches!(health.nodes[0].problem, Some(NodeError::NotReplicated { .. })), "{health:?}");

    replica.cont();
    eventually_async("a lock is granted again", async || locks.lock("r").try_acquire().await.is_ok()).await;
}

#[tokio::test]
async fn connect_waits_for_a_replica_that_is_not_synchronized_yet() {
    let master = RedisServer::start().await;
    let builder = || LockManager::builder().redis([master.url()]).replicated(1, TIMEOUT).ttl(TTL).node_timeout(TTL / 2);
    let error = builder().connect_timeout(TTL).connect().await.unwrap_err();
    // A busy machine may not answer in time, which is another reason.
    assert!(matches!(error, ConnectError::NoQuorum { reachable: 0, .. }), "{error}");
    // Nor is its replica synchronized soon.
    let patient = builder().connect_timeout(Duration::from_secs(30));
    let (connected, _replica) = tokio::join!(patient.connect(), async {
        tokio::time::sleep(TIMEOUT * 2).await;
        master.start_replica().await
    });
    assert!(connected.unwrap().lock("r").acquire().await.is_ok());
}

// promise: replicas
#[tokio::test]
async fn a_master_that_is_cut_off_from_its_replica_renews_nothing() {
    let master = RedisServer::start().await;
    let replication = Proxy::open(master.address()).await;
    let replica = master.start_standby(&replication, &[]).await;
    let locks = connect(&master).await;
    let guard = locks.lock("r").acquire().await.unwrap();
    tokio::time::sleep(TTL).await;
    assert!(guard.is_valid(), "it is renewed");
    replication.hold();
    tokio::time::timeout(TTL * 2, guard.lost()).await.expect("the lease ends");
    drop(guard);
    eventually_async("the key is gone", async || master.keys("lock:r").await.is_empty()).await;
    // The replica may grant the lock after its quarantine. Here it is not granted.
    replica.promote().await;
    let error = locks.lock("r").try_acquire().await.unwrap_err();
    assert!(matches!(failures(&error)[..], [NodeError::NotReplicated { .. }]), "{error}");
}

// promise: replicas
#[tokio::test]
async fn a_minority_without_its_replicas_keeps_nobody_from_a_lock() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        let master = RedisServer::start().await;
        let replica = master.start_replica().await;
        servers.push((master, replica));
    }
    let urls = servers.iter().map(|(master, _)| master.url());
    let builder = LockManager::builder().redis(urls).replicated(1, TIMEOUT).ttl(TTL).node_timeout(TTL / 2);
    let locks = builder.connect().await.unwrap();
    servers[0].1.stop();
    for _ in 0..5 {
        let guard = locks.lock("r").try_acquire().await.unwrap();
        assert!(guard.release().await.unwrap());
    }
    eventually_async("nothing is left", async || servers[0].0.keys("lock:r").await.is_empty()).await;
}

// promise: replicas
#[test]
fn replicas_and_their_time_have_a_range_and_other_nodes_have_none() {
    let of = |replicas, timeout| LockManager::builder().redis(["redis://a"]).replicated(replicas, timeout);
    for replicas in [0, 17] {
        let error = of(replicas, TIMEOUT).connect_lazy().unwrap_err();
        let ConfigError::InvalidReplication(InvalidReplication::Replicas(refused)) = &error else { panic!("{error}") };
        assert_eq!((refused.value, refused.most), (replicas, 16));
        assert!(error.to_string().contains("between 1 and 16, got"), "{error}");
    }
    for timeout in [Duration::ZERO, Duration::from_millis(251)] {
        let error = of(1, timeout).connect_lazy().unwrap_err();
        assert!(error.to_string().contains("between 1ms and 250ms, got"), "{error}");
    }
    // The order of the settings does not matter.
    let before = LockManager::builder().replicated(0, TIMEOUT).redis(["redis://a"]);
    assert!(matches!(before.connect_lazy(), Err(ConfigError::InvalidReplication(_))));
    let other = LockManager::builder().nodes([MemoryNode::new()]).replicated(1, TIMEOUT).connect_lazy().unwrap_err();
    let text = other.to_string();
    assert!(
        text.starts_with("replicated cannot be used for memory-") && text.contains("method of RedisNode"),
        "{text}"
    );
}
