//! The line of one process: first come first served, and the lock handed from one to the next. In virtual time.

use std::future::Future as _;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::poll;
use lock_core::node::Operation;
use lock_core::{LockError, LockManager, MemoryNode};
use lock_support::{MemoryCluster, Recorder, eventually};
use tokio::time::{Instant, sleep};

const WAIT: Duration = Duration::from_secs(30);
const WORK: Duration = Duration::from_millis(1);

/// Managers over one set of masters, each of which writes down what it is asked.
struct Recorded(Vec<Recorder<MemoryNode>>);

impl Recorded {
    fn new() -> Self {
        Self((0..5).map(|_| Recorder::new(MemoryNode::new())).collect())
    }

    async fn manager(&self) -> LockManager {
        LockManager::builder().nodes(self.0.clone()).wait(WAIT).connect().await.unwrap()
    }

    /// What all masters together were asked.
    fn requests(&self) -> usize {
        self.0.iter().map(|node| node.requests().len()).sum()
    }
}

/// Takes the lock, notes its token and who had it, and gives it back.
async fn cycle(locks: LockManager, who: usize, story: Arc<Mutex<Vec<(usize, u64)>>>) {
    let guard = locks.lock("r").acquire().await.unwrap();
    story.lock().unwrap().push((who, guard.token().get()));
    sleep(WORK).await;
    assert!(guard.release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn callers_of_one_process_get_the_lock_in_the_order_in_which_they_came_with_growing_tokens() {
    let recorded = Recorded::new();
    let locks = recorded.manager().await;
    let story = Arc::default();
    join_all((0..100).map(|who| cycle(locks.clone(), who, Arc::clone(&story)))).await;
    let story = story.lock().unwrap();
    assert!(story.iter().map(|(who, _)| *who).eq(0..100), "{story:?}");
    assert!(story.is_sorted_by(|(_, earlier), (_, later)| earlier < later), "{story:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_handed_over_costs_the_masters_nothing_but_not_without_end() {
    let recorded = Recorded::new();
    let locks = recorded.manager().await;
    let story = Arc::default();
    join_all((0..162).map(|who| cycle(locks.clone(), who, Arc::clone(&story)))).await;
    // The first came alone, and reserved one token for a follower; then runs of sixteen.
    let acquires = recorded.0[0].owners().len();
    assert_eq!(acquires, 11);
    assert!(recorded.requests() <= 162, "{} requests for 162 cycles", recorded.requests());
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_not_handed_over_for_longer_than_its_run() {
    let recorded = Recorded::new();
    let locks = recorded.manager().await;
    let first = locks.lock("r").acquire().await.unwrap();
    let waiting: Vec<_> = (0..3).map(|_| tokio::spawn(locks.lock("r").acquire())).collect();
    sleep(WORK).await;
    drop(first);
    for waiting in waiting {
        let guard = waiting.await.unwrap().unwrap();
        sleep(Duration::from_millis(21)).await;
        drop(guard);
    }
    // The second had it from the first.
    assert_eq!(recorded.0[0].owners().len(), 3, "each asked for itself");
}

#[tokio::test(start_paused = true)]
async fn one_that_wants_another_time_to_live_is_not_handed_what_it_did_not_ask_for() {
    let recorded = Recorded::new();
    let locks = recorded.manager().await;
    let others = [locks.lock("r").ttl(Duration::from_secs(3)), locks.lock("r").renew(false)];
    for other in others {
        let before = recorded.0[0].owners().len();
        let first = locks.lock("r").acquire().await.unwrap();
        let waiting = [tokio::spawn(locks.lock("r").acquire()), tokio::spawn(other.acquire())];
        sleep(WORK).await;
        drop(first);
        for waiting in waiting {
            drop(waiting.await.unwrap().unwrap());
        }
        // The first, who handed it to the second, and the one that wants another.
        assert_eq!(recorded.0[0].owners().len() - before, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_with_the_lock_in_its_hands_passes_it_on() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).connect().await.unwrap();
    let first = locks.lock("r").acquire().await.unwrap();
    {
        let mut dropped = pin!(locks.lock("r").acquire());
        assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(first);
        // The lock is its own now, and it is not asked any more.
    }
    let started = Instant::now();
    locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
    eventually("nothing is left", || cluster.lock_keys().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_need_not_wait_for_a_guard_that_holds_nothing_any_more() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).connect().await.unwrap();
    let ttl = Duration::from_millis(200);
    let started = Instant::now();
    let lost = locks.lock("r").ttl(ttl).renew(false).acquire().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    assert!(started.elapsed() <= ttl * 2, "{:?}", started.elapsed());
    assert!(!lost.is_valid() && guard.is_valid() && guard.token() > lost.token());
    assert!(!lost.release().await.unwrap());
    assert!(guard.release().await.unwrap(), "it was not touched");
}

#[tokio::test(start_paused = true)]
async fn that_no_majority_answers_is_told_to_all_who_stand_in_line() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).connect().await.unwrap();
    cluster.nodes[..3].iter().for_each(|node| node.set_delay(Duration::from_secs(3600)));
    let started = Instant::now();
    for outcome in join_all((0..50).map(|_| locks.lock("r").acquire())).await {
        assert!(matches!(outcome, Err(LockError::NoQuorum { votes, .. }) if votes.len() == 5));
    }
    assert!(started.elapsed() < Duration::from_millis(200), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn one_that_has_more_time_for_the_masters_is_not_told_what_another_found() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).connect().await.unwrap();
    for node in &cluster.nodes {
        node.set_delay(Duration::from_millis(20));
    }
    // It awaits a master for a twentieth of its time to live.
    let hasty = locks.lock("r").ttl(Duration::from_millis(200)).acquire();
    let others = [300, 100, 1000].map(|ttl| locks.lock("r").ttl(Duration::from_millis(ttl)).acquire());
    let (hasty, others) = tokio::join!(hasty, join_all(others));
    assert!(matches!(hasty, Err(LockError::NoQuorum { .. })));
    let [longer, shorter, longest] = &others[..] else { panic!() };
    assert!(matches!(shorter, Err(LockError::NoQuorum { .. })));
    assert!(matches!(longer, Err(LockError::NoQuorum { .. })), "by itself: it has 15 ms");
    assert!(longest.is_ok());
}

#[tokio::test(start_paused = true)]
async fn one_that_leaves_after_its_line_ended_takes_nobody_out_of_the_next_one() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(WAIT).connect().await.unwrap();
    for node in &cluster.nodes[..3] {
        node.set_delay(Duration::from_secs(3600));
    }
    let acquire = || Box::pin(locks.lock("r").acquire());
    let (mut head, mut behind) = (acquire(), acquire());
    assert!(poll!(&mut head).is_pending() && poll!(&mut behind).is_pending());
    // The one behind is told, too, but it is not its turn yet.
    assert!(matches!(head.await, Err(LockError::NoQuorum { .. })));
    let (mut new_head, mut new_behind) = (acquire(), acquire());
    assert!(poll!(&mut new_head).is_pending() && poll!(&mut new_behind).is_pending());
    assert!(matches!(behind.await, Err(LockError::NoQuorum { .. })));
    let (new_head, new_behind) = tokio::join!(new_head, new_behind);
    assert!(matches!(new_head, Err(LockError::NoQuorum { .. })));
    assert!(matches!(new_behind, Err(LockError::NoQuorum { .. })), "{new_behind:?}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_for_a_lock_that_is_held_elsewhere_ask_once_a_second() {
    let recorded = Recorded::new();
    let (holder, locks) = (recorded.manager().await, recorded.manager().await);
    let held = holder.lock("r").acquire().await.unwrap();
    let waiting: Vec<_> = (0..1000).map(|_| tokio::spawn(locks.lock("r").acquire())).collect();
    sleep(Duration::from_secs(1)).await;
    let before = recorded.requests();
    sleep(Duration::from_secs(10)).await;
    let a_second = (recorded.requests() - before) / 10;
    // The one in front asks; and the holder renews.
    assert!((5..=10).contains(&a_second), "{a_second} requests a second");
    drop(held);
    for waiting in waiting {
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_is_done_within_a_third_of_the_time_to_live_renews_nothing() {
    let recorded = Recorded::new();
    let locks = recorded.manager().await;
    for _ in 0..20 {
        let guard = locks.lock("r").ttl(Duration::from_secs(3)).acquire().await.unwrap();
        sleep(Duration::from_millis(999)).await;
        guard.release().await.unwrap();
    }
    let extends = recorded.0.iter().map(Recorder::renewals).sum::<usize>();
    assert_eq!(extends, 0);
    let replaced = |request: &Operation| matches!(request, Operation::Replace { .. });
    assert!(!recorded.0.iter().any(|node| node.requests().iter().any(replaced)));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_ended_on_its_way_to_the_next_is_not_handed_to_it() {
    let cluster = MemoryCluster::new(5);
    let ttl = Duration::from_secs(1);
    let locks = cluster.builder().wait(WAIT).ttl(ttl).connect().await.unwrap();
    let first = locks.lock("r").acquire().await.unwrap();
    let token = first.token();
    let mut late = pin!(locks.lock("r").acquire());
    assert!(late.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(first);
    // It is its own, and its task sleeps.
    sleep(ttl * 2).await;
    let guard = late.await.unwrap();
    assert!(guard.is_valid() && guard.remaining() > ttl / 2, "{:?}", guard.remaining());
    assert!(guard.token() > token);
    assert!(guard.release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn when_the_next_in_line_leaves_the_lock_is_not_handed_to_one_that_it_does_not_fit() {
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
    assert_eq!(cluster.holding(), 5, "the masters hold it for as long as its holder thinks");
}
