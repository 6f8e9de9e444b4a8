//! Waiting callers: what ends a wait, and the errors that it ends with. In virtual time.

use std::time::Duration;

use lock_core::{LockError, LockGuard, LockManager, Vote};
use lock_support::{MemoryCluster, eventually};
use tokio::time::{Instant, sleep};

const WAIT: Duration = Duration::from_secs(2);
const LONG_WAIT: Duration = Duration::from_secs(10);

// promise: no-deadlock
#[tokio::test(start_paused = true)]
async fn a_wait_that_times_out_reports_the_votes_and_when_the_lock_is_free() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).ttl(WAIT * 10).connect().await.unwrap();
    let _holder = locks.lock("r").acquire().await.unwrap();
    let started = Instant::now();
    let error = locks.lock("r").acquire().await.unwrap_err();
    assert_eq!(started.elapsed(), WAIT);
    let LockError::Contended { resource, waited, free_in, votes, .. } = error else { panic!("{error}") };
    assert_eq!((resource.as_str(), waited, votes.len()), ("r", WAIT, 5));
    assert!(free_in.unwrap() > WAIT && free_in.unwrap() <= WAIT * 10, "{free_in:?}");
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_behind_a_holder_of_this_process_is_told_when_its_renewed_lock_is_free() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT / 10).ttl(WAIT).connect().await.unwrap();
    let _holder = locks.lock("r").acquire().await.unwrap();
    for _ in 0..4 {
        sleep(WAIT * 3 / 4).await;
        let LockError::Contended { free_in, votes, .. } = locks.lock("r").acquire().await.unwrap_err() else {
            panic!("it is held")
        };
        assert!(free_in.unwrap() > WAIT / 2 && free_in.unwrap() <= WAIT, "{free_in:?}");
        assert_eq!(votes[0].vote, Vote::Held { remaining: free_in });
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lock_soon_after_its_release_or_expiry() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    let holder = locks.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("r").wait(LONG_WAIT).acquire());
    sleep(WAIT).await;
    assert!(holder.release().await.unwrap());
    let released = Instant::now();
    let guard = waiting.await.unwrap().unwrap();
    assert!(released.elapsed() < Duration::from_millis(100), "{:?}", released.elapsed());
    drop(guard);

    let crashed = locks.lock("r").ttl(WAIT).renew(false).acquire().await.unwrap();
    let started = Instant::now();
    let guard = locks.lock("r").wait(LONG_WAIT).acquire().await.unwrap();
    assert!(started.elapsed() >= WAIT && started.elapsed() < WAIT + Duration::from_millis(100));
    drop((crashed, guard));
}

#[tokio::test(start_paused = true)]
async fn try_acquire_never_waits() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).connect().await.unwrap();
    let _holder = locks.lock("r").acquire().await.unwrap();
    let started = Instant::now();
    let error = locks.lock("r").try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended { .. }), "{error}");
    assert_eq!(started.elapsed(), Duration::ZERO);
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn try_acquire_passes_no_caller_of_this_process() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    let holder = locks.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("r").wait(LONG_WAIT).acquire());
    // Longer than a lock is handed over: it is released, and taken again by the next in line.
    sleep(WAIT).await;
    drop(holder);
    let error = locks.lock("r").try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended { .. }), "{error}");
    let holder = waiting.await.unwrap().unwrap();

    // The nodes need not be asked.
    let waiting = tokio::spawn(locks.lock("r").wait(LONG_WAIT).acquire());
    sleep(WAIT).await;
    cluster.nodes.iter().for_each(|node| node.set_delay(LONG_WAIT));
    let asked = Instant::now();
    let error = locks.lock("r").try_acquire().await.unwrap_err();
    assert!(error.votes().iter().filter(|vote| matches!(vote.vote, Vote::Held { .. })).count() >= 3, "{error:?}");
    assert_eq!(asked.elapsed(), Duration::ZERO);
    cluster.nodes.iter().for_each(|node| node.set_delay(Duration::ZERO));
    assert!(holder.release().await.unwrap());
    assert!(waiting.await.unwrap().unwrap().release().await.unwrap());
    assert!(locks.lock("r").try_acquire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn waiters_beyond_the_limit_are_rejected_at_once() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().max_waiters(2).connect().await.unwrap();
    let holder = locks.lock("r").acquire().await.unwrap();
    let waiting: Vec<_> = (0..2).map(|_| tokio::spawn(locks.lock("r").wait(LONG_WAIT).acquire())).collect();
    sleep(WAIT).await;
    let started = Instant::now();
    let error = locks.lock("r").acquire().await.unwrap_err();
    assert_eq!(error, LockError::QueueFull { resource: "r".into(), waiters: 2, typical_hold: None });
    assert!(error.retry_after().is_some());
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert!(locks.lock("other").acquire().await.is_ok(), "each resource has its own queue");
    waiting[0].abort();
    eventually("the aborted waiter has left the queue", || waiting[0].is_finished()).await;
    let error = locks.lock("r").wait(Duration::from_millis(10)).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended { .. }), "{error}");
    drop(holder);
}

