//! Locks that are acquired inside the scope of others, and what becomes of those meanwhile. In virtual time.

use std::time::Duration;

use lock_core::{Lease, LockError, LossReason};
use lock_support::MemoryCluster;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(60);
/// What a lease has only just after a renewal.
const NEARLY_ALL: Duration = Duration::from_millis(950);

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_lock_to_write_is_refused_if_its_scope_goes_on_to_read_while_it_waits_for_validity() {
    let (_cluster, [locks, _]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    for in_a_set in [false, true] {
        let guard = locks.lock("r").acquire().await.unwrap();
        sleep(TTL / 4).await;
        let inner = {
            let locks = locks.clone();
            guard.lease().scope(async move {
                match in_a_set {
                    false => locks.lock("r").min_validity(NEARLY_ALL).acquire().await.map(drop),
                    true => locks.lock_all(["q", "r"]).min_validity(NEARLY_ALL).acquire().await.map(drop),
                }
            })
        };
        let inner = tokio::spawn(inner);
        sleep(TTL / 100).await;
        let reading = guard.downgrade().await.unwrap();
        assert_eq!(inner.await.unwrap(), Err(LockError::Upgrade { resource: "r".into() }), "in a set: {in_a_set}");
        assert!(reading.release().await.unwrap());
    }
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_of_outer_locks_has_the_validity_that_was_asked_for_in_all_of_them() {
    let (_cluster, [locks, _]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    let began = Instant::now();
    let renewed = locks.lock("b").acquire().await.unwrap();
    sleep(TTL / 5).await;
    let outer = locks.lock("a").renew(false).acquire().await.unwrap();
    sleep(TTL / 20).await;
    let set = locks.lock_all(["a", "b"]).min_validity(TTL * 93 / 100).acquire();
    let set = renewed.scope(async { outer.scope(set).await }).await;
    assert!(matches!(set, Err(LockError::Expired { .. })), "{set:?}");
    assert!(began.elapsed() < TTL / 2, "as soon as the second one was renewed: {:?}", began.elapsed());
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_of_outer_locks_is_lost_if_one_of_them_ends_while_another_is_awaited() {
    let (_cluster, [locks, _]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    let renewed = locks.lock("b").acquire().await.unwrap();
    sleep(TTL / 5).await;
    let outer = locks.lock("a").max_hold(TTL / 10).acquire().await.unwrap();
    let set = locks.lock_all(["a", "b"]).min_validity(NEARLY_ALL).acquire();
    let set = renewed.scope(async { outer.scope(set).await }).await;
    assert!(matches!(set, Err(LockError::Lost { .. } | LockError::Expired { .. })), "{set:?}");
}

#[tokio::test(start_paused = true)]
async fn work_that_begins_before_its_first_await_is_in_the_scope_of_its_lock() {
    let (_cluster, [locks, _]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    let current = || Lease::current().map(|lease| lease.resource().to_owned());
    let inner = locks.lock("a").run(async |_| {
        let at_once = |_| {
            let found = current();
            async move { found }
        };
        locks.lock("b").run(at_once).await
    });
    assert_eq!(inner.await.unwrap().unwrap().as_deref(), Some("b"));
    let of_a_set = locks.lock("a").run(async |_| {
        let at_once = |_| {
            let found = current();
            async move { found }
        };
        locks.lock_all(["c", "b"]).run(at_once).await
    });
    assert_eq!(of_a_set.await.unwrap().unwrap().as_deref(), Some("c"));
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn validity_that_the_shortest_lock_of_a_set_will_never_have_is_refused_at_once() {
    let locks = MemoryCluster::new(3).builder().ttl(TTL).wait(WAIT).connect().await.unwrap();
    let outer = locks.lock("a").acquire().await.unwrap();
    let set = outer.scope(locks.lock_all(["a", "b"]).ttl(TTL * 10).acquire()).await.unwrap();
    let asked = Instant::now();
    let inner = set.scope(locks.lock("b").ttl(TTL * 10).min_validity(TTL * 5).acquire()).await;
    assert!(matches!(inner, Err(LockError::Expired { .. })), "{inner:?}");
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_inside_of_another_set_is_valid_for_no_longer_than_that() {
    let (_cluster, [locks, _]) = MemoryCluster::with_two_managers(TTL, WAIT).await;
    let outer = locks.lock("a").renew(false).acquire().await.unwrap();
    sleep(TTL / 2).await;
    // Its first lock has the shortest validity of all, and the inner set shares the second one only.
    let middle = outer.scope(locks.lock_all(["a", "b"]).acquire()).await.unwrap();
    let inner = middle.scope(locks.lock_all(["b", "c"]).acquire()).await.unwrap();
    assert!(inner.remaining() <= middle.remaining(), "{:?} of {:?}", inner.remaining(), middle.remaining());
    assert!(inner[1].remaining() <= middle.remaining(), "{:?}", inner[1].remaining());
    middle[0].lost().await;
    assert!(!inner.is_valid() && !inner[1].is_valid());
    let Err(LockError::Lost { reason, .. }) = inner.check() else { panic!("the outer set was lost") };
    assert_eq!(reason, LossReason::SetLost);
}
