//! Bursts of callers on real Redis servers, and servers that are gone: for a moment, and for longer.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockManager, Vote};
use lock_support::{RedisCluster, RedisServer, all_nodes_vote, alone, eventually_async};
use tokio::time::{Instant, sleep};

const NODE_TIMEOUT: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

/// With the default node timeout.
async fn connect(cluster: &RedisCluster) -> LockManager {
    LockManager::builder().redis(cluster.servers.iter().map(RedisServer::url)).connect().await.unwrap()
}

// promise: overload
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_callers_at_once_are_all_granted() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let locks = connect(&cluster).await;
    let burst: Vec<_> = (0..20_000)
        .map(|number| {
            let request = locks.lock(format!("r{number}")).wait(Duration::from_secs(20));
            // Dropped as soon as it is granted: the releases come in between.
            tokio::spawn(async move { request.acquire().await.map(drop) })
        })
        .collect();
    for acquired in join_all(burst).await {
        assert_eq!(acquired.unwrap(), Ok(()));
    }
    cluster.no_lock_is_left().await;
}

// promise: lost-quorum
#[tokio::test]
async fn an_acquire_just_after_all_connections_were_killed_is_granted() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let locks = connect(&cluster).await;
    for round in 0..10 {
        all_nodes_vote(&locks).await;
        let killing = cluster.servers.iter().map(|server| server.query::<i64>("CLIENT KILL TYPE normal"));
        let killed = join_all(killing).await;
        assert!(killed.iter().all(|count| *count > 0), "{killed:?}");
        let started = Instant::now();
        let guard = locks.lock("r").wait(2 * SECOND).acquire().await;
        let guard = guard.unwrap_or_else(|error| panic!("round {round}, after {:?}: {error}", started.elapsed()));
        assert!(guard.is_valid());
    }
}

// promise: lost-quorum
#[tokio::test]
async fn servers_that_are_stopped_for_a_moment_fail_no_acquire() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let locks = cluster.builder().node_timeout(NODE_TIMEOUT).wait(5 * SECOND).connect().await.unwrap();
    cluster.servers.iter().for_each(RedisServer::stop);
    let acquiring = join_all((0..100).map(|number| locks.lock(format!("r{number}")).acquire()));
    let resuming = async {
        sleep(Duration::from_millis(300)).await;
        cluster.servers.iter().for_each(RedisServer::cont);
    };
    let (acquired, ()) = tokio::join!(acquiring, resuming);
    for acquired in acquired {
        assert!(acquired.unwrap().is_valid());
    }
}

// promise: lost-quorum
#[tokio::test]
async fn an_outage_is_answered_at_once_after_a_second_until_the_servers_return() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(5).await;
    let locks = cluster.builder().node_timeout(NODE_TIMEOUT).wait(20 * SECOND).connect().await.unwrap();
    cluster.servers[..3].iter().for_each(RedisServer::stop);
    let first = no_quorum(&locks).await;
    assert!(first >= SECOND, "{first:?}");
    // Longer than it takes until the connections are given up.
    let stopped = Instant::now();
    let mut times = Vec::new();
    while stopped.elapsed() < 3 * SECOND {
        times.extend(join_all((0..50).map(|_| no_quorum(&locks))).await);
    }
    // A busy machine adds to the time: so half of them.
    times.sort_unstable();
    assert!(times[times.len() / 2] <= NODE_TIMEOUT + Duration::from_millis(50), "{:?}", times[times.len() / 2]);
    cluster.servers[..3].iter().for_each(RedisServer::cont);
    eventually_async("callers get locks", async || locks.lock("r").acquire().await.is_ok()).await;
}

/// How long it takes until a caller that would wait for long gets `NoQuorum`.
async fn no_quorum(locks: &LockManager) -> Duration {
    let started = Instant::now();
    let error = locks.lock("r").acquire().await.unwrap_err();
    let LockError::NoQuorum { votes, .. } = &error else { panic!("{error}") };
    assert!(votes.iter().filter(|vote| matches!(vote.vote, Vote::Failed(_))).count() >= 3, "{error}");
    started.elapsed()
}
