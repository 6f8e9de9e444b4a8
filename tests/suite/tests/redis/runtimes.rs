//! A manager outside a runtime, and on several runtimes in turn.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::poll;
use lock_core::{LockGuard, LockManager, LockManagerBuilder};
use lock_support::{MemoryCluster, RedisCluster, eventually_async};
use tokio::runtime::{Builder, Runtime};

/// Runs a future on a new runtime, which ends with it.
fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A lock that is held on real servers, and the runtime that it came from, which keeps running.
fn held_on_redis() -> (Runtime, RedisCluster, LockGuard) {
    held_on(RedisCluster::builder)
}

/// The same with connections from a factory, which use timers.
fn held_on_factory_connections() -> (Runtime, RedisCluster, LockGuard) {
    held_on(|cluster| LockManager::builder().nodes(cluster.nodes_from_factories()))
}

fn held_on(nodes: impl FnOnce(&RedisCluster) -> LockManagerBuilder) -> (Runtime, RedisCluster, LockGuard) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (cluster, guard) = runtime.block_on(async {
        let cluster = RedisCluster::start(3).await;
        let locks = nodes(&cluster).connect().await.unwrap();
        let guard = locks.lock("r").acquire().await.unwrap();
        (cluster, guard)
    });
    (runtime, cluster, guard)
}

#[test]
fn in_memory_and_connect_lazy_work_outside_a_runtime() {
    let locks = LockManager::in_memory();
    assert!(locks.held().is_empty());
    locks.close();
    drop(MemoryCluster::new(3).manager());
    drop(LockManager::builder().redis(["redis://127.0.0.1:1"]).connect_lazy().unwrap());
}

#[test]
fn a_guard_dropped_outside_a_runtime_releases_without_a_panic() {
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
fn a_guard_dropped_on_a_plain_thread_releases_on_the_runtime_it_came_from() {
    for held in [held_on_redis, held_on_factory_connections] {
        let (runtime, cluster, guard) = held();
        thread::spawn(move || drop(guard)).join().unwrap();
        runtime.block_on(cluster.no_lock_is_left());
    }
}

#[test]
fn a_guard_dropped_on_a_runtime_that_ends_releases_on_the_runtime_it_came_from() {
    for held in [held_on_redis, held_on_factory_connections] {
        let (runtime, cluster, guard) = held();
        // A runtime without timers.
        let other = Builder::new_current_thread().build().unwrap();
        other.block_on(async { drop(guard) });
        drop(other);
        runtime.block_on(cluster.no_lock_is_left());
        let locks = runtime.block_on(cluster.builder().connect()).unwrap();
        drop(runtime.block_on(locks.lock("r").try_acquire()).unwrap());
    }
}

#[test]
fn an_idle_worker_thread_writes_a_deferred_batch() {
    /// Long enough on a busy machine.
    const LONG: Duration = Duration::from_secs(20);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let cluster = Arc::new(runtime.block_on(RedisCluster::start(3)));
    let (locked, is_locked) = mpsc::channel();
    let watched = Arc::clone(&cluster);
    let watch = thread::spawn(move || {
        let majority = async || watched.keys("lock:r").await.len() >= 2;
        on_a_runtime(eventually_async("a majority holds the lock", majority));
        // The receiver may be gone.
        _ = locked.send(());
    });
    let first = runtime.spawn(async move {
        // Shorter than the second after which a connection without progress is checked.
        let locks = cluster.builder().node_timeout(Duration::from_millis(900)).connect().await.unwrap();
        // Two callers at once, until the pipeline notices: from then on, a request waits for others to share its batch.
        for _ in 0..20 {
            let [r, s] = ["q", "s"].map(|resource| locks.lock(resource).acquire());
            let (r, s) = tokio::try_join!(r, s).unwrap();
            tokio::try_join!(r.release(), s.release()).unwrap();
        }
        // The task spawned last goes to the LIFO slot of this worker; the one before it can be stolen by the other worker.
        let spawn_stealable = |work: BoxFuture<'static, ()>| {
            let working = tokio::spawn(work);
            drop(tokio::spawn(async {}));
            working
        };
        // Keeps the other worker busy until this one is.
        let (free, is_free) = mpsc::channel();
        let (busy, is_busy) = mpsc::channel();
        let other = spawn_stealable(Box::pin(async move {
            busy.send(()).unwrap();
            is_free.recv_timeout(LONG).unwrap();
        }));
        is_busy.recv_timeout(LONG).unwrap();
        let mut acquiring = pin!(locks.lock("r").acquire());
        assert!(poll!(&mut acquiring).is_pending());
        // Queued behind the deferred write, and keeps this worker busy until a majority holds the lock.
        let working = spawn_stealable(Box::pin(async move {
            free.send(()).unwrap();
            is_locked.recv_timeout(LONG).unwrap();
        }));
        other.await.unwrap();
        let _held = acquiring.await.unwrap();
        working.await.unwrap();
    });
    let outcome = runtime.block_on(first);
    // The watcher shares the servers, which end with their last owner.
    watch.join().unwrap();
    outcome.unwrap();
}

/// Runs a future without a runtime.
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
fn a_release_can_be_awaited_without_a_runtime() {
    for held in [held_on_redis, held_on_factory_connections] {
        let (runtime, cluster, guard) = held();
        let released = thread::spawn(|| without_a_runtime(guard.release())).join().unwrap();
        assert!(released.unwrap());
        runtime.block_on(cluster.no_lock_is_left());
    }
}

#[test]
fn one_manager_serves_several_runtimes_in_turn() {
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
fn one_manager_on_real_servers_serves_several_runtimes_in_turn() {
    let cluster = on_a_runtime(RedisCluster::start(3));
    let locks = cluster.builder().connect_lazy().unwrap();
    for round in 0..3 {
        on_a_runtime(async {
            let guard = locks.lock("r").acquire().await.unwrap_or_else(|error| panic!("runtime {round}: {error}"));
            assert!(guard.release().await.unwrap());
        });
    }
}
