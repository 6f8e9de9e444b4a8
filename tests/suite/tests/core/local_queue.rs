//! The local queue of one manager: first come, first served, and handover from one caller to the next. In virtual time.

use std::future::Future as _;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::poll;
use lock_core::node::Operation;
use lock_core::{LockError, LockManager, LockNode, MemoryNode};
use lock_support::{MemoryCluster, Recorder, eventually};
use tokio::time::{Instant, sleep};

const WAIT: Duration = Duration::from_secs(30);
const WORK: Duration = Duration::from_millis(1);

/// Five nodes that record the requests they get.
struct RecordedCluster(Vec<Recorder<MemoryNode>>);

impl RecordedCluster {
    fn new() -> Self {
        Self((0..5).map(|_| Recorder::new(MemoryNode::new())).collect())
    }

    async fn manager(&self) -> LockManager {
        LockManager::builder().nodes(self.0.clone()).wait(WAIT).connect().await.unwrap()
    }

    /// How many requests all nodes together got.
    fn requests(&self) -> usize {
        self.0.iter().map(|node| node.requests().len()).sum()
    }
}

/// Acquires the lock, logs the caller and its token, and releases the lock.
async fn cycle(locks: LockManager, caller: usize, log: Arc<Mutex<Vec<(usize, u64)>>>) {
    let guard = locks.lock("r").acquire().await.unwrap();
    log.lock().unwrap().push((caller, guard.token().get()));
    sleep(WORK).await;
    assert!(guard.release().await.unwrap());
}

// promise: fencing
#[tokio::test(start_paused = true)]
async fn local_callers_are_served_in_order_with_increasing_tokens() {
    let cluster = RecordedCluster::new();
    let locks = cluster.manager().await;
    let log = Arc::default();
    join_all((0..100).map(|caller| cycle(locks.clone(), caller, Arc::clone(&log)))).await;
    let log = log.lock().unwrap();
    assert!(log.iter().map(|(caller, _)| *caller).eq(0..100), "{log:?}");
    assert!(log.is_sorted_by(|(_, earlier), (_, later)| earlier < later), "{log:?}");
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_handover_sends_no_requests_and_a_run_has_at_most_sixteen_holders() {
    let cluster = RecordedCluster::new();
    let locks = cluster.manager().await;
    let log = Arc::default();
    join_all((0..162).map(|caller| cycle(locks.clone(), caller, Arc::clone(&log)))).await;
    // The first caller found nobody behind it and reserved one token for a successor; then come runs of sixteen.
    let acquires = cluster.0[0].owners().len();
    assert_eq!(acquires, 11);
    assert!(cluster.requests() <= 162, "{} requests for 162 cycles", cluster.requests());
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_lock_is_not_handed_over_after_20_ms() {
    let cluster = RecordedCluster::new();
    let locks = cluster.manager().await;
    let first = locks.lock("r").acquire().await.unwrap();
    let waiting: Vec<_> = (0..3).map(|_| tokio::spawn(locks.lock("r").acquire())).collect();
    sleep(WORK).await;
    drop(first);
    for waiting in waiting {
        let guard = waiting.await.unwrap().unwrap();
        sleep(Duration::from_millis(21)).await;
        drop(guard);
    }
    // The second caller got the lock from the first.
    assert_eq!(cluster.0[0].owners().len(), 3, "each later caller made its own attempt");
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_lock_is_not_handed_to_a_caller_with_other_options() {
    let cluster = RecordedCluster::new();
    let locks = cluster.manager().await;
    let others = [locks.lock("r").ttl(Duration::from_secs(3)), locks.lock("r").renew(false)];
    for other in others {
        let before = cluster.0[0].owners().len();
        let first = locks.lock("r").acquire().await.unwrap();
        let waiting = [tokio::spawn(locks.lock("r").acquire()), tokio::spawn(other.acquire())];
        sleep(WORK).await;
        drop(first);
        for waiting in waiting {
            drop(waiting.await.unwrap().unwrap());
        }
        // One by the first caller, which hands the lock to the second, and one by the caller with other options.
        assert_eq!(cluster.0[0].owners().len() - before, 2);
    }
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_passes_on_a_lock_that_was_handed_to_it() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).connect().await.unwrap();
    let first = locks.lock("r").acquire().await.unwrap();
    {
        let mut dropped = pin!(locks.lock("r").acquire());
        assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(first);
        // The lock has been handed to it, and it is dropped without another poll.
    }
    let started = Instant::now();
    locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
    eventually("nothing is left", || cluster.lock_keys().is_empty()).await;
}

// promise: no-deadlock
#[tokio::test(start_paused = true)]
async fn a_waiter_does_not_wait_for_the_guard_of_an_expired_lease() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).connect().await.unwrap();
    let ttl = Duration::from_millis(200);
    let started = Instant::now();
    let lost = locks.lock("r").ttl(ttl).renew(false).acquire().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    assert!(started.elapsed() <= ttl * 2, "{:?}", started.elapsed());
    assert!(!lost.is_valid() && guard.is_valid() && guard.token() > lost.token());
    assert!(!lost.release().await.unwrap());
    assert!(guard.release().await.unwrap(), "the late release left it alone");
}

