//! Futures are dropped at every await point of acquire, run, release and shutdown: no key is left, and the lock can be
//! acquired again.

#![allow(clippy::async_yields_async, reason = "the future that is returned is the one to drop")]

use std::time::Duration;

use lock_core::node::{Operation, QueuePosition};
use lock_core::{LockError, LockGuard, LockManager};
use lock_support::{MemoryCluster, Polled, Recorder, RedisCluster, eventually, eventually_async, poll_times};
use tokio::time::{Instant, sleep, timeout};

/// More polls than any of the futures needs.
const MAX_POLLS: usize = 200;

const TTL: Duration = Duration::from_secs(10);

/// The nodes that a case runs on.
enum Cluster {
    Memory(MemoryCluster),
    /// The fences of the nodes differ, so that an acquisition takes two rounds.
    Skewed(MemoryCluster),
    Redis(RedisCluster),
}

impl Cluster {
    fn memory() -> Self {
        Self::Memory(staggered_nodes())
    }

    fn skewed() -> Self {
        Self::Skewed(staggered_nodes())
    }

    fn manager(&self) -> LockManager {
        let builder = match self {
            Self::Memory(cluster) | Self::Skewed(cluster) => cluster.builder(),
            Self::Redis(cluster) => cluster.builder(),
        };
        builder.ttl(TTL).connect_lazy().unwrap()
    }

    async fn no_key_is_left(&self, case: &str) {
        match self {
            Self::Memory(cluster) | Self::Skewed(cluster) => eventually(case, || cluster.lock_keys().is_empty()).await,
            Self::Redis(cluster) => {
                eventually_async(case, async || cluster.keys("lock:[^{]*").await.is_empty()).await;
            }
        }
    }

    /// Drops `future` after 0, 1, 2, ... polls, until it completes first.
    async fn drop_everywhere<T, F: Future<Output = T>>(
        &self,
        name: &str,
        mut future: impl AsyncFnMut(LockManager) -> F,
    ) {
        for polls in 0..MAX_POLLS {
            let case = format!("{name} dropped after {polls} polls leaves no key");
            let locks = self.manager();
            if polls % 2 == 0 {
                // Every other case begins with open connections.
                locks.health().await;
            }
            if let Self::Skewed(cluster) = self {
                assert!(locks.lock("other").acquire().await.unwrap().release().await.unwrap());
                let far = (1 << 52) + 10 * polls as u64;
                cluster.set_fences("r", &[far, far + 1, far + 2, far + 3, far + 4]).await;
            }
            let started = Instant::now();
            let left = poll_times(polls, future(locks.clone()).await).await;
            let done = matches!(left, Polled::Done(_));
            drop(left);
            self.no_key_is_left(&case).await;
            assert!(started.elapsed() < TTL / 2, "{case}: the key may have expired");
            let guard = locks.lock("r").try_acquire().await.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert!(guard.release().await.unwrap(), "{case}");
            let report = locks.shutdown(Duration::ZERO).await;
            assert_eq!(report.revoked, 0, "{case}");
            if done && polls > 2 {
                return;
            }
        }
        panic!("{name} did not complete within {MAX_POLLS} polls");
    }

    async fn acquire(&self) {
        self.drop_everywhere("acquire", async |locks| locks.lock("r").acquire()).await;
    }

    async fn wait(&self) {
        self.drop_everywhere("waiting", async |locks| {
            let holder = locks.lock("r").acquire().await.unwrap();
            async move {
                let waiting = locks.lock("r").wait(Duration::from_secs(1)).acquire();
                let release = async {
                    sleep(Duration::from_millis(20)).await;
                    assert!(holder.release().await.unwrap());
                };
                tokio::join!(waiting, release).0.unwrap()
            }
        })
        .await;
    }

    async fn set(&self) {
        self.drop_everywhere("a set", async |locks| locks.lock_all(["s", "r", "q"]).acquire()).await;
    }

    async fn waiting_set(&self) {
        self.drop_everywhere("a set that waits", async |locks| {
            let holder = self.manager().lock("r").acquire().await.unwrap();
            async move {
                let waiting = locks.lock_all(["s", "r", "q", "t"]).wait(Duration::from_secs(1)).acquire();
                let release = async {
                    sleep(Duration::from_millis(20)).await;
                    assert!(holder.release().await.unwrap());
                };
                tokio::join!(waiting, release).0.unwrap()
            }
        })
        .await;
    }

    async fn run(&self) {
        self.drop_everywhere("run", async |locks| async move {
            locks.lock("r").run(async |_| tokio::task::yield_now().await).await.unwrap();
        })
        .await;
    }

    async fn release(&self) {
        self.drop_everywhere("release", async |locks| {
            let guard: LockGuard = locks.lock("r").acquire().await.unwrap();
            async move { guard.release().await.unwrap() }
        })
        .await;
    }

    async fn shutdown(&self) {
        self.drop_everywhere("shutdown with a holder", async |locks| {
            let other = self.manager();
            let guard = other.lock("r").acquire().await.unwrap();
            async move {
                let report = other.shutdown(Duration::from_millis(5)).await;
                assert_eq!(report.revoked, 1);
                drop((guard, locks));
            }
        })
        .await;
    }
}

