//! A node lists the locks that may have a queue, so that all others cost no more than where nobody waits.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockGuard, LockManager};
use lock_support::{RedisCluster, eventually_async, executed};
use tokio::task::JoinHandle;

/// The Redis key of the list.
const LIST: &str = "lock:{node}:queued";

async fn two_managers(cluster: &RedisCluster) -> [LockManager; 2] {
    let connect = async || cluster.builder().wait(Duration::from_secs(60)).connect().await.unwrap();
    [connect().await, connect().await]
}

fn spawn_waiter(locks: &LockManager, resource: &str) -> JoinHandle<LockGuard> {
    let acquiring = locks.lock(resource).acquire();
    tokio::spawn(async move { acquiring.await.unwrap() })
}

/// Waits until every server has this list.
async fn eventually_listed(cluster: &RedisCluster, list: Option<&str>) {
    let (get, expected) = (format!("GET {LIST}"), list.map(str::to_owned));
    eventually_async("every server has the expected list of queued locks", async || {
        let lists = cluster.servers.iter().map(|server| server.query::<Option<String>>(&get));
        join_all(lists).await.iter().all(|list| *list == expected)
    })
    .await;
}

#[tokio::test]
async fn a_lock_is_listed_while_it_has_a_waiter() {
    let cluster = RedisCluster::start(3).await;
    let [holder, waiter] = two_managers(&cluster).await;
    let (r, s) = (holder.lock("r").acquire().await.unwrap(), holder.lock("s").acquire().await.unwrap());
    eventually_listed(&cluster, None).await;
    let r_waiting = spawn_waiter(&waiter, "r");
    eventually_listed(&cluster, Some("\nlock:r\n")).await;
    let s_waiting = spawn_waiter(&waiter, "s");
    eventually_listed(&cluster, Some("\nlock:r\nlock:s\n")).await;

    assert!(r.release().await.unwrap());
    assert!(r_waiting.await.unwrap().release().await.unwrap());
    eventually_listed(&cluster, Some("\nlock:s\n")).await;
    assert!(s.release().await.unwrap());
    assert!(s_waiting.await.unwrap().release().await.unwrap());
    eventually_listed(&cluster, None).await;
}

#[tokio::test]
async fn queues_are_read_for_queued_locks_only() {
    const CYCLES: u64 = 100;
    let cluster = RedisCluster::start(1).await;
    let [holder, waiter] = two_managers(&cluster).await;
    let held = holder.lock("r").acquire().await.unwrap();
    let waiting = spawn_waiter(&waiter, "r");
    eventually_listed(&cluster, Some("\nlock:r\n")).await;

    let mut connection = cluster.servers[0].connect().await.unwrap();
    let mut reads = async || {
        let counts = executed(&mut connection).await.unwrap();
        (counts["evalsha"], counts["mget"])
    };
    let before = reads().await;
    for _ in 0..CYCLES {
        holder.lock("s").acquire().await.unwrap().release().await.unwrap();
    }
    let after = reads().await;
    let (calls, queue_reads) = (after.0 - before.0, (after.1 - before.1) - (after.0 - before.0));
    assert!(calls >= 2 * CYCLES && queue_reads < CYCLES / 2, "{queue_reads} reads of queues in {calls} calls");
    drop(held);
    drop(waiting.await.unwrap());
}

#[tokio::test]
async fn a_full_list_of_queued_locks_stands_for_all_locks() {
    let cluster = RedisCluster::start(3).await;
    let [holder, waiter] = two_managers(&cluster).await;
    let names: Vec<_> = (0..60).map(|number| format!("{number:0>60}")).collect();
    let held = join_all(names.iter().map(|name| holder.lock(name).acquire())).await;
    let waiting: Vec<_> = names.iter().map(|name| spawn_waiter(&waiter, name)).collect();
    eventually_listed(&cluster, Some("*")).await;
    drop(held);
    for guard in join_all(waiting).await {
        assert!(guard.unwrap().release().await.unwrap());
    }
    cluster.no_lock_is_left().await;
}
