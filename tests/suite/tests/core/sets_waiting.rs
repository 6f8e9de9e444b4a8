//! Sets of locks that wait, and the order in which they take their locks. In virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::node::Operation;
use lock_core::{LockError, LockGuard, LockManager, LossReason, MemoryNode, SetGuard};
use lock_support::{Events, MemoryCluster, Recorder, eventually};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::sets::{LONG, TTL, cluster, forgetful, held_on, is_free, manager, reason};

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_waiting_set_keeps_what_comes_before_the_contended_lock_and_nothing_behind_it() {
    let (cluster, locks) = cluster().await;
    let other = manager(&cluster).await;
    for by_this_manager in [true, false] {
        let holder = if by_this_manager { &locks } else { &other };
        let held = holder.lock("m").acquire().await.unwrap();
        let waiting = tokio::spawn(locks.lock_all(["z", "m", "a"]).wait(LONG).acquire());
        sleep(TTL / 10).await;
        for _ in 0..10 {
            // Longer than the time to live: what is kept is renewed.
            sleep(TTL / 2).await;
            assert_eq!(held_on(&cluster), ["lock:a", "lock:m"]);
            assert!(is_free(&other, "z").await && is_free(&locks, "z").await);
            assert!(!is_free(&other, "a").await && !is_free(&locks, "a").await);
        }
        held.release().await.unwrap();
        let set = timeout(TTL / 4, waiting).await.unwrap().unwrap().unwrap();
        assert!(set.is_valid());
        set.release().await.unwrap();
    }
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_that_loses_a_lock_while_it_waits_begins_again() {
    let cluster = MemoryCluster::new(5);
    let (other, (locks, lose)) = (manager(&cluster).await, forgetful(&cluster).await);
    let held = other.lock("b").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock_all(["a", "b"]).wait(LONG).acquire());
    sleep(TTL / 2).await;
    let first = locks.held()[0].token();
    lose(Some("lock:a"));
    eventually("it has another lease", || locks.held().first().is_some_and(|lease| lease.token() > first)).await;
    lose(None);
    held.release().await.unwrap();
    let set = waiting.await.unwrap().unwrap();
    assert!(set.is_valid() && set[0].token() > first);
}

