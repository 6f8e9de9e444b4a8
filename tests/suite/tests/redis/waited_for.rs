//! A master keeps a list of the locks that are waited for, so that the others cost what they cost where nobody waits.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockGuard, LockManager};
use lock_support::{RedisCluster, eventually_async, executed};
use tokio::task::JoinHandle;

const LIST: &str = "lock:{node}:queued";

async fn two(cluster: &RedisCluster) -> [LockManager; 2] {
    let connect = async || cluster.builder().wait(Duration::from_secs(60)).connect().await.unwrap();
    [connect().await, connect().await]
}

fn waits(locks: &LockManager, resource: &str) -> JoinHandle<LockGuard> {
    let acquiring = locks.lock(resource).acquire();
    tokio::spawn(async move { acquiring.await.unwrap() })
}

/// Waits until every master has this list.
async fn listed(cluster: &RedisCluster, list: Option<&str>) {
    let (get, expected) = (format!("GET {LIST}"), list.map(str::to_owned));
    eventually_async("the masters list what is waited for", async || {
        let lists = cluster.servers.iter().map(|server| server.query::<Option<String>>(&get));
        join_all(lists).await.iter().all(|list| *list == expected)
    })
    .await;
}

#[tokio::test]
async fn a_lock_is_listed_as_long_as_it_is_waited_for() {
    let cluster = RedisCluster::start(3).await;
    let [holder, waiter] = two(&cluster).await;
    let (r, s) = (holder.lock("r").acquire().await.unwrap(), holder.lock("s").acquire().await.unwrap());
    listed(&cluster, None).await;
    let r_waiting = waits(&waiter, "r");
    listed(&cluster, Some("\nlock:r\n")).await;
    let s_waiting = waits(&waiter, "s");
    listed(&cluster, Some("\nlock:r\nlock:s\n")).await;

    assert!(r.release().await.unwrap());
    assert!(r_waiting.await.unwrap().release().await.unwrap());
    listed(&cluster, Some("\nlock:s\n")).await;
    assert!(s.release().await.unwrap());
    assert!(s_waiting.await.unwrap().release().await.unwrap());
    listed(&cluster, None).await;
}

#[tokio::test]
async fn queues_are_read_for_a_lock_that_is_waited_for_and_for_no_other() {
    const CYCLES: u64 = 100;
    let cluster = RedisCluster::start(1).await;
    let [holder, waiter] = two(&cluster).await;
    let held = holder.lock("r").acquire().await.unwrap();
    let waiting = waits(&waiter, "r");
    listed(&cluster, Some("\nlock:r\n")).await;

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
    let (calls, more) = (after.0 - before.0, (after.1 - before.1) - (after.0 - before.0));
    assert!(calls >= 2 * CYCLES && more < CYCLES / 2, "{more} reads of queues in {calls} calls");
    drop(held);
    drop(waiting.await.unwrap());
}

#[tokio::test]
async fn more_locks_than_the_list_takes_can_be_waited_for() {
    let cluster = RedisCluster::start(3).await;
    let [holder, waiter] = two(&cluster).await;
    let names: Vec<_> = (0..60).map(|number| format!("{number:0>60}")).collect();
    let held = join_all(names.iter().map(|name| holder.lock(name).acquire())).await;
    let waiting: Vec<_> = names.iter().map(|name| waits(&waiter, name)).collect();
    listed(&cluster, Some("*")).await;
    drop(held);
    for guard in join_all(waiting).await {
        assert!(guard.unwrap().release().await.unwrap());
    }
    cluster.no_lock_is_left().await;
}