/// In-memory nodes that reply one after the other, so that each reply causes a separate poll.
fn staggered_nodes() -> MemoryCluster {
    let cluster = MemoryCluster::new(5);
    for (node, delay) in cluster.nodes.iter().zip(1..) {
        node.set_delay(Duration::from_millis(delay));
    }
    cluster
}

macro_rules! on_memory {
    ($($name:ident: $nodes:expr, $case:ident;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            $nodes.$case().await;
        }
    )*};
}

on_memory! {
    acquire_dropped_at_any_point_leaves_no_key: Cluster::memory(), acquire;
    acquire_in_two_rounds_dropped_at_any_point_leaves_no_key: Cluster::skewed(), acquire;
    waiting_dropped_at_any_point_leaves_no_key: Cluster::memory(), wait;
    a_set_dropped_at_any_point_leaves_no_key: Cluster::memory(), set;
    a_set_in_two_rounds_dropped_at_any_point_leaves_no_key: Cluster::skewed(), set;
    a_waiting_set_dropped_at_any_point_leaves_no_key: Cluster::memory(), waiting_set;
    run_dropped_at_any_point_leaves_no_key: Cluster::memory(), run;
    release_dropped_at_any_point_leaves_no_key: Cluster::memory(), release;
    shutdown_dropped_at_any_point_leaves_no_key: Cluster::memory(), shutdown;
}

// promise: no-leaks, several-locks
#[tokio::test]
async fn an_operation_dropped_at_any_point_leaves_no_key_on_real_servers() {
    let cluster = Cluster::Redis(RedisCluster::start(3).await);
    cluster.acquire().await;
    cluster.wait().await;
    cluster.set().await;
    cluster.waiting_set().await;
    cluster.run().await;
    cluster.release().await;
}

// promise: no-leaks
#[tokio::test]
async fn an_acquire_dropped_at_any_point_leaves_no_queue_position() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().ttl(TTL).connect().await.unwrap();
    for polls in 1..MAX_POLLS {
        let left = poll_times(polls, locks.lock("r").acquire()).await;
        let done = matches!(left, Polled::Done(_));
        drop(left);
        cluster.no_lock_is_left().await;
        // While this key exists, a node looks for queues at every request.
        assert_eq!(cluster.keys("lock:{r}:*").await, [""; 0], "dropped after {polls} polls");
        if done {
            return;
        }
    }
    panic!("the acquisition did not complete within {MAX_POLLS} polls");
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_notifies_each_node_once() {
    let cluster = staggered_nodes();
    let holders = cluster.builder().ttl(TTL).connect().await.unwrap();
    let recorders: Vec<_> = cluster.nodes.iter().cloned().map(Recorder::new).collect();
    let locks = LockManager::builder().nodes(recorders.clone()).ttl(TTL).connect().await.unwrap();
    // A first wait, so that it is known that the nodes can wake this manager. Before that, it enters no queue.
    let holder = holders.lock("first").acquire().await.unwrap();
    assert!(timeout(TTL / 50, locks.lock("first").acquire()).await.is_err());
    holder.release().await.unwrap();
    // Long enough to cover the first attempts and the pauses between them.
    for late in 0..120 {
        let (key, case) = (format!("r{late}"), format!("left after {late} ms"));
        let holder = holders.lock(&key).acquire().await.unwrap();
        let requests_before: Vec<_> = recorders.iter().map(|node| node.requests().len()).collect();
        let waiting = timeout(Duration::from_millis(late), locks.lock(&key).acquire());
        assert!(waiting.await.is_err(), "{case}");
        // Longer than any reply takes, and longer than a reservation lives.
        sleep(TTL / 50).await;
        for (node, before) in recorders.iter().zip(requests_before) {
            let left = |operation: &&Operation| {
                let released = matches!(operation, Operation::Release { position: QueuePosition::Leave, .. });
                released || matches!(operation, Operation::LeaveQueue)
            };
            assert_eq!(node.requests()[before..].iter().filter(left).count(), 1, "{case}");
        }
        assert!(holder.release().await.unwrap());
        // The key is reserved for nobody.
        drop(holders.lock(&key).try_acquire().await.unwrap_or_else(|error| panic!("{case}: {error}")));
    }
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_while_nodes_hang_is_released_when_they_resume() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(TTL).connect().await.unwrap();
    for node in &cluster.nodes {
        node.set_delay(Duration::from_secs(2));
    }
    assert!(matches!(poll_times(1, locks.lock("r").acquire()).await, Polled::Dropped));
    for node in &cluster.nodes {
        node.set_delay(Duration::ZERO);
    }
    eventually("the release was executed behind the acquire", || cluster.lock_keys().is_empty()).await;
    drop(locks.lock("r").try_acquire().await.unwrap());
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn an_acquire_that_times_out_leaves_no_key() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(TTL).connect().await.unwrap();
    for (node, delay) in cluster.nodes.iter().zip([0, 3, 6, 9, 12]) {
        node.set_delay(Duration::from_millis(delay));
    }
    for late in 0..15 {
        // The caller times out at every millisecond of the attempt.
        let acquiring = locks.lock("r").acquire();
        let acquired = tokio::time::timeout(Duration::from_millis(late), acquiring).await;
        assert!(!matches!(acquired, Ok(Err(LockError::Contended { .. }))), "the previous attempt was released");
        drop(acquired);
        eventually("no key is left", || cluster.lock_keys().is_empty()).await;
    }
}
