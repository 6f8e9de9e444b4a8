//! A lock that passes from one caller of a process to the next, and what else may happen to it just then. In virtual time.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{Kind, LockError, LockGuard, LockManager, LossReason, MemoryNode};
use lock_support::{MemoryCluster, Recorder, eventually};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(1);

/// Five nodes, two managers, and what the first of them sends to the first node.
async fn managers() -> (MemoryCluster, Recorder<MemoryNode>, [LockManager; 2]) {
    let cluster = MemoryCluster::new(5);
    let recorders: Vec<_> = cluster.nodes.iter().cloned().map(Recorder::new).collect();
    let builder = || LockManager::builder().ttl(TTL).max_ttl(TTL).wait(WAIT);
    let ours = builder().nodes(recorders.clone()).connect().await.unwrap();
    let theirs = builder().nodes(cluster.nodes.clone()).connect().await.unwrap();
    (cluster, recorders[0].clone(), [ours, theirs])
}

/// A holder, and a caller behind it to which its lock will be handed over.
async fn with_a_waiter(locks: &LockManager) -> (LockGuard, JoinHandle<Result<LockGuard, LockError>>) {
    let first = locks.lock("r").acquire().await.unwrap();
    let next = tokio::spawn(locks.lock("r").acquire());
    sleep(SOON).await;
    (first, next)
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_written_is_handed_over_to_no_reader() {
    let (_cluster, node, [ours, theirs]) = managers().await;
    let writer = ours.lock("r").acquire().await.unwrap();
    let readers: Vec<_> = (0..3).map(|_| tokio::spawn(ours.read("r").acquire())).collect();
    sleep(SOON).await;
    let before = node.owners().len();
    let token = writer.token();
    drop(writer);
    let readers: Vec<_> = join_all(readers).await.into_iter().map(|reader| reader.unwrap().unwrap()).collect();
    assert_eq!(node.owners().len() - before, 1, "the first asked, and the others share its hold");
    assert!(readers.iter().all(|reader| reader.kind() == Kind::Read && reader.token() == readers[0].token()));
    assert!(token < readers[0].token());
    assert!(theirs.read("r").try_acquire().await.is_ok(), "the nodes know that it is read");
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn what_a_process_reads_is_handed_over_to_no_writer_before_its_last_reader_ends() {
    let (_cluster, _node, [ours, theirs]) = managers().await;
    for downgraded in [false, true] {
        let (first, last) = if downgraded {
            let writer = ours.lock("r").acquire().await.unwrap();
            let waiting = tokio::spawn(ours.lock("r").wait(SOON * 4).acquire());
            sleep(SOON).await;
            let first = writer.downgrade().await.unwrap();
            let last = theirs.read("r").wait(Duration::ZERO).acquire().await;
            assert!(matches!(waiting.await.unwrap(), Err(LockError::Contended { .. })), "it is read");
            (first, last.unwrap_or(theirs.read("r").acquire().await.unwrap()))
        } else {
            (ours.read("r").acquire().await.unwrap(), ours.read("r").acquire().await.unwrap())
        };
        let writing = tokio::spawn(ours.lock("r").acquire());
        sleep(SOON).await;
        drop(first);
        sleep(TTL * 2).await;
        assert!(!writing.is_finished() && last.is_valid());
        let token = last.token();
        drop(last);
        assert!(token < writing.await.unwrap().unwrap().token());
    }
}

// promise: several-locks
#[tokio::test(start_paused = true)]
async fn a_lock_of_a_set_that_was_handed_over_is_lost_with_the_set_and_free_after_it() {
    let (cluster, node, [ours, theirs]) = managers().await;
    let first = ours.lock("b").acquire().await.unwrap();
    let waiting = tokio::spawn(ours.lock_all(["a", "b"]).acquire());
    sleep(SOON).await;
    let before = node.owners().len();
    let token = first.token().get();
    drop(first);
    let set = waiting.await.unwrap().unwrap();
    assert_eq!((set[1].token().get(), node.owners().len()), (token + 1, before), "without a request");
    theirs.force_release("a").await.unwrap();
    set.lost().await;
    let Err(LockError::Lost { reason, .. }) = set[1].check() else { panic!("{set:?}") };
    assert_eq!(reason, LossReason::SetLost);
    assert!(theirs.lock("b").try_acquire().await.is_err(), "until the work has ended");
    drop(set);
    assert!(theirs.lock("b").try_acquire().await.is_ok());
    eventually("nothing is left", || cluster.holding() == 0).await;
}

// promise: permits
#[tokio::test(start_paused = true)]
async fn a_slot_is_not_handed_over_to_a_caller_that_asked_for_more() {
    let (_cluster, node, [ours, _]) = managers().await;
    for other in [ours.permits("export", 1).renew(false), ours.permits("export", 1).ttl(TTL / 2)] {
        let first = ours.permits("export", 1).acquire().await.unwrap();
        let waiting = tokio::spawn(other.acquire());
        sleep(SOON * 5).await;
        let before = node.owners().len();
        drop(first);
        let next = waiting.await.unwrap().unwrap();
        assert_eq!(node.owners().len() - before, 1, "an attempt of its own");
        assert!(next.remaining() > TTL / 3);
    }
}

/// Whether somebody else gets the lock while a holder is valid.
async fn is_held_alone(held: &LockGuard, others: &[&LockManager]) {
    let (mut granted, began) = (false, Instant::now());
    while !granted && began.elapsed() < TTL * 5 {
        for other in others {
            if let Ok(next) = other.lock("r").try_acquire().await {
                assert!(!held.is_valid() && held.token() < next.token());
                granted = true;
            }
        }
        sleep(SOON * 10).await;
    }
    assert!(granted != held.is_valid());
}

// promise: exclusion, quarantine
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_handed_over_while_masters_forget_it_has_one_holder() {
    // One of all that have it; one of a bare majority; and enough that the set is formed again.
    for (away, forgetful) in [(0, 1), (2, 1), (0, 3), (2, 3)] {
        let (cluster, _node, [ours, theirs]) = managers().await;
        cluster.nodes[5 - away..].iter().for_each(|node| node.set_down(true));
        let (first, next) = with_a_waiter(&ours).await;
        cluster.nodes[5 - away..].iter().for_each(|node| node.set_down(false));
        cluster.nodes[..forgetful].iter().for_each(MemoryNode::forget);
        let token = first.token().get();
        drop(first);
        let next = next.await.unwrap().unwrap();
        assert_eq!(next.token().get(), token + 1, "handed over");
        let fresh = cluster.builder().ttl(TTL).max_ttl(TTL).connect_lazy().unwrap();
        is_held_alone(&next, &[&theirs, &fresh]).await;
        assert_eq!(next.is_valid(), (away, forgetful) == (0, 1), "{forgetful} forgot, and {away} never had it");
    }
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_handed_over_while_its_manager_closes_is_released() {
    for released_first in [false, true] {
        for slots in [false, true] {
            let (cluster, _node, [ours, theirs]) = managers().await;
            // Neither waiter is polled between the two.
            let between = |release: Box<dyn FnOnce()>| {
                if released_first {
                    release();
                    ours.close();
                } else {
                    ours.close();
                    release();
                }
            };
            let refused = if slots {
                let first = ours.permits("r", 1).acquire().await.unwrap();
                let next = tokio::spawn(ours.permits("r", 1).acquire());
                sleep(SOON).await;
                between(Box::new(move || drop(first)));
                next.await.unwrap().err()
            } else {
                let (first, next) = with_a_waiter(&ours).await;
                between(Box::new(move || drop(first)));
                next.await.unwrap().err()
            };
            assert!(matches!(refused, Some(LockError::ShuttingDown { .. })), "{refused:?}");
            let closing = Instant::now();
            let report = ours.shutdown(TTL).await;
            assert_eq!((report.revoked, closing.elapsed()), (0, Duration::ZERO));
            assert_eq!(cluster.holding(), 0);
            assert!(theirs.lock("r").try_acquire().await.is_ok());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handover_makes_room_for_one_caller_in_a_full_queue() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(TTL).wait(WAIT).max_waiters(2).connect().await.unwrap();
    let first = locks.lock("r").acquire().await.unwrap();
    let waiting: Vec<_> = (0..2).map(|_| tokio::spawn(locks.lock("r").acquire())).collect();
    sleep(SOON).await;
    let is_full = async || matches!(locks.lock("r").acquire().await, Err(LockError::QueueFull { waiters: 2, .. }));
    assert!(is_full().await);
    let token = first.token().get();
    drop(first);
    let [second, third] = waiting.try_into().unwrap();
    let second = second.await.unwrap().unwrap();
    assert_eq!(second.token().get(), token + 1, "handed over");
    let fourth = tokio::spawn(locks.lock("r").acquire());
    sleep(SOON).await;
    assert!(is_full().await && !fourth.is_finished());
    drop(second);
    drop(third.await.unwrap().unwrap());
    drop(fourth.await.unwrap().unwrap());
    eventually("nothing is left", || cluster.holding() == 0).await;
}
