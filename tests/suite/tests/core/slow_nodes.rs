//! Nodes that reply late are not away: what they reply counts, and they are given as long as they take. In virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{LockError, LockManager, MemoryNode};
use lock_support::{MemoryCluster, Recorder};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

const NODE_TIMEOUT: Duration = Duration::from_millis(50);
const SECOND: Duration = Duration::from_secs(1);
const HANGS: Duration = Duration::from_secs(3600);

fn set_delay(nodes: &[MemoryNode], delay: Duration) {
    nodes.iter().for_each(|node| node.set_delay(delay));
}

/// Five nodes that take so long, and a manager that does not know yet.
async fn slow(delay: Duration) -> (MemoryCluster, LockManager) {
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().wait(20 * SECOND).connect().await.unwrap();
    set_delay(&cluster.nodes, delay);
    (cluster, locks)
}

// promise: overload
#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_late_counts_and_is_not_undone() {
    let nodes: Vec<_> = (0..5).map(|_| MemoryNode::new()).collect();
    let recorders: Vec<_> = nodes.iter().cloned().map(Recorder::new).collect();
    let locks = LockManager::builder().nodes(recorders.clone()).connect().await.unwrap();
    let late = NODE_TIMEOUT * 6;
    set_delay(&nodes, late);
    let started = Instant::now();
    let guard = locks.lock("r").acquire().await.unwrap();
    assert_eq!(started.elapsed(), late);
    assert!(guard.remaining() < Duration::from_secs(10) - late, "the validity counts from before the requests");
    assert!(recorders.iter().all(|node| node.requests().len() == 1), "{:?}", recorders[0].requests());
}

// promise: overload
#[tokio::test(start_paused = true)]
async fn nodes_are_given_as_long_as_they_took_lately() {
    let (cluster, locks) = slow(NODE_TIMEOUT * 3).await;
    assert!(matches!(locks.lock("r").try_acquire().await, Err(LockError::NoQuorum { .. })), "not known yet");
    sleep(SECOND).await;
    for _ in 0..5 {
        locks.lock("r").try_acquire().await.unwrap().release().await.unwrap();
    }
    // As soon as they are fast again, no longer than before.
    set_delay(&cluster.nodes, Duration::ZERO);
    for _ in 0..30 {
        locks.lock("r").try_acquire().await.unwrap().release().await.unwrap();
    }
    set_delay(&cluster.nodes[..3], HANGS);
    let started = Instant::now();
    assert!(matches!(locks.lock("r").try_acquire().await, Err(LockError::NoQuorum { .. })));
    assert_eq!(started.elapsed(), NODE_TIMEOUT);
}

// promise: overload
#[tokio::test(start_paused = true)]
async fn nobody_that_waits_is_turned_away_while_a_majority_answers() {
    for delay in [60, 150, 400, 800].map(Duration::from_millis) {
        let (_cluster, locks) = slow(delay).await;
        for number in 0..20 {
            let held = locks.lock(format!("r{}", number % 3)).acquire().await;
            held.unwrap_or_else(|error| panic!("{delay:?}: {error}")).release().await.unwrap();
        }
    }
}

// promise: minority-faults
#[tokio::test(start_paused = true)]
async fn a_minority_that_hangs_after_all_were_slow_costs_nothing() {
    let (cluster, locks) = slow(NODE_TIMEOUT * 4).await;
    for _ in 0..10 {
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    }
    let round_trip = Duration::from_millis(3);
    set_delay(&cluster.nodes, round_trip);
    set_delay(&cluster.nodes[..2], HANGS);
    let started = Instant::now();
    for _ in 0..10 {
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(started.elapsed(), round_trip * 20);
}

// promise: overload
#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_by_nodes_that_became_slow() {
    let (ttl, delay) = (SECOND, NODE_TIMEOUT * 3);
    let cluster = MemoryCluster::new(5);
    let locks = cluster.builder().ttl(ttl).connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    set_delay(&cluster.nodes, delay);
    sleep(10 * ttl).await;
    assert!(guard.is_valid());
    // What is gone is noticed all the same: by the next renewal.
    cluster.nodes.iter().for_each(MemoryNode::forget);
    let gone = Instant::now();
    guard.lost().await;
    assert!(gone.elapsed() <= ttl, "{:?}", gone.elapsed());
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_longer_for_nodes_that_were_slow() {
    let (cluster, locks) = slow(SECOND * 4 / 5).await;
    for _ in 0..3 {
        locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    }
    let guard = locks.lock("r").acquire().await.unwrap();
    set_delay(&cluster.nodes, HANGS);
    drop(guard);
    let started = Instant::now();
    locks.shutdown(Duration::ZERO).await;
    assert!(started.elapsed() <= 2 * SECOND, "{:?}", started.elapsed());
}

/// How many turns each of many managers has in some time, and how many callers were turned away.
async fn turns(cluster: &MemoryCluster, managers: usize, length: Duration) -> (Vec<usize>, usize) {
    let mut all = Vec::new();
    for _ in 0..managers {
        all.push(cluster.builder().wait(60 * SECOND).connect().await.unwrap());
    }
    let (until, turned_away) = (Instant::now() + length, Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for locks in all {
        let turned_away = Arc::clone(&turned_away);
        tasks.spawn(async move {
            let mut turns = 0;
            while let Ok(acquired) = timeout_at(until, locks.lock("r").acquire()).await {
                match acquired {
                    Ok(guard) => {
                        sleep(Duration::from_millis(2)).await;
                        drop(guard);
                        turns += 1;
                    }
                    Err(_) => _ = turned_away.fetch_add(1, Ordering::Relaxed),
                }
            }
            turns
        });
    }
    let turns = tasks.join_all().await;
    (turns, turned_away.load(Ordering::Relaxed))
}

// promise: overload
#[tokio::test(start_paused = true)]
async fn all_have_turns_at_nodes_that_stand_still_most_of_the_time() {
    for managers in [16, 64] {
        let cluster = MemoryCluster::new(5);
        let nodes = cluster.nodes.clone();
        let stutter = tokio::spawn(async move {
            loop {
                set_delay(&nodes, HANGS);
                sleep(Duration::from_millis(80)).await;
                set_delay(&nodes, Duration::ZERO);
                sleep(Duration::from_millis(20)).await;
            }
        });
        let (turns, turned_away) = turns(&cluster, managers, 20 * SECOND).await;
        stutter.abort();
        println!("{managers}: {} turns, {turned_away} turned away", turns.iter().sum::<usize>());
        assert_eq!(turned_away, 0);
        assert!(turns.iter().all(|turns| *turns > 0), "{managers}: {turns:?}");
    }
}
