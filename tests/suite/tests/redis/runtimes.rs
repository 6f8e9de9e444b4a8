//! A manager outside of runtimes, and on several of them one after the other.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::poll;
use lock_core::{LockGuard, LockManager, LockManagerBuilder, RedisNode};
use lock_support::{MemoryCluster, RedisCluster, eventually_async};
use tokio::runtime::{Builder, Runtime};

/// Runs on a runtime of its own that ends with the work.
fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A lock that is held on real masters, and the runtime that it came from, which goes on by itself.
fn held_on_redis() -> (Runtime, RedisCluster, LockGuard) {
    held_on(RedisCluster::builder)
}

/// The same where the connections are the service's own, which have timers in them.
fn held_on_own_connections() -> (Runtime, RedisCluster, LockGuard) {
    held_on(|cluster| {
        let masters = cluster.servers.iter().map(|server| {
            let client = redis::Client::open(server.url()).unwrap();
            let connect = move || {
                let client = client.clone();
                async move { client.get_multiplexed_async_connection().await }
            };
            RedisNode::from_factory(server.address(), connect)
        });
        LockManager::builder().nodes(masters)
    })
}

fn held_on(masters: impl FnOnce(&RedisCluster) -> LockManagerBuilder) -> (Runtime, RedisCluster, LockGuard) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (cluster, guard) = runtime.block_on(async {
        let cluster = RedisCluster::start(3).await;
        let locks = masters(&cluster).connect().await.unwrap();
        let guard = locks.lock("r").acquire().await.unwrap();
        (cluster, guard)
    });
    (runtime, cluster, guard)
}

#[test]
fn in_memory_and_connect_lazy_work_outside_of_a_runtime() {
    let locks = LockManager::in_memory();
    assert!(locks.held().is_empty());
    locks.close();
    drop(MemoryCluster::new(3).manager());
    drop(LockManager::builder().redis(["redis://127.0.0.1:1"]).connect_lazy().unwrap());
}

#[test]
fn a_guard_that_is_dropped_outside_of_a_runtime_releases_and_does_not_panic() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let guard = on_a_runtime(locks.lock("r").acquire()).unwrap();
    let lease = guard.lease();
    assert_eq!(cluster.holding(), 5);
    drop(guard);
    assert_eq!(cluster.holding(), 0);
    assert!(!lease.is_valid());
    assert!(locks.held().is_empty());
}

#[test]
fn a_guard_that_is_dropped_by_a_thread_without_a_runtime_releases_on_the_one_that_it_came_from() {
    for held in [held_on_redis, held_on_own_connections] {
        let (runtime, cluster, guard) = held();
        thread::spawn(move || drop(guard)).join().unwrap();
        runtime.block_on(cluster.no_lock_is_left());
    }
}

#[test]
fn a_guard_that_is_dropped_on_a_runtime_that_ends_releases_on_the_one_that_it_came_from() {
    for held in [held_on_redis, held_on_own_connections] {
        let (runtime, cluster, guard) = held();
        // Without timers, too.
        let other = Builder::new_current_thread().build().unwrap();
        other.block_on(async { drop(guard) });
        drop(other);
        runtime.block_on(cluster.no_lock_is_left());
        let locks = runtime.block_on(cluster.builder().connect()).unwrap();
        drop(runtime.block_on(locks.lock("r").try_acquire()).unwrap());
    }
}

#[test]
fn what_waits_for_others_is_written_by_whoever_has_time() {
    /// Long enough for a machine that is busy.
    const LONG: Duration = Duration::from_secs(20);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let cluster = Arc::new(runtime.block_on(RedisCluster::start(3)));
    let (locked, is_locked) = mpsc::channel();
    let watched = Arc::clone(&cluster);
    let watch = thread::spawn(move || {
        let majority = async || watched.keys("lock:r").await.len() >= 2;
        on_a_runtime(eventually_async("a majority holds the lock", majority));
        // Nobody may wait for it any more.
        _ = locked.send(());
    });
    let first = runtime.spawn(async move {
        // Less than the second after which a connection is looked at on which nothing moves.
        let locks = cluster.builder().node_timeout(Duration::from_millis(900)).connect().await.unwrap();
        // Two at once, until that is noticed: from then on, each waits for others who may be ready.
        for _ in 0..20 {
            let [r, s] = ["q", "s"].map(|resource| locks.lock(resource).acquire());
            let (r, s) = tokio::try_join!(r, s).unwrap();
            tokio::try_join!(r.release(), s.release()).unwrap();
        }
        // What is spawned last is for this worker, and what was spawned before that for the other one, too.
        let for_either = |work: BoxFuture<'static, ()>| {
            let working = tokio::spawn(work);
            drop(tokio::spawn(async {}));
            working
        };
        // The other one has no time until this one has none.
        let (free, is_free) = mpsc::channel();
        let (busy, is_busy) = mpsc::channel();
        let other = for_either(Box::pin(async move {
            busy.send(()).unwrap();
            is_free.recv_timeout(LONG).unwrap();
        }));
        is_busy.recv_timeout(LONG).unwrap();
        let mut acquiring = pin!(locks.lock("r").acquire());
        assert!(poll!(&mut acquiring).is_pending());
        // Behind what is to be written.
        let working = for_either(Box::pin(async move {
            free.send(()).unwrap();
            is_locked.recv_timeout(LONG).unwrap();
        }));
        other.await.unwrap();
        let _held = acquiring.await.unwrap();
        working.await.unwrap();
    });
    let outcome = runtime.block_on(first);
    // It has the servers, too, which end with the last one who does.
    watch.join().unwrap();
    outcome.unwrap();
}

/// Runs on no runtime at all.
fn without_a_runtime<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let (waker, mut work) = (Arc::new(Unpark(thread::current())).into(), pin!(work));
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        thread::park();
    }
}

#[test]
fn a_release_is_awaited_without_a_runtime() {
    for held in [held_on_redis, held_on_own_connections] {
        let (runtime, cluster, guard) = held();
        let released = thread::spawn(|| without_a_runtime(guard.release())).join().unwrap();
        assert!(released.unwrap());
        runtime.block_on(cluster.no_lock_is_left());
    }
}

#[test]
fn one_manager_serves_several_runtimes_one_after_the_other() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.manager();
    let mut last = None;
    for _ in 0..3 {
        let token = on_a_runtime(async {
            let guard = locks.lock("r").try_acquire().await.unwrap();
            let token = guard.token();
            assert!(guard.release().await.unwrap());
            token
        });
        assert!(Some(token) > last);
        last = Some(token);
    }
}

#[test]
fn one_manager_of_real_servers_serves_several_runtimes_one_after_the_other() {
    let cluster = on_a_runtime(RedisCluster::start(3));
    let locks = cluster.builder().connect_lazy().unwrap();
    for round in 0..3 {
        on_a_runtime(async {
            let guard = locks.lock("r").acquire().await.unwrap_or_else(|error| panic!("runtime {round}: {error}"));
            assert!(guard.release().await.unwrap());
        });
    }
}
