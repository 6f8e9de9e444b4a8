//! `run`, the current lease, and locks acquired again inside their own scope. In virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use lock_core::{Lease, LockError, LockGuard, LockManager, LossReason, MemoryNode};
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

// promise: reported-losses
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

/// The outermost guard of a lease, and one that shares it.
async fn sharing(locks: &LockManager) -> (LockGuard, LockGuard) {
    let outer = locks.lock("r").acquire().await.unwrap();
    let inner = outer.scope(locks.lock("r").acquire()).await.unwrap();
    assert_eq!(outer.token(), inner.token());
    (outer, inner)
}

#[tokio::test(start_paused = true)]
async fn the_outermost_guard_releases_although_inner_guards_are_left() {
    let (cluster, locks) = cluster().await;
    let (outer, inner) = sharing(&locks).await;
    assert_eq!(outer.release().await, Ok(true));
    assert_eq!((inner.is_valid(), cluster.holding(), locks.held().len()), (false, 0, 0));
    assert_eq!(inner.release().await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_keeps_the_lock_beyond_the_outermost_one_releases_it() {
    let (cluster, locks) = cluster().await;
    for outer_first in [true, false] {
        let (outer, mut inner) = sharing(&locks).await;
        inner.keep_beyond_outer();
        inner.keep_beyond_outer();
        let (first, last) = if outer_first { (outer, inner) } else { (inner, outer) };
        assert_eq!(first.release().await, Ok(true));
        // Beyond its time to live, so that it is renewed.
        sleep(TTL * 3).await;
        assert_eq!((last.is_valid(), cluster.holding(), locks.held().len()), (true, 5, 1));
        drop(last);
        assert_eq!((cluster.holding(), locks.held().len()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_comes_too_late_to_keep_the_lock_holds_nothing() {
    let (cluster, locks) = cluster().await;
    let (outer, mut inner) = sharing(&locks).await;
    drop(outer);
    inner.keep_beyond_outer();
    assert_eq!((inner.is_valid(), cluster.holding()), (false, 0));
}

#[tokio::test(start_paused = true)]
async fn the_last_guard_that_keeps_the_lock_hands_it_over() {
    let (cluster, locks) = cluster().await;
    let (outer, mut inner) = sharing(&locks).await;
    inner.keep_beyond_outer();
    let waiting = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock("r").wait(TTL).acquire().await.unwrap() }
    });
    sleep(Duration::from_millis(1)).await;
    drop(outer);
    sleep(Duration::from_millis(1)).await;
    assert!(!waiting.is_finished());
    let token = inner.token();
    drop(inner);
    let next = waiting.await.unwrap();
    assert!(next.token() > token);
    assert_eq!(cluster.holding(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_last_guard_that_keeps_the_lock_and_revokes_the_lease_once() {
    for grace in [Duration::from_millis(10), TTL] {
        let (cluster, locks) = cluster().await;
        let (outer, mut inner) = sharing(&locks).await;
        inner.keep_beyond_outer();
        drop(outer);
        let last = tokio::spawn(async move {
            sleep(TTL / 2).await;
            inner.is_valid()
        });
        let report = locks.shutdown(grace).await;
        let released = usize::from(grace == TTL);
        assert_eq!((report.released, report.revoked), (released, 1 - released));
        assert_eq!(last.await.unwrap(), released == 1);
        assert_eq!((cluster.holding(), locks.held().len()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_whose_guards_have_ended_shares_nothing() {
    let (_cluster, locks) = cluster().await;
    let guard = locks.lock("r").acquire().await.unwrap();
    let inner = guard.scope(locks.lock("r").acquire());
    drop(guard);
    assert!(matches!(inner.await, Err(LockError::Lost { reason: LossReason::Released, .. })));
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
async fn reacquiring_inside_a_scope_waits_until_the_lease_has_the_validity_that_is_asked_for() {
    let (_cluster, locks) = cluster().await;
    let most = Duration::from_millis(900);
    let work = async |outer: Lease| {
        sleep(TTL / 4).await;
        assert!(outer.remaining() < most);
        let asked = Instant::now();
        let inner = locks.lock("r").min_validity(most).wait(TTL).acquire().await.unwrap();
        assert!(inner.remaining() >= most && inner.token() == outer.token());
        assert!(
            asked.elapsed() <= TTL / 3 - TTL / 4 + Duration::from_millis(5),
            "it is renewed after a third of its ttl"
        );
        sleep(TTL / 4).await;
        let error = locks.lock("r").min_validity(most).try_acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Expired { .. }), "{error}");
        assert!(locks.lock("r").min_validity(TTL / 3).try_acquire().await.is_ok(), "enough is left");
    };
    locks.lock("r").run(work).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn validity_that_the_outer_lease_will_never_have_is_refused_at_once() {
    let (cluster, locks) = cluster().await;
    let too_long = async |outer: Lease| {
        let asked = Instant::now();
        let request = locks.lock("r").ttl(TTL * 10).min_validity(TTL).wait(TTL * 10);
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(&error, LockError::Expired { resource, .. } if resource == "r"), "{error}");
        assert_eq!(asked.elapsed(), Duration::ZERO);
        assert!(outer.is_valid());
    };
    locks.lock("r").run(too_long).await.unwrap();
    let not_renewed = async |_| {
        sleep(TTL / 4).await;
        let asked = Instant::now();
        let error = locks.lock("r").min_validity(TTL * 9 / 10).wait(TTL * 10).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Expired { .. }), "{error}");
        assert_eq!(asked.elapsed(), Duration::ZERO);
    };
    locks.lock("r").renew(false).run(not_renewed).await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    let lost = async {
        sleep(TTL / 4).await;
        cluster.nodes.iter().for_each(MemoryNode::forget);
        locks.lock("r").min_validity(TTL * 9 / 10).wait(TTL * 10).acquire().await.unwrap_err()
    };
    let error = guard.scope(lost).await;
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
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

#[tokio::test(start_paused = true)]
async fn the_last_renewal_before_max_hold_gives_an_inner_lock_the_validity_that_it_asks_for() {
    let (_cluster, locks) = cluster().await;
    let seconds = Duration::from_secs;
    let work = async |outer: Lease| {
        sleep(seconds(3)).await;
        assert!(outer.remaining() < seconds(8));
        let inner = locks.lock("r").ttl(seconds(10)).min_validity(seconds(8)).wait(seconds(2)).acquire().await;
        assert!(inner.unwrap().remaining() >= seconds(8));
    };
    locks.lock("r").ttl(seconds(10)).max_hold(seconds(12)).run(work).await.unwrap();
}