/// Names in one of the orders in which they can be written.
fn written(names: &[&'static str], order: usize) -> Vec<&'static str> {
    let mut names = names.to_vec();
    let by = order % names.len();
    names.rotate_left(by);
    if order % 2 == 1 {
        names.reverse();
    }
    names
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn sets_never_wait_for_each_other_however_they_are_written() {
    const NAMES: [&str; 4] = ["d", "a", "c", "b"];
    let cluster = MemoryCluster::new(3);
    cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(1)));
    let inside: Arc<[AtomicUsize; 4]> = Arc::default();
    let mut tasks = JoinSet::new();
    for process in 0..3 {
        let locks = manager(&cluster).await;
        for task in 0..64 {
            let (locks, inside) = (locks.clone(), Arc::clone(&inside));
            tasks.spawn(async move {
                let names = written(&NAMES[task % 3..], process + task);
                let set = locks.lock_all(&names).wait(LONG).acquire().await.unwrap();
                let at = |name| &inside[NAMES.iter().position(|other| *other == name).unwrap()];
                assert!(names.iter().all(|name| at(*name).fetch_add(1, Ordering::Relaxed) == 0), "exclusive");
                tokio::task::yield_now().await;
                names.iter().for_each(|name| _ = at(*name).fetch_sub(1, Ordering::Relaxed));
                set.release().await.unwrap();
            });
        }
    }
    let all_end = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    timeout(LONG, all_end).await.unwrap();
    eventually("nothing is left", || held_on(&cluster).is_empty()).await;
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn sets_and_single_locks_share_one_queue() {
    let (_cluster, locks) = cluster().await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let holder = locks.lock("b").acquire().await.unwrap();
    let mut tasks = JoinSet::new();
    for caller in 0..6 {
        let (locks, order) = (locks.clone(), Arc::clone(&order));
        tasks.spawn(async move {
            let note = || order.lock().unwrap_or_else(PoisonError::into_inner).push(caller);
            if caller % 2 == 0 {
                let set: SetGuard = locks.lock_all(["b", "c"]).wait(LONG).acquire().await.unwrap();
                note();
                drop(set);
            } else {
                let lock: LockGuard = locks.lock("b").wait(LONG).acquire().await.unwrap();
                note();
                drop(lock);
            }
        });
        sleep(Duration::from_millis(1)).await;
    }
    drop(holder);
    tasks.join_all().await;
    assert_eq!(*order.lock().unwrap_or_else(PoisonError::into_inner), [0, 1, 2, 3, 4, 5]);
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_without_a_wait_passes_nobody() {
    let (cluster, locks) = cluster().await;
    let other = manager(&cluster).await;
    let holder = other.lock("b").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("b").wait(LONG).acquire());
    sleep(TTL / 10).await;
    let error = locks.lock_all(["a", "b"]).try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended { ref resource, .. } if resource == "b"), "{error}");
    drop(holder);
    drop(waiting.await.unwrap().unwrap());
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_set_makes_one_attempt_and_one_for_each_contended_lock_beside_its_waits() {
    let cluster = MemoryCluster::new(3);
    let recorders: Vec<Recorder<MemoryNode>> = cluster.nodes.iter().cloned().map(Recorder::new).collect();
    let locks = LockManager::builder().nodes(recorders.clone()).ttl(TTL).connect().await.unwrap();
    let acquires = || {
        let is_acquire = |operation: &&Operation| matches!(operation, Operation::Acquire { .. });
        recorders[0].requests().iter().filter(is_acquire).count()
    };
    let before = acquires();
    let set = locks.lock_all(["a", "b", "c", "d", "e"]).acquire().await.unwrap();
    assert_eq!(acquires() - before, 5, "one for each lock");
    set.release().await.unwrap();

    let held = locks.lock("b").acquire().await.unwrap();
    let before = acquires();
    let waiting = tokio::spawn(locks.lock_all(["a", "b", "c", "d", "e"]).wait(LONG).acquire());
    sleep(TTL / 10).await;
    assert_eq!(acquires() - before, 1, "a, and nothing behind b, which another caller of this process holds");
    held.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
    assert!(acquires() - before <= 5, "b may be handed over; the rest is one batch");
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_sets_and_their_waiters() {
    let (cluster, locks) = cluster().await;
    let set = locks.lock_all(["b", "c"]).acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock_all(["a", "b"]).wait(LONG).acquire());
    sleep(TTL / 10).await;
    let report = locks.shutdown(TTL).await;
    assert_eq!(report.revoked, 2);
    assert!(matches!(waiting.await.unwrap(), Err(LockError::ShuttingDown { .. })));
    assert!(set.iter().all(|lease| reason(lease) == Some(LossReason::ShutDown)));
    assert_eq!(held_on(&cluster), [""; 0]);
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn locks_that_are_nested_against_the_order_of_names_are_logged_once() {
    let events = Events::record();
    let (_cluster, locks) = cluster().await;
    locks
        .lock("b")
        .run(async |_| {
            drop(locks.lock("c").acquire().await.unwrap());
            drop(locks.lock("a").try_acquire().await.unwrap());
            assert!(events.named("lock.nested_out_of_order").is_empty());
            for _ in 0..2 {
                drop(locks.lock_all(["x", "b", "a"]).acquire().await.unwrap());
                drop(locks.lock("a").acquire().await.unwrap());
            }
        })
        .await
        .unwrap();
    let logged = events.named("lock.nested_out_of_order");
    assert_eq!((logged.len(), logged[0].level), (1, tracing::Level::WARN));
    assert!(logged[0].fields.contains(r#"resource="a" held="b""#), "{}", logged[0].fields);
}
