//! Faults of real Redis servers: invisible while a majority is healthy, a quick typed error otherwise.

use std::time::Duration;

use lock_core::masters::Refusal;
use lock_core::redis::AsyncConnectionConfig;
use lock_core::{LockError, LockManager, NodeError, Vote};
use lock_support::{RedisCluster, RedisServer, all_nodes_vote, alone, eventually_async, median};
use tokio::time::{Instant, sleep};

const NODE_TIMEOUT: Duration = Duration::from_millis(100);

async fn acquire_times(locks: &LockManager, count: usize) -> Vec<Duration> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        let guard = locks.lock("r").acquire().await.unwrap();
        times.push(started.elapsed());
        assert!(guard.release().await.unwrap());
    }
    times
}

#[tokio::test]
async fn with_three_of_five_servers_dead_callers_get_no_quorum_within_the_node_timeout() {
    let _alone = alone().await;
    let mut cluster = RedisCluster::start(5).await;
    let locks = cluster.builder().node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    for server in &mut cluster.servers[..3] {
        server.kill();
    }
    assert_no_quorum_in_time(&locks).await;
    cluster.servers.drain(..3);
    cluster.no_lock_is_left().await;
}

// promise: lost-quorum
#[tokio::test]
async fn with_three_of_five_servers_hung_callers_get_no_quorum_within_the_node_timeout() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let locks = cluster.builder().ttl(Duration::from_secs(2)).node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    for server in &cluster.servers[..3] {
        server.stop();
    }
    assert_no_quorum_in_time(&locks).await;
    for server in &cluster.servers[..3] {
        server.cont();
    }
    cluster.no_lock_is_left().await;
    all_nodes_vote(&locks).await;
    drop(locks.lock("r").acquire().await.unwrap());
}

/// Takes the shortest of several attempts, because a busy machine only adds to the time.
async fn assert_no_quorum_in_time(locks: &LockManager) {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let started = Instant::now();
        let error = locks.lock("r").try_acquire().await.unwrap_err();
        best = best.min(started.elapsed());
        let LockError::NoQuorum { votes, .. } = &error else { panic!("{error}") };
        let failed = votes.iter().filter(|vote| matches!(vote.vote, Vote::Failed(_))).count();
        assert!(failed >= 3, "{error}");
    }
    assert!(best <= NODE_TIMEOUT + Duration::from_millis(50), "{best:?}");
}

// promise: minority-faults
#[tokio::test]
async fn two_hung_servers_of_five_barely_slow_an_acquisition() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let locks = cluster.builder().connect().await.unwrap();
    acquire_times(&locks, 50).await;
    // In alternation, so that both see the same load of the machine.
    let (mut healthy, mut degraded) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        healthy.extend(acquire_times(&locks, 100).await);
        for server in &cluster.servers[..2] {
            server.stop();
        }
        degraded.extend(acquire_times(&locks, 100).await);
        for server in &cluster.servers[..2] {
            server.cont();
        }
        all_nodes_vote(&locks).await;
    }
    let (healthy, degraded) = (median(healthy), median(degraded));
    assert!(
        degraded < healthy + Duration::from_millis(5),
        "median {healthy:?} with all servers, {degraded:?} with three"
    );
}

#[tokio::test]
async fn servers_that_restart_with_or_without_their_data_vote_again() {
    let mut cluster = RedisCluster::start(5).await;
    let locks = cluster.builder().ttl(Duration::from_secs(1)).max_ttl(Duration::from_secs(1)).connect().await.unwrap();
    let first = locks.lock("r").acquire().await.unwrap().token();

    for node in 0..4 {
        if node % 2 == 0 {
            cluster.servers[node].restart_empty().await;
        } else {
            cluster.servers[node].restart_with_data().await;
        }
        all_nodes_vote(&locks).await;
    }
    cluster.servers[4].kill();
    cluster.servers[0].kill();
    // The three servers that are left have all restarted, and the votes of all three are needed.
    let guard = locks.lock("r").acquire().await.unwrap();
    assert!(guard.token() > first);
    assert!(guard.release().await.unwrap());
}

