//! A node knows which locks may have a queue, so that all others cost no more than where nobody waits.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::node::{Keyspace, LockKeys};
use lock_core::{LockGuard, LockManager};
use lock_support::{RedisCluster, eventually_async, executed};
use tokio::task::JoinHandle;
use tokio::time::timeout;

async fn two_managers(cluster: &RedisCluster) -> [LockManager; 2] {
    let connect = async || cluster.builder().wait(Duration::from_secs(60)).connect().await.unwrap();
    [connect().await, connect().await]
}

fn spawn_waiter(locks: &LockManager, resource: &str) -> JoinHandle<LockGuard> {
    let acquiring = locks.lock(resource).acquire();
    tokio::spawn(async move { acquiring.await.unwrap() })
}

/// The field of the record that says until when a lock may have a queue.
fn field_of(resource: &str) -> String {
    let keys = LockKeys::new(&Keyspace::new("lock:").into(), resource);
    format!("q{}", keys.fence())
}

/// Waits until this many processes wait for a lock on every server.
async fn eventually_waiting(cluster: &RedisCluster, resource: &str, count: usize) {
    let card = format!("ZCARD lock:{{{resource}}}:queue");
    eventually_async("every server has the waiters in its queue", async || {
        let counts = cluster.servers.iter().map(|server| server.query::<usize>(&card));
        join_all(counts).await.iter().all(|queued| *queued == count)
    })
    .await;
}

#[tokio::test]
async fn a_lock_has_a_queue_while_it_has_a_waiter() {
    let cluster = RedisCluster::start(3).await;
    let [holder, waiter] = two_managers(&cluster).await;
    let held = holder.lock("r").acquire().await.unwrap();
    eventually_waiting(&cluster, "r", 0).await;
    let marks = format!("HEXISTS lock:{{node}} {}", field_of("r"));
    assert!(!cluster.servers[0].query::<bool>(&marks).await);
    let waiting = spawn_waiter(&waiter, "r");
    eventually_waiting(&cluster, "r", 1).await;
    assert!(cluster.servers[0].query::<bool>(&marks).await);
    assert!(held.release().await.unwrap());
    assert!(waiting.await.unwrap().release().await.unwrap());
    eventually_waiting(&cluster, "r", 0).await;
}

// promise: turns
#[tokio::test]
async fn contended_locks_with_long_names_cost_other_locks_nothing() {
    const CYCLES: u64 = 100;
    let cluster = RedisCluster::start(1).await;
    let [holder, waiter] = two_managers(&cluster).await;
    let names: Vec<_> = (0..50).map(|number| format!("{number:0>500}")).collect();
    let held = join_all(names.iter().map(|name| holder.lock(name).acquire())).await;
    let waiting: Vec<_> = names.iter().map(|name| spawn_waiter(&waiter, name)).collect();
    for name in &names {
        eventually_waiting(&cluster, name, 1).await;
    }

    let mut connection = cluster.servers[0].connect().await.unwrap();
    // What the waiters do meanwhile is not more than a call each.
    let mut commands = async || {
        let counts = executed(&mut connection).await.unwrap();
        let ours = ["evalsha", "mget", "hmget", "get", "zrange", "zcard"];
        ours.map(|command| counts.get(command).copied().unwrap_or_default())
    };
    let before = commands().await;
    for _ in 0..CYCLES {
        holder.lock("s").acquire().await.unwrap().release().await.unwrap();
    }
    let after = commands().await;
    let [calls, _, _, reads, ranges, counts] = std::array::from_fn(|n| after[n] - before[n]);
    let of_waiters = calls - 2 * CYCLES;
    assert!(calls >= 2 * CYCLES, "{calls}");
    assert!(reads <= of_waiters * 2 && ranges <= of_waiters && counts <= of_waiters * 3, "{before:?} {after:?}");
    drop(held);
    for guard in join_all(waiting).await {
        assert!(guard.unwrap().release().await.unwrap());
    }
    cluster.no_lock_is_left().await;
}

#[tokio::test]
async fn a_waiter_is_woken_by_a_holder_of_its_process_that_did_not_wait() {
    let cluster = RedisCluster::start(3).await;
    let [locks, _] = two_managers(&cluster).await;
    let held = locks.lock("r").try_acquire().await.unwrap();
    let waiting = spawn_waiter(&locks, "r");
    eventually_waiting(&cluster, "r", 1).await;
    drop(held);
    // Without a wake-up it would try again after most of a second.
    let acquired = timeout(Duration::from_millis(400), waiting).await.expect("woken").unwrap();
    acquired.release().await.unwrap();
}
