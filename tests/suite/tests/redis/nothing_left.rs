//! What is left of a manager after its shutdown, or when it was dropped: no task, and no connection.

use std::thread;
use std::time::Duration;

use lock_core::{LockError, LockManager, LockManagerBuilder, NodeError};
use lock_support::{RedisCluster, RedisServer, eventually, eventually_async, on_one_thread};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

const GRACE: Duration = Duration::from_secs(10);

/// How many connections clients have with a server, without the one that asks.
async fn connections(server: &RedisServer) -> usize {
    let clients: String = server.query("CLIENT LIST").await;
    clients.lines().filter(|client| !client.contains(" cmd=client|list")).count()
}

async fn no_connection_is_left(servers: &[RedisServer]) {
    for server in servers {
        eventually_async("no connection is left", async || connections(server).await == 0).await;
    }
}

/// How many tasks the present runtime has, when those of the tests' own connections have ended.
async fn settled_tasks() -> usize {
    let metrics = Handle::current().metrics();
    let mut tasks = metrics.num_alive_tasks();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        tasks = tasks.min(metrics.num_alive_tasks());
    }
    tasks
}

async fn no_task_is_left_but(tasks: usize) {
    let metrics = Handle::current().metrics();
    eventually("no task is left", || metrics.num_alive_tasks() <= tasks).await;
}

fn with_factories(cluster: &RedisCluster) -> LockManagerBuilder {
    LockManager::builder().nodes(cluster.nodes_from_factories()).node_timeout(Duration::from_secs(1))
}

/// Waits for a lock that another manager holds, so that the connections are used for votes and for wake-ups.
async fn use_thoroughly(locks: &LockManager, cluster: &RedisCluster) {
    let other = cluster.builder().connect().await.unwrap();
    let held = other.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("r").wait(GRACE).acquire());
    eventually_async("a waiter has subscribed", async || {
        let clients: String = cluster.servers[0].query("CLIENT LIST").await;
        clients.contains(" sub=1 ")
    })
    .await;
    assert!(held.release().await.unwrap());
    assert!(waiting.await.unwrap().unwrap().release().await.unwrap());
    other.shutdown(GRACE).await;
}

// promise: no-leaks
#[tokio::test]
async fn a_shutdown_leaves_no_task_and_no_connection() {
    let cluster = RedisCluster::start(3).await;
    let before = settled_tasks().await;
    for builder in [cluster.builder(), with_factories(&cluster)] {
        let locks = builder.connect().await.unwrap();
        use_thoroughly(&locks, &cluster).await;
        locks.shutdown(GRACE).await;
        no_task_is_left_but(before).await;
        no_connection_is_left(&cluster.servers).await;
    }
}

// promise: no-leaks
#[tokio::test]
async fn a_shutdown_has_ended_the_tasks_when_it_returns() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().connect_lazy().unwrap();
    let before = settled_tasks().await;
    drop(locks.lock("r").acquire().await.unwrap());
    locks.shutdown(GRACE).await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
}

// promise: no-leaks
#[tokio::test]
async fn a_shutdown_ends_the_search_for_nodes_that_are_gone() {
    let mut cluster = RedisCluster::start(3).await;
    let before = settled_tasks().await;
    for builder in [cluster.builder(), with_factories(&cluster)] {
        let locks = builder.connect().await.unwrap();
        assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
        // One hangs, and two are gone.
        cluster.servers[2].stop();
        cluster.servers[..2].iter_mut().for_each(RedisServer::kill);
        eventually_async("the quorum is lost", async || !locks.health().await.quorum).await;
        locks.shutdown(GRACE).await;
        no_task_is_left_but(before).await;
        cluster.servers[2].cont();
        for server in &mut cluster.servers {
            server.restart_empty().await;
        }
        // Longer than any pause between two attempts to connect.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        no_connection_is_left(&cluster.servers).await;
    }
}

// promise: no-leaks
#[test]
fn a_shutdown_leaves_nothing_on_any_runtime_where_the_manager_was_used() {
    let (main, other) = (on_one_thread(), on_one_thread());
    let cluster = main.block_on(RedisCluster::start(3));
    let locks = cluster.builder().connect_lazy().unwrap();
    let before = main.block_on(settled_tasks());
    let (stop, stopped) = oneshot::channel::<()>();
    let (used, is_used) = oneshot::channel();
    let elsewhere = thread::spawn({
        let locks = locks.clone();
        move || {
            other.block_on(async {
                drop(locks.lock("r").acquire().await.unwrap());
                used.send(()).unwrap();
                stopped.await.unwrap();
                no_task_is_left_but(0).await;
            });
        }
    });
    main.block_on(async {
        is_used.await.unwrap();
        drop(locks.lock("r").acquire().await.unwrap());
        locks.shutdown(GRACE).await;
        stop.send(()).unwrap();
        no_task_is_left_but(before).await;
        no_connection_is_left(&cluster.servers).await;
    });
    elsewhere.join().unwrap();
}

// promise: no-leaks
#[tokio::test]
async fn what_is_left_of_a_manager_after_its_shutdown_answers_and_opens_nothing() {
    let cluster = RedisCluster::start(3).await;
    for locks in [cluster.builder().connect().await.unwrap(), cluster.builder().connect_lazy().unwrap()] {
        let guard = locks.lock("r").acquire().await.unwrap();
        locks.shutdown(Duration::ZERO).await;
        assert!(!guard.is_valid() && !guard.release().await.unwrap());
        let received = || async {
            let stats: String = cluster.servers[0].query("INFO stats").await;
            let count = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
            count.unwrap().parse::<u64>().unwrap()
        };
        let (before, tasks) = (received().await, settled_tasks().await);
        let health = locks.health().await;
        assert!(!health.quorum && health.nodes.len() == 3);
        for node in health.nodes {
            assert!(!node.reachable && !node.admitted && node.round_trip.is_none(), "{node:?}");
            let Some(NodeError::Unreachable { reason }) = &node.problem else { panic!("{node:?}") };
            assert!(reason.contains("shut down"), "{reason}");
        }
        assert_eq!(locks.members().await, None);
        locks.lower_max_ttl(Duration::from_secs(60)).await.unwrap();
        assert!(locks.held().is_empty());
        for wait in [Duration::ZERO, GRACE] {
            let refused = locks.lock("r").wait(wait).acquire().await;
            assert!(matches!(refused, Err(LockError::ShuttingDown { .. })));
        }
        assert_eq!(locks.shutdown(GRACE).await.released, 0);
        assert_eq!(received().await, before + 1, "but for the connection that asks");
        no_task_is_left_but(tasks).await;
    }
}

// promise: no-leaks
#[tokio::test]
async fn a_manager_that_is_dropped_leaves_nothing_when_its_leases_have_ended() {
    let cluster = RedisCluster::start(3).await;
    let before = settled_tasks().await;
    for builder in [cluster.builder(), with_factories(&cluster)] {
        let locks = builder.connect().await.unwrap();
        use_thoroughly(&locks, &cluster).await;
        let guard = locks.lock("r").ttl(Duration::from_millis(200)).acquire().await.unwrap();
        drop(locks);
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(guard.is_valid(), "it is still renewed");
        drop(guard);
        no_task_is_left_but(before).await;
        no_connection_is_left(&cluster.servers).await;
        cluster.no_lock_is_left().await;
    }
}