#[tokio::test(start_paused = true)]
async fn the_advice_when_to_retry_is_how_long_the_lock_was_held_lately_not_its_ttl() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(WAIT * 5).max_waiters(1).wait(Duration::ZERO).connect().await.unwrap();
    let hold = async |resource: &str, time: Duration| {
        let guard = locks.lock(resource).acquire().await.unwrap();
        sleep(time).await;
        guard.release().await.unwrap();
    };
    let advice = async |resource: &str| {
        let _holder = locks.lock(resource).acquire().await.unwrap();
        locks.lock(resource).acquire().await.unwrap_err().retry_after().unwrap()
    };
    assert_eq!(advice("never held before").await, Duration::from_secs(1));
    for (resource, held, advised) in [
        ("usual", Duration::from_millis(300), Duration::from_millis(300)),
        ("very short", Duration::from_micros(20), Duration::from_millis(10)),
        ("long", Duration::from_secs(59), Duration::from_secs(59)),
    ] {
        hold(resource, held).await;
        assert_eq!(advice(resource).await.as_millis(), advised.as_millis(), "{resource}");
    }
    let holder = locks.lock("longest").max_hold(Duration::from_secs(600)).acquire().await.unwrap();
    sleep(Duration::from_secs(500)).await;
    drop(holder);
    assert_eq!(advice("longest").await, Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_advises_to_retry_after_a_typical_hold() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().max_waiters(1).connect().await.unwrap();
    let holder = locks.lock("r").acquire().await.unwrap();
    sleep(Duration::from_millis(300)).await;
    holder.release().await.unwrap();
    let _holder = locks.lock("r").acquire().await.unwrap();
    let _waiting = tokio::spawn(locks.lock("r").wait(LONG_WAIT).acquire());
    sleep(Duration::from_millis(1)).await;
    let error = locks.lock("r").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::QueueFull { .. }), "{error}");
    assert_eq!(error.retry_after(), Some(Duration::from_millis(300)));
}

/// How long a waiter of the same process waits after the lock was released.
async fn wait_behind(locks: &LockManager, held: LockGuard) -> Duration {
    let waiting = tokio::spawn(locks.lock("r").wait(Duration::from_secs(5)).acquire());
    sleep(Duration::from_millis(130)).await;
    drop(held);
    let released = Instant::now();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    released.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_a_holder_of_its_process_that_did_not_wait() {
    let locks = MemoryCluster::new(5).builder().connect().await.unwrap();
    let held = locks.lock("r").try_acquire().await.unwrap();
    let waited = wait_behind(&locks, held).await;
    assert!(waited < Duration::from_millis(5), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_when_a_holder_of_its_process_releases_after_its_lease_has_ended() {
    let locks = MemoryCluster::new(5).builder().connect().await.unwrap();
    let held = locks.lock("r").max_hold(Duration::from_millis(50)).acquire().await.unwrap();
    let waited = wait_behind(&locks, held).await;
    assert!(waited < Duration::from_millis(5), "{waited:?}");
}
