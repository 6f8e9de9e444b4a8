//! What faults of real Redis servers cost: nothing while a majority is well, a quick typed error when it is not.

use std::time::Duration;

use lock_core::{LockError, LockManager, NodeError, Refusal, Vote};
use lock_support::{RedisCluster, RedisServer, alone, eventually_async, median};
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

async fn all_admitted(locks: &LockManager) {
    eventually_async("all nodes vote", async || locks.health().await.nodes.iter().all(|node| node.admitted)).await;
}

#[tokio::test]
async fn with_three_of_five_masters_dead_callers_get_no_quorum_in_the_node_timeout_and_no_lock() {
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

#[tokio::test]
async fn with_three_of_five_masters_hung_callers_get_no_quorum_in_the_node_timeout_and_no_lock() {
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
    all_admitted(&locks).await;
    drop(locks.lock("r").acquire().await.unwrap());
}

/// The best of several tries: a busy machine can only add to it.
async fn assert_no_quorum_in_time(locks: &LockManager) {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let started = Instant::now();
        let error = locks.lock("r").wait(Duration::from_secs(5)).acquire().await.unwrap_err();
        best = best.min(started.elapsed());
        let LockError::NoQuorum { votes, .. } = &error else { panic!("{error}") };
        let failed = votes.iter().filter(|vote| matches!(vote.vote, Vote::Failed(_))).count();
        assert!(failed >= 3, "{error}");
    }
    assert!(best <= NODE_TIMEOUT + Duration::from_millis(50), "{best:?}");
}

#[tokio::test]
async fn two_stopped_masters_add_next_to_nothing_to_an_acquisition() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let locks = cluster.builder().connect().await.unwrap();
    acquire_times(&locks, 50).await;
    // Taken in turns, so that the load of the machine is the same for both.
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
        all_admitted(&locks).await;
    }
    let (healthy, degraded) = (median(healthy), median(degraded));
    assert!(degraded < healthy + Duration::from_millis(5), "median {healthy:?} with all, {degraded:?} with three");
}

#[tokio::test]
async fn masters_that_restarted_with_their_data_or_without_vote_again_without_a_failed_call() {
    let mut cluster = RedisCluster::start(5).await;
    let locks = cluster.builder().ttl(Duration::from_secs(1)).max_ttl(Duration::from_secs(1)).connect().await.unwrap();
    let first = locks.lock("r").acquire().await.unwrap().token();

    for node in 0..4 {
        if node % 2 == 0 {
            cluster.servers[node].restart_empty().await;
        } else {
            cluster.servers[node].restart_with_data().await;
        }
        all_admitted(&locks).await;
    }
    cluster.servers[4].kill();
    cluster.servers[0].kill();
    // The three that are left have all been restarted, and all of them are needed.
    let guard = locks.lock("r").acquire().await.unwrap();
    assert!(guard.token() > first);
    assert!(guard.release().await.unwrap());
}

#[tokio::test]
async fn an_idle_connection_from_a_factory_is_replaced_when_its_master_restarts() {
    let mut server = RedisServer::start().await;
    let url = server.url();
    let connect = move || {
        let url = url.clone();
        async move { redis::Client::open(url)?.get_multiplexed_async_connection().await }
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
    all_admitted(&locks).await;
    eventually_async("locks can be had", async || locks.lock("r").acquire().await.is_ok()).await;
}

#[tokio::test]
async fn a_script_flush_on_all_masters_is_not_noticed() {
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
        assert_eq!(guard.check(), Ok(()), "renewed all the same, after {:?}", started.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
    drop(guard);
    cluster.no_lock_is_left().await;
}

#[tokio::test]
async fn a_master_that_becomes_a_replica_at_run_time_never_votes_again() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().connect().await.unwrap();
    let other = RedisServer::start().await;
    cluster.servers[0].query::<String>(&format!("REPLICAOF 127.0.0.1 {}", other.port())).await;
    let guard = locks.lock("r").acquire().await.unwrap();
    assert!(guard.release().await.unwrap());
    eventually_async("health tells that it is a replica", async || {
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
async fn masters_that_are_out_of_memory_or_can_not_write_are_not_noticed_while_they_are_few() {
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
