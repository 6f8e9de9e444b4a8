//! The end of a manager: closing, shutdown, and the releases that it waits for. In virtual time.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LossReason, ShutdownReport, Vote};
use lock_support::{MemoryCluster, eventually};
use tokio::time::{Instant, sleep};

const WAIT: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn close_rejects_new_acquisitions_wakes_waiters_and_leaves_holders_alone() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    let holder = locks.lock("r").acquire().await.unwrap();
    let waiting: Vec<_> = (0..3).map(|_| tokio::spawn(locks.lock("r").wait(GRACE).acquire())).collect();
    sleep(WAIT).await;
    let closed = Instant::now();
    locks.close();
    for waiter in join_all(waiting).await {
        let error = waiter.unwrap().unwrap_err();
        assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
        assert!(error.waited() >= WAIT, "{:?}", error.waited());
    }
    assert!(closed.elapsed() < Duration::from_millis(10), "{:?}", closed.elapsed());
    let error = locks.lock("other").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    assert!(error.retry_after().is_some());
    sleep(GRACE * 2).await;
    assert!(holder.is_valid(), "its lease is still renewed");
    assert!(holder.release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn closed_resolves_when_the_manager_is_closed_and_at_once_after_that() {
    let locks = MemoryCluster::new(5).manager();
    let mut closed = std::pin::pin!(locks.closed());
    assert!(futures_util::poll!(closed.as_mut()).is_pending());
    locks.clone().close();
    closed.await;
    locks.closed().await;
}

#[tokio::test(start_paused = true)]
async fn close_on_closes_when_its_future_completes() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    let closing = tokio::spawn(locks.close_on(async {
        sleep(WAIT).await;
        "any output"
    }));
    assert!(locks.lock("r").acquire().await.is_ok());
    closing.await.unwrap();
    assert!(locks.lock("r").acquire().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_the_holders_and_reports_them() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    let work: Vec<_> = (1..=3)
        .map(|seconds| {
            let locks = locks.clone();
            tokio::spawn(async move {
                let work = async |_| sleep(Duration::from_secs(seconds)).await;
                locks.lock(format!("r{seconds}")).run(work).await
            })
        })
        .collect();
    eventually("all hold their locks", || locks.held().len() == 3).await;
    let started = Instant::now();
    let report = locks.shutdown(GRACE).await;
    assert_eq!(report, ShutdownReport { released: 3, revoked: 0 });
    assert!(started.elapsed().abs_diff(Duration::from_secs(3)) < Duration::from_millis(50), "{:?}", started.elapsed());
    assert_eq!(cluster.lock_keys(), Vec::<String>::new());
    for work in work {
        assert_eq!(work.await.unwrap(), Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_revokes_the_leases_that_are_left_after_the_grace_period() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    let slow = locks.lock("slow").acquire().await.unwrap();
    let quick = locks.lock("quick").acquire().await.unwrap();
    let started = Instant::now();
    let quick = async {
        sleep(GRACE / 2).await;
        assert!(quick.release().await.unwrap());
    };
    let (report, ()) = tokio::join!(locks.shutdown(GRACE), quick);
    assert_eq!(report, ShutdownReport { released: 1, revoked: 1 });
    assert_eq!(started.elapsed(), GRACE);
    assert!(matches!(slow.check(), Err(LockError::Lost { reason: LossReason::ShutDown, .. })));
    assert_eq!(cluster.lock_keys(), Vec::<String>::new());
    assert!(locks.held().is_empty());
    drop(slow);
    assert_eq!(
        locks.shutdown(GRACE).await,
        ShutdownReport { released: 0, revoked: 0 },
        "a second shutdown finds nothing"
    );
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_releases_in_flight_but_not_forever() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(30)));
    drop(guard);
    locks.shutdown(GRACE).await;
    assert_eq!(cluster.lock_keys(), Vec::<String>::new());

    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    cluster.nodes[..4].iter().for_each(|node| node.set_down(true));
    drop(guard);
    let started = Instant::now();
    locks.shutdown(Duration::ZERO).await;
    assert!(started.elapsed() <= WAIT, "{:?}", started.elapsed());
    assert_eq!(cluster.nodes[4].lock_keys(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_the_cleanup_of_an_acquisition_in_flight() {
    for after in 0..70 {
        let cluster = MemoryCluster::new(5);
        let locks = cluster.builder().connect().await.unwrap();
        cluster.nodes.iter().for_each(|node| node.set_delay(Duration::from_millis(30)));
        let acquiring = tokio::spawn(locks.lock("r").acquire());
        sleep(Duration::from_millis(after)).await;
        locks.shutdown(Duration::ZERO).await;
        assert_eq!(cluster.lock_keys(), Vec::<String>::new(), "shutdown {after} ms after the acquisition began");
        if let Ok(guard) = acquiring.await.unwrap() {
            assert!(!guard.is_valid());
        }
        sleep(Duration::from_millis(100)).await;
        assert_eq!(cluster.lock_keys(), Vec::<String>::new(), "shutdown {after} ms after the acquisition began");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_after_an_immediate_shutdown_reports_the_replies_of_the_nodes() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    for (node, delay) in cluster.nodes.iter().zip([1, 1, 1, 1, 3_600_000]) {
        node.set_delay(Duration::from_millis(delay));
    }
    assert_eq!(locks.shutdown(Duration::ZERO).await.revoked, 1);
    assert_eq!(guard.release().await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn a_release_without_a_quorum_names_the_nodes_that_are_missing() {
    let cluster = MemoryCluster::new(5);
    let node_timeout = Duration::from_millis(30);
    let locks = cluster.builder().node_timeout(node_timeout).connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    cluster.nodes[1].set_down(true);
    for hung in &cluster.nodes[2..4] {
        hung.set_delay(Duration::from_secs(3600));
    }
    let error = guard.release().await.unwrap_err();
    let LockError::NoQuorum { resource, waited, votes } = &error else { panic!("{error}") };
    assert_eq!((resource.as_str(), *waited), ("r", node_timeout));
    let [down, hung @ ..] = &votes[..] else { panic!("{error}") };
    assert!(matches!(down.vote, Vote::Failed(_)), "{error}");
    assert!(hung.len() == 2 && hung.iter().all(|vote| vote.vote == Vote::Pending), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_position_on_a_dead_node_does_not_delay_shutdown() {
    let cluster = MemoryCluster::new(5);
    let (holder, locks) = (cluster.builder().connect().await.unwrap(), cluster.builder().connect().await.unwrap());
    let held = holder.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.lock("r").acquire());
    sleep(Duration::from_millis(10)).await;
    cluster.nodes[4].set_down(true);
    assert!(held.release().await.unwrap());
    assert!(waiting.await.unwrap().unwrap().release().await.unwrap());
    let closing = Instant::now();
    locks.shutdown(GRACE).await;
    assert_eq!(closing.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn close_ends_callers_that_wait_for_the_first_connections() {
    let cluster = MemoryCluster::new(5);
    cluster.builder().connect().await.unwrap();
    cluster.nodes.iter().for_each(|node| node.set_delay(GRACE));
    let locks = cluster.builder().wait(GRACE).connect_lazy().unwrap();
    let (one, set) = (tokio::spawn(locks.lock("r").acquire()), tokio::spawn(locks.lock_all(["a", "b"]).acquire()));
    sleep(Duration::from_millis(100)).await;
    let closed = Instant::now();
    locks.close();
    let errors = [one.await.unwrap().unwrap_err(), set.await.unwrap().unwrap_err()];
    assert!(errors.iter().all(|error| matches!(error, LockError::ShuttingDown { .. })), "{errors:?}");
    assert_eq!(closed.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_lost_before_is_in_no_report() {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().connect().await.unwrap();
    let lost = locks.lock("lost").max_hold(WAIT).acquire().await.unwrap();
    lost.lost().await;
    let _held = locks.lock("held").acquire().await.unwrap();
    let ended = locks.lock("ended").acquire().await.unwrap();
    let (report, ()) = tokio::join!(locks.shutdown(GRACE), async {
        sleep(GRACE / 2).await;
        drop(ended);
    });
    assert_eq!(report, ShutdownReport { released: 1, revoked: 1 });
}