// promise: lost-quorum, turns
#[tokio::test(start_paused = true)]
async fn a_missing_majority_is_reported_to_the_whole_local_queue() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).connect().await.unwrap();
    cluster.nodes[..3].iter().for_each(|node| node.set_delay(Duration::from_secs(3600)));
    let started = Instant::now();
    for outcome in join_all((0..50).map(|_| locks.lock("r").acquire())).await {
        assert!(matches!(outcome, Err(LockError::NoQuorum { votes, .. }) if votes.len() == 5));
    }
    let outage = Duration::from_secs(1);
    assert!(started.elapsed() < outage + Duration::from_millis(200), "{:?}", started.elapsed());
}

/// A node that is given half of the time to live.
struct Patient(MemoryNode);

impl LockNode for Patient {
    lock_core::forward_to_node!(self => self.0; name inspect write_record read_fences submit look evict);

    fn node_timeout(&self, ttl: Duration) -> Duration {
        ttl / 2
    }
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_caller_with_a_longer_node_timeout_makes_its_own_attempt() {
    let cluster = MemoryCluster::new(5);
    let nodes = cluster.nodes.iter().cloned().map(Patient);
    let locks = LockManager::builder().nodes(nodes).wait(WAIT).connect().await.unwrap();
    // Longer than callers ride an outage out.
    for node in &cluster.nodes {
        node.set_delay(Duration::from_millis(1_500));
    }
    let hasty = locks.lock("r").ttl(Duration::from_millis(200)).acquire();
    let others = [300, 100, 4_000].map(|ttl| locks.lock("r").ttl(Duration::from_millis(ttl)).acquire());
    let (hasty, others) = tokio::join!(hasty, join_all(others));
    assert!(matches!(hasty, Err(LockError::NoQuorum { .. })));
    let [longer, shorter, longest] = &others[..] else { panic!() };
    assert!(matches!(shorter, Err(LockError::NoQuorum { .. })));
    assert!(matches!(longer, Err(LockError::NoQuorum { .. })), "its own attempt timed out after 150 ms");
    assert!(longest.is_ok());
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_caller_leaving_a_finished_local_queue_removes_nobody_from_the_next_one() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).connect().await.unwrap();
    for node in &cluster.nodes[..3] {
        node.set_delay(Duration::from_secs(3600));
    }
    let acquire = || Box::pin(locks.lock("r").acquire());
    let (mut head, mut behind) = (acquire(), acquire());
    assert!(poll!(&mut head).is_pending() && poll!(&mut behind).is_pending());
    // The caller behind the head gets the same result, but it is not polled before the next queue has formed.
    assert!(matches!(head.await, Err(LockError::NoQuorum { .. })));
    let (mut new_head, mut new_behind) = (acquire(), acquire());
    assert!(poll!(&mut new_head).is_pending() && poll!(&mut new_behind).is_pending());
    assert!(matches!(behind.await, Err(LockError::NoQuorum { .. })));
    let (new_head, new_behind) = tokio::join!(new_head, new_behind);
    assert!(matches!(new_head, Err(LockError::NoQuorum { .. })));
    assert!(matches!(new_behind, Err(LockError::NoQuorum { .. })), "{new_behind:?}");
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_thousand_local_waiters_make_one_attempt_a_second() {
    let cluster = RecordedCluster::new();
    let (holder, locks) = (cluster.manager().await, cluster.manager().await);
    let held = holder.lock("r").acquire().await.unwrap();
    let waiting: Vec<_> = (0..1000).map(|_| tokio::spawn(locks.lock("r").acquire())).collect();
    sleep(Duration::from_secs(1)).await;
    let before = cluster.requests();
    sleep(Duration::from_secs(10)).await;
    let a_second = (cluster.requests() - before) / 10;
    // The head of the local queue makes attempts, and the holder renews.
    assert!((5..=10).contains(&a_second), "{a_second} requests a second");
    drop(held);
    for waiting in waiting {
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_shorter_than_a_third_of_the_ttl_is_not_renewed() {
    let cluster = RecordedCluster::new();
    let locks = cluster.manager().await;
    for _ in 0..20 {
        let guard = locks.lock("r").ttl(Duration::from_secs(3)).acquire().await.unwrap();
        sleep(Duration::from_millis(999)).await;
        guard.release().await.unwrap();
    }
    let extends = cluster.0.iter().map(Recorder::renewals).sum::<usize>();
    assert_eq!(extends, 0);
    let replaced = |request: &Operation| matches!(request, Operation::Replace { .. });
    assert!(!cluster.0.iter().any(|node| node.requests().iter().any(replaced)));
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_lock_that_expires_during_its_handover_is_not_used() {
    let cluster = MemoryCluster::new(5);
    let ttl = Duration::from_secs(1);
    let locks = cluster.builder().wait(WAIT).ttl(ttl).connect().await.unwrap();
    let first = locks.lock("r").acquire().await.unwrap();
    let token = first.token();
    let mut late = pin!(locks.lock("r").acquire());
    assert!(late.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(first);
    // The lock has been handed over, but the caller is not polled.
    sleep(ttl * 2).await;
    let guard = late.await.unwrap();
    assert!(guard.is_valid() && guard.remaining() > ttl / 2, "{:?}", guard.remaining());
    assert!(guard.token() > token);
    assert!(guard.release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_handover_checks_the_options_of_the_caller_that_moves_up() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).ttl(Duration::from_secs(1)).connect().await.unwrap();
    let first = locks.lock("r").acquire().await.unwrap();
    let leaves = tokio::spawn(locks.lock("r").acquire());
    sleep(WORK).await;
    let longer = Duration::from_secs(20);
    let stays = tokio::spawn(locks.lock("r").ttl(longer).acquire());
    sleep(WORK).await;
    leaves.abort();
    drop(first);
    let guard = stays.await.unwrap().unwrap();
    assert!(guard.remaining() > longer / 2);
    sleep(longer / 4).await;
    assert_eq!(cluster.holding(), 5, "the keys live as long as the lease claims");
}

#[tokio::test(start_paused = true)]
async fn a_manager_says_how_many_callers_wait_for_what() {
    let cluster = MemoryCluster::new(5);
    let (here, there) = (cluster.manager(), cluster.manager());
    let waiting = || -> Vec<(String, String, usize)> {
        let mut waiting: Vec<_> = here.waiting().into_iter().map(|w| (w.resource, w.template, w.callers)).collect();
        waiting.sort();
        waiting
    };
    let (mine, theirs) = (here.lock("mine").acquire().await.unwrap(), there.lock("theirs").acquire().await.unwrap());
    assert_eq!(waiting(), []);

    let wait_for = |resource: &str| tokio::spawn(here.lock(resource).template("t").wait(WAIT).acquire());
    let waiters = ["mine", "mine", "theirs", "theirs", "theirs"].map(wait_for);
    sleep(WORK).await;
    // The first caller of "mine" has no template, and holds the lock.
    let row = |resource: &str, template: &str, callers| (resource.to_owned(), template.to_owned(), callers);
    assert_eq!(waiting(), [row("mine", "other", 2), row("theirs", "t", 3)]);

    waiters[1].abort();
    sleep(WORK).await;
    assert_eq!(waiting(), [row("mine", "other", 1), row("theirs", "t", 3)]);
    drop((mine, theirs));
    for waiter in waiters {
        drop(waiter.await);
    }
    eventually("nobody waits", || waiting().is_empty()).await;
}
