//! Permits beside what else there is: scopes, operators, shutdowns, delegations. In virtual time.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::inspection::LockVerdict;
use lock_core::{Kind, LockError};
use lock_support::{Events, MemoryCluster, eventually};
use tokio::time::sleep;

use crate::permits::{WORK, held, is_contended, manager};

#[tokio::test(start_paused = true)]
async fn inside_the_scope_of_a_permit_the_same_resource_is_the_same_lease() {
    let locks = manager(&MemoryCluster::new(5)).await;
    let inner = locks.clone();
    let tokens = locks
        .permits("export", 2)
        .run(async move |outer| {
            let shared = held(&inner, 2).await;
            // The lock on the resource is another lock.
            let lock = inner.lock("export").acquire().await.unwrap();
            assert_ne!(lock.resource(), outer.resource());
            (outer.token(), outer.slot(), shared.token(), shared.slot())
        })
        .await
        .unwrap();
    assert_eq!((tokens.0, tokens.1), (tokens.2, tokens.3));
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn inside_the_scope_of_a_permit_fewer_permits_have_their_own_slots() {
    let locks = manager(&MemoryCluster::new(5)).await;
    let permits = [held(&locks, 3).await, held(&locks, 3).await, held(&locks, 3).await];
    let last = permits.iter().find(|permit| permit.slot() == Some(2)).unwrap();
    let fewer = last.scope(locks.permits("export", 2).try_acquire()).await;
    assert!(is_contended(&fewer), "both are held: {fewer:?}");
    let first = permits.iter().find(|permit| permit.slot() == Some(0)).unwrap();
    assert_eq!(first.scope(held(&locks, 2)).await.token(), first.token());
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_permits_and_ends_the_wait_for_them() {
    let cluster = MemoryCluster::new(5);
    let locks = manager(&cluster).await;
    let permits = join_all((0..2).map(|_| held(&locks, 2))).await;
    let waiting = tokio::spawn(locks.permits("export", 2).acquire());
    sleep(WORK).await;
    let report = locks.shutdown(Duration::from_millis(10)).await;
    assert_eq!((report.released, report.revoked), (0, 2));
    assert!(matches!(waiting.await.unwrap(), Err(LockError::ShuttingDown { .. })));
    assert!(permits.iter().all(|permit| !permit.is_valid()));
    assert_eq!(cluster.lock_keys(), Vec::<String>::new());
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn a_slot_is_inspected_and_force_released_by_its_name() {
    let cluster = MemoryCluster::new(5);
    let (holder, operator) = (manager(&cluster).await, manager(&cluster).await);
    let permits = join_all((0..2).map(|_| held(&holder, 2))).await;
    let waiting = tokio::spawn(operator.permits("export", 2).acquire());
    sleep(WORK).await;
    for slot in ["export{0}", "export{1}"] {
        let report = operator.inspect(slot).await.unwrap();
        assert_eq!((report.resource.as_str(), report.verdict()), (slot, LockVerdict::Held));
        assert!(report.nodes.iter().all(|node| node.waiters == 1), "the queue is one: {report:?}");
    }
    assert_eq!(operator.inspect("export").await.unwrap().verdict(), LockVerdict::Free, "the lock is another one");

    let forced = operator.force_release("export{1}").await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert_eq!(next.slot(), Some(1));
    let evicted = permits.iter().find(|permit| permit.slot() == Some(1)).unwrap();
    assert!(evicted.token() < forced.token && forced.token < next.token());
    evicted.lost().await;
    assert!(
        permits.iter().find(|permit| permit.slot() == Some(0)).unwrap().is_valid(),
        "the other slot is not touched"
    );
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn what_is_not_the_name_of_a_slot_is_no_lock() {
    let locks = manager(&MemoryCluster::new(1)).await;
    for name in ["export{100}", "export{}", "export{01}", "{1}", "export{1}x"] {
        assert!(matches!(locks.inspect(name).await, Err(LockError::InvalidResource { .. })), "{name}");
        assert!(matches!(locks.force_release(name).await, Err(LockError::InvalidResource { .. })), "{name}");
    }
    let as_a_lock = locks.lock("export{1}").acquire().await;
    assert!(matches!(as_a_lock, Err(LockError::InvalidResource { .. })), "{as_a_lock:?}");
    let in_a_set = locks.lock_all(["a", "export{1}"]).acquire().await;
    assert!(matches!(in_a_set, Err(LockError::InvalidResource { .. })), "{in_a_set:?}");
}

#[tokio::test(start_paused = true)]
async fn a_permit_cannot_be_downgraded_and_is_released() {
    let cluster = MemoryCluster::new(5);
    let locks = manager(&cluster).await;
    let error = held(&locks, 1).await.downgrade().await.unwrap_err();
    assert_eq!(error, LockError::Downgrade { resource: "export{0}".to_owned() });
    eventually("nothing is left", || cluster.lock_keys().is_empty()).await;
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn another_service_works_under_a_delegated_permit() {
    let cluster = MemoryCluster::new(5);
    let (holder, other) = (manager(&cluster).await, manager(&cluster).await);
    let permit = held(&holder, 1).await;
    let delegation = permit.delegate().create().unwrap();
    let adopted = other.adopt(delegation.as_str(), "export").await.unwrap();
    assert_eq!((adopted.resource(), adopted.slot(), adopted.token()), ("export{0}", Some(0), permit.token()));
    assert_eq!(adopted.kind(), Kind::Permit { of: 1 });
    let inner = other.clone();
    let shared = adopted.lease().scope(async move { held(&inner, 1).await.token() }).await;
    assert_eq!(shared, permit.token(), "inside its scope, it is the same permit");
    // The key is left to expire, and nobody of this process is handed the slot.
    let waiting = tokio::spawn(holder.permits("export", 1).acquire());
    sleep(WORK).await;
    drop(permit);
    sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished() && cluster.holding() == 5);
    let next = waiting.await.unwrap().unwrap();
    assert!(!adopted.is_valid() && adopted.token() < next.token());
}

#[tokio::test(start_paused = true)]
async fn callers_that_wait_for_permits_are_counted_apart_from_those_of_the_lock() {
    let cluster = MemoryCluster::new(5);
    let (locks, other) = (manager(&cluster).await, manager(&cluster).await);
    let (_lock, _permit) = (other.lock("export").acquire().await.unwrap(), held(&other, 1).await);
    let _for_lock = tokio::spawn(locks.lock("export").acquire());
    let _for_permits: Vec<_> = (0..2).map(|_| tokio::spawn(locks.permits("export", 1).acquire())).collect();
    sleep(WORK).await;
    let mut waiting: Vec<_> =
        locks.waiting().into_iter().map(|waiting| (waiting.resource, waiting.permits, waiting.callers)).collect();
    waiting.sort();
    assert_eq!(waiting, [("export".to_owned(), false, 1), ("export".to_owned(), true, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_and_permits_are_nested_in_the_order_of_their_names_without_a_warning() {
    let events = Events::record();
    let locks = manager(&MemoryCluster::new(1)).await;
    let inner = locks.clone();
    let work = async move |_| {
        // `a{0}` comes after `ab`, but what was asked for does not.
        drop(inner.lock("ab").acquire().await.unwrap());
        drop(inner.permits("b", 1).acquire().await.unwrap());
    };
    locks.permits("a", 1).run(work).await.unwrap();
    assert!(events.named("lock.nested_out_of_order").is_empty());
    let inner = locks.clone();
    locks.permits("b", 1).run(async move |_| drop(inner.permits("a", 1).acquire().await.unwrap())).await.unwrap();
    assert_eq!(events.named("lock.nested_out_of_order").len(), 1);
}
