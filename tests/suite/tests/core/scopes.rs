//! `run`, the current lease, and locks acquired again inside their own scope. In virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use lock_core::{Lease, LockError, LockManager, LossReason, MemoryNode};
use lock_support::MemoryCluster;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);

async fn cluster() -> (MemoryCluster, LockManager) {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(TTL).connect().await.unwrap();
    (cluster, locks)
}

/// Sets a flag when it is dropped.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn run_returns_the_value_of_the_work_and_releases() {
    let (cluster, locks) = cluster().await;
    let borrowed = String::from("borrowed");
    let value = locks.lock("r").run(async |lease| (lease.resource().len(), borrowed.len())).await;
    assert_eq!(value, Ok((1, 8)));
    assert_eq!(cluster.holding(), 0);
    let inner: Result<Result<u8, &str>, LockError> = locks.lock("r").run(async |_| Err("an error of the work")).await;
    assert_eq!(inner, Ok(Err("an error of the work")));
    assert_eq!(cluster.holding(), 0);
    assert!(locks.held().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_loss_cancels_the_work() {
    let (cluster, locks) = cluster().await;
    let dropped = Arc::new(AtomicBool::new(false));
    let work = async |lease: Lease| {
        let _dropped = SetOnDrop(Arc::clone(&dropped));
        cluster.nodes[..3].iter().for_each(|node| node.advance_clock(TTL));
        lease.lost().await;
        sleep(TTL * 100).await;
    };
    let started = Instant::now();
    let error = locks.lock("r").run(work).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { reason: LossReason::Gone, .. }), "{error}");
    assert!(error.retry_after().is_none());
    assert!(started.elapsed() < TTL, "{:?}", started.elapsed());
    assert!(dropped.load(Ordering::Relaxed));
    sleep(TTL).await;
    assert_eq!(cluster.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn work_that_outlives_its_lease_is_reported_as_lost() {
    let (_cluster, locks) = cluster().await;
    let work = async |_| tokio::time::advance(TTL * 2).await;
    let error = locks.lock("r").run(work).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_work_propagates_and_releases() {
    let (cluster, locks) = cluster().await;
    let running = locks.lock("r").run(async |_| panic!("of the work"));
    let panic = std::panic::AssertUnwindSafe(running).catch_unwind().await.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the work"));
    assert_eq!(cluster.holding(), 0);
    let spawned = locks.clone();
    let join = tokio::spawn(async move { spawned.lock("r").run(async |_| panic!("of the task")).await }).await;
    assert!(join.unwrap_err().is_panic());
    assert_eq!(cluster.holding(), 0);
    assert!(locks.held().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_current_lease_is_the_innermost_of_the_task() {
    let (_cluster, locks) = cluster().await;
    assert!(Lease::current().is_none());
    let work = async |outer: Lease| {
        assert_eq!(Lease::current().unwrap().token(), outer.token());
        let inner = async |inner: Lease| {
            assert_eq!(Lease::current().unwrap().resource(), "inner");
            assert_eq!(inner.resource(), "inner");
        };
        locks.lock("inner").run(inner).await.unwrap();
        assert_eq!(Lease::current().unwrap().resource(), "outer");
        let spawned = tokio::spawn(async { Lease::current().is_none() }).await.unwrap();
        assert!(spawned, "tasks do not inherit it");
        let carried = tokio::spawn(outer.scope(async { Lease::current().unwrap().token() })).await.unwrap();
        assert_eq!(carried, outer.token(), "a scope carries it over");
    };
    locks.lock("outer").run(work).await.unwrap();
    assert!(Lease::current().is_none());
}

#[tokio::test(start_paused = true)]
async fn reacquiring_inside_a_scope_shares_the_lease_and_only_the_outermost_guard_releases() {
    let (cluster, locks) = cluster().await;
    let work = async |outer: Lease| {
        let started = Instant::now();
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(10)));
        // Also used below with another lock in between.
        let nested = async |_: Lease| {
            let guard = locks.lock("r").try_acquire().await.unwrap();
            let same = locks.lock("r").run(async |lease| lease.token()).await.unwrap();
            assert_eq!((guard.token(), same), (outer.token(), outer.token()));
            assert_eq!(guard.release().await, Ok(true));
        };
        nested(outer.clone()).await;
        assert_eq!(started.elapsed(), Duration::ZERO, "without a round trip");
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
        locks.lock("other").run(nested).await.unwrap();
        assert!(outer.is_valid());
        assert_eq!(cluster.holding(), 5, "inner guards release nothing");
        assert_eq!(locks.held().len(), 1);
    };
    locks.lock("r").run(work).await.unwrap();
    assert_eq!(cluster.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn spawned_tasks_other_managers_and_plain_guards_do_not_share_the_lease() {
    let (cluster, locks) = cluster().await;
    let other = cluster.manager();
    let work = async |_| {
        let spawned = tokio::spawn(locks.lock("r").try_acquire()).await.unwrap();
        assert!(matches!(spawned, Err(LockError::Contended { .. })), "{spawned:?}");
        let theirs = other.lock("r").try_acquire().await;
        assert!(matches!(theirs, Err(LockError::Contended { .. })), "{theirs:?}");
    };
    locks.lock("r").run(work).await.unwrap();
    let _guard = locks.lock("r").acquire().await.unwrap();
    let again = locks.lock("r").try_acquire().await;
    assert!(matches!(again, Err(LockError::Contended { .. })), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn reacquiring_inside_a_lost_scope_reports_the_loss() {
    let (cluster, locks) = cluster().await;
    let guard = locks.lock("r").acquire().await.unwrap();
    let lease = guard.lease();
    cluster.nodes.iter().for_each(MemoryNode::forget);
    lease.lost().await;
    let inner = lease.scope(async { locks.lock("r").acquire().await.map(|_| ()) }).await;
    assert!(matches!(inner, Err(LockError::Lost { .. })), "{inner:?}");
    assert_eq!(inner.unwrap_err().resource(), "r");
}

#[tokio::test(start_paused = true)]
async fn held_lists_the_leases_whose_guards_are_alive() {
    let (_cluster, locks) = cluster().await;
    let one = locks.lock("one").acquire().await.unwrap();
    let two = locks.lock("two").acquire().await.unwrap();
    let mut held: Vec<String> = locks.held().iter().map(|lease| lease.resource().to_owned()).collect();
    held.sort();
    assert_eq!(held, ["one", "two"]);
    drop(one);
    assert!(two.release().await.unwrap());
    assert!(locks.held().is_empty());
}
