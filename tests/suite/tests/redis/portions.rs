//! How many requests travel together.

use std::time::{Duration, Instant};

use lock_core::LockManager;
use lock_support::{RedisCluster, all_nodes_vote, alone};
use tokio::task::{JoinSet, yield_now};

const CYCLES: u64 = 200;

/// How many requests a call of the script carries to the first server, while this many tasks lock and unlock; and how long a call takes.
async fn requests_a_call(cluster: &RedisCluster, locks: &LockManager, tasks: u64) -> (f64, Duration) {
    let (before, began) = (cluster.servers[0].script_calls().await, Instant::now());
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let locks = locks.clone();
        running.spawn(async move {
            for _ in 0..CYCLES {
                let guard = locks.lock(format!("{task}")).acquire().await.unwrap();
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    let took = began.elapsed();
    let calls = cluster.servers[0].script_calls().await - before;
    ((2 * tasks * CYCLES) as f64 / calls as f64, took / u32::try_from(calls).unwrap())
}

#[tokio::test]
async fn the_requests_of_many_tasks_to_an_only_master_travel_in_portions() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(1).await;
    let locks = cluster.builder().ttl(Duration::from_secs(60)).connect().await.unwrap();
    all_nodes_vote(&locks).await;
    // All together, they would be as many as the tasks.
    for (tasks, portion) in [(8, 4.0), (16, 8.0), (64, 12.0)] {
        let (requests, call) = requests_a_call(&cluster, &locks, tasks).await;
        let in_portions = (portion / 2.0..portion * 1.5).contains(&requests);
        // Replies that come later than half a millisecond are distributed at once, as of a server that is busy: so that of 64 requests
        // is on a slow machine, and then they travel together again.
        let is_late = tasks == 64 && call > Duration::from_micros(300);
        println!("{tasks} tasks: {requests} requests a call, which takes {call:?}");
        assert!(in_portions || is_late, "{tasks} tasks: {requests} requests a call, which takes {call:?}");
    }
}

#[tokio::test]
async fn replies_that_came_while_the_thread_was_blocked_reach_all_callers_in_time() {
    let _alone = alone().await;
    let cluster = RedisCluster::start(1).await;
    let node_timeout = Duration::from_millis(50);
    let locks = cluster.builder().node_timeout(node_timeout).connect().await.unwrap();
    all_nodes_vote(&locks).await;
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let locks = locks.clone();
        callers.spawn(async move { locks.lock(format!("{caller}")).try_acquire().await.map(drop) });
    }
    // The requests are written, and the replies come while nobody can read them.
    for _ in 0..10 {
        yield_now().await;
    }
    std::thread::sleep(node_timeout * 2);
    while let Some(acquired) = callers.join_next().await {
        acquired.unwrap().unwrap();
    }
}
