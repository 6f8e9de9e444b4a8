//! Every await point of acquire, hold and release is dropped in turn: no key remains, and the lock can be had again.

#![allow(clippy::async_yields_async, reason = "the future that is made is the one that is dropped")]

use std::time::Duration;

use lock_core::node::{Operation, QueuePosition};
use lock_core::{LockError, LockGuard, LockManager};
use lock_support::{MemoryCluster, Polled, Recorder, RedisCluster, eventually, eventually_async, poll_times};
use tokio::time::{Instant, sleep, timeout};

/// More polls than any of the futures needs.
const MOST_POLLS: usize = 200;

const TTL: Duration = Duration::from_secs(10);

/// The masters that a case runs on, and how to tell that nothing is left on them.
enum Masters {
    Memory(MemoryCluster),
    /// They disagree on the next number, so that acquiring takes two rounds.
    Skewed(MemoryCluster),
    Redis(RedisCluster),
}

impl Masters {
    fn memory() -> Self {
        Self::Memory(in_turns())
    }

    fn skewed() -> Self {
        Self::Skewed(in_turns())
    }

    fn manager(&self) -> LockManager {
        let builder = match self {
            Self::Memory(cluster) | Self::Skewed(cluster) => cluster.builder(),
            Self::Redis(cluster) => cluster.builder(),
        };
        builder.ttl(TTL).connect_lazy().unwrap()
    }

    async fn nothing_is_left(&self, case: &str) {
        match self {
            Self::Memory(cluster) | Self::Skewed(cluster) => eventually(case, || cluster.lock_keys().is_empty()).await,
            Self::Redis(cluster) => {
                eventually_async(case, async || cluster.keys("lock:[^{]*").await.is_empty()).await;
            }
        }
    }

    /// Drops `future` after 0, 1, 2, ... polls until it completes before.
    async fn drop_everywhere<T, F: Future<Output = T>>(
        &self,
        name: &str,
        mut future: impl AsyncFnMut(LockManager) -> F,
    ) {
        for polls in 0..MOST_POLLS {
            let case = format!("{name} dropped after {polls} polls leaves no key");
            let locks = self.manager();
            if polls % 2 == 0 {
                // Every other case begins with its connections made.
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
            self.nothing_is_left(&case).await;
            assert!(started.elapsed() < TTL / 2, "{case}, and not because it expired");
            let guard = locks.lock("r").try_acquire().await.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert!(guard.release().await.unwrap(), "{case}");
            let report = locks.shutdown(Duration::ZERO).await;
            assert_eq!(report.revoked, 0, "{case}");
            if done && polls > 2 {
                return;
            }
        }
        panic!("{name} did not complete within {MOST_POLLS} polls");
    }

    async fn acquire(&self) {
        self.drop_everywhere("acquire", async |locks| locks.lock("r").acquire()).await;
    }

    async fn wait(&self) {
        self.drop_everywhere("waiting", async |locks| {
            let holder = locks.lock("r").acquire().await.unwrap();
            async move {
                let waiting = locks.lock("r").wait(Duration::from_secs(1)).acquire();
                let give_up = async {
                    sleep(Duration::from_millis(20)).await;
                    assert!(holder.release().await.unwrap());
                };
                tokio::join!(waiting, give_up).0.unwrap()
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

/// In-memory masters that answer one after the other, so that every answer is a poll of its own.
fn in_turns() -> MemoryCluster {
    let cluster = MemoryCluster::new(5);
    for (node, delay) in cluster.nodes.iter().zip(1..) {
        node.set_delay(Duration::from_millis(delay));
    }
    cluster
}

macro_rules! on_memory {
    ($($name:ident: $masters:expr, $case:ident;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            $masters.$case().await;
        }
    )*};
}

on_memory! {
    acquire_dropped_at_any_point_leaves_no_key: Masters::memory(), acquire;
    acquire_in_two_rounds_dropped_at_any_point_leaves_no_key: Masters::skewed(), acquire;
    waiting_dropped_at_any_point_leaves_no_key: Masters::memory(), wait;
    run_dropped_at_any_point_leaves_no_key: Masters::memory(), run;
    release_dropped_at_any_point_leaves_no_key: Masters::memory(), release;
    shutdown_dropped_at_any_point_can_be_called_again: Masters::memory(), shutdown;
}

#[tokio::test]
async fn dropped_at_any_point_nothing_is_left_on_real_servers() {
    let masters = Masters::Redis(RedisCluster::start(3).await);
    masters.acquire().await;
    masters.wait().await;
    masters.run().await;
    masters.release().await;
}

#[tokio::test]
async fn a_caller_that_leaves_while_it_asks_is_in_no_queue() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().ttl(TTL).connect().await.unwrap();
    for polls in 1..MOST_POLLS {
        let left = poll_times(polls, locks.lock("r").acquire()).await;
        let done = matches!(left, Polled::Done(_));
        drop(left);
        cluster.no_lock_is_left().await;
        // With it, a master looks for queues at every ballot.
        assert_eq!(cluster.keys("lock:{node}:queued").await, [""; 0], "dropped after {polls} polls");
        if done {
            return;
        }
    }
    panic!("it did not complete within {MOST_POLLS} polls");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_tells_each_master_once() {
    let cluster = in_turns();
    let holders = cluster.builder().ttl(TTL).connect().await.unwrap();
    let told: Vec<_> = cluster.nodes.iter().cloned().map(Recorder::new).collect();
    let locks = LockManager::builder().nodes(told.clone()).ttl(TTL).connect().await.unwrap();
    // The first attempts, and where they fail the pauses between them, are over by then.
    for late in 0..120 {
        let (key, case) = (format!("r{late}"), format!("left after {late} ms"));
        let holder = holders.lock(&key).acquire().await.unwrap();
        let asked: Vec<_> = told.iter().map(|node| node.requests().len()).collect();
        let waiting = timeout(Duration::from_millis(late), locks.lock(&key).acquire());
        assert!(waiting.await.is_err(), "{case}");
        // Longer than any of them takes to answer, and than a turn would be kept.
        sleep(TTL / 50).await;
        for (node, before) in told.iter().zip(asked) {
            let left = |operation: &&Operation| {
                let released = matches!(operation, Operation::Release { position: QueuePosition::Leave, .. });
                released || matches!(operation, Operation::LeaveQueue)
            };
            assert_eq!(node.requests()[before..].iter().filter(left).count(), 1, "{case}");
        }
        assert!(holder.release().await.unwrap());
        // It is offered to nobody.
        drop(holders.lock(&key).try_acquire().await.unwrap_or_else(|error| panic!("{case}: {error}")));
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_while_masters_hang_is_released_when_they_go_on() {
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

#[tokio::test(start_paused = true)]
async fn a_lost_race_leaves_no_key() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(TTL).connect().await.unwrap();
    for (node, delay) in cluster.nodes.iter().zip([0, 3, 6, 9, 12]) {
        node.set_delay(Duration::from_millis(delay));
    }
    for late in 0..15 {
        // The caller's own deadline, at every millisecond of the attempt.
        let acquiring = locks.lock("r").acquire();
        let acquired = tokio::time::timeout(Duration::from_millis(late), acquiring).await;
        assert!(!matches!(acquired, Ok(Err(LockError::Contended { .. }))), "the one before was released");
        drop(acquired);
        eventually("nothing is left", || cluster.lock_keys().is_empty()).await;
    }
}