#[tokio::test]
async fn an_idle_connection_from_a_factory_is_replaced_when_its_server_restarts() {
    let mut server = RedisServer::start().await;
    let url = server.url();
    let connect = move |config: AsyncConnectionConfig| {
        let url = format!("{url}?protocol=resp3");
        async move { redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await }
    };
    let locks = LockManager::builder()
        .redis_factory("the server", connect)
        .ttl(Duration::from_millis(500))
        .max_ttl(Duration::from_millis(500))
        .node_timeout(Duration::from_millis(400))
        .connect()
        .await
        .unwrap();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    server.restart_empty().await;
    all_nodes_vote(&locks).await;
    eventually_async("the lock is acquired", async || locks.lock("r").acquire().await.is_ok()).await;
}

// promise: minority-faults
#[tokio::test]
async fn a_script_flush_on_all_servers_is_invisible() {
    let cluster = RedisCluster::start(5).await;
    let locks = cluster.builder().connect().await.unwrap();
    let flush = async || {
        for server in &cluster.servers {
            server.query::<String>("SCRIPT FLUSH").await;
        }
    };
    let mut last = None;
    for _ in 0..5 {
        flush().await;
        let guard = locks.lock("r").acquire().await.unwrap();
        assert!(Some(guard.token()) > last);
        last = Some(guard.token());
        flush().await;
        assert!(guard.release().await.unwrap());
    }
    flush().await;
    let ttl = Duration::from_secs(3);
    let guard = locks.lock("r").ttl(ttl).acquire().await.unwrap();
    let started = Instant::now();
    while started.elapsed() < ttl + ttl / 4 {
        flush().await;
        assert_eq!(guard.check(), Ok(()), "lost after {:?}", started.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
    drop(guard);
    cluster.no_lock_is_left().await;
}

#[tokio::test]
async fn a_server_that_becomes_a_replica_no_longer_votes() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().connect().await.unwrap();
    let other = RedisServer::start().await;
    cluster.servers[0].query::<String>(&format!("REPLICAOF 127.0.0.1 {}", other.port())).await;
    let guard = locks.lock("r").acquire().await.unwrap();
    assert!(guard.release().await.unwrap());
    eventually_async("health reports that the server is a replica", async || {
        let health = locks.health().await;
        drop(locks.lock("r").acquire().await.unwrap());
        health.quorum && health.nodes[0].problem == Some(NodeError::Refused(Refusal::Replica))
    })
    .await;
    cluster.servers[1].stop();
    let error = locks.lock("r").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    assert_eq!(error.votes()[0].vote, Vote::Failed(NodeError::Refused(Refusal::Replica)));
    cluster.servers[1].cont();
}

#[tokio::test]
async fn a_minority_that_cannot_write_is_invisible() {
    let cluster = RedisCluster::start(5).await;
    let locks = cluster.builder().connect().await.unwrap();
    cluster.servers[0].query::<String>("CONFIG SET maxmemory 1").await;
    cluster.servers[1].query::<String>("CONFIG SET min-replicas-to-write 1").await;
    let first = locks.lock("r").acquire().await.unwrap();
    let token = first.token();
    assert!(first.release().await.unwrap());
    let second = locks.lock("r").acquire().await.unwrap();
    assert!(second.token() > token);
    assert!(second.release().await.unwrap());

    cluster.servers[2].query::<String>("CONFIG SET maxmemory 1").await;
    let error = locks.lock("r").acquire().await.unwrap_err();
    let LockError::NoQuorum { votes, .. } = &error else { panic!("{error}") };
    let code = |node: usize| match &votes[node].vote {
        Vote::Failed(NodeError::Rejected { code, .. }) => code.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!([code(0), code(1), code(2)], ["OOM", "NOREPLICAS", "OOM"]);
    cluster.no_lock_is_left().await;
}
