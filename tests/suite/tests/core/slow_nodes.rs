//! Nodes that reply late are not away: what they reply counts, and they are given as long as they take. In virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::node::{Operation, QueuePosition, ReplySender, Request};
use lock_core::{LockError, LockManager, LockNode, MemoryNode};
use lock_support::{MemoryCluster, Recorder, ask};
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
        sleep(SECOND / 10).await;
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

/// How many attempts each node has to undo while a caller waits for a lock that another process holds. A majority of five nodes takes 10 ms,
/// and the others as long as this.
async fn undone_while_waiting(minority: [Duration; 2]) -> Vec<usize> {
    let cluster = MemoryCluster::new(5);
    let recorders: Vec<_> = cluster.nodes.iter().cloned().map(Recorder::new).collect();
    let (holder, waiter) = (
        cluster.builder().connect().await.unwrap(),
        LockManager::builder().nodes(recorders.clone()).wait(20 * SECOND).connect().await.unwrap(),
    );
    let held = holder.lock("r").acquire().await.unwrap();
    set_delay(&cluster.nodes[..3], Duration::from_millis(10));
    cluster.nodes[3..].iter().zip(minority).for_each(|(node, delay)| node.set_delay(delay));
    let waiting = tokio::spawn(waiter.lock("r").acquire());
    sleep(SECOND / 2).await;
    drop((waiting, held));
    let is_undo =
        |request: &Operation| matches!(request, Operation::Release { position: QueuePosition::Keep { .. }, .. });
    recorders.iter().map(|node| node.requests().iter().filter(|request| is_undo(request)).count()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_has_nothing_to_undo_on_nodes_that_refuse_a_little_later() {
    let later = Duration::from_millis(19);
    assert_eq!(undone_while_waiting([later, later]).await, [0; 5]);
}

// promise: minority-faults
#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_undoes_its_attempts_on_nodes_that_hang() {
    let undone = undone_while_waiting([Duration::from_millis(15), HANGS]).await;
    assert_eq!(undone[..4], [0; 4]);
    assert!(undone[4] > 0);
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

/// A node whose replies to some requests come late, although it carries them out at once.
struct LateReplies {
    node: MemoryNode,
    is_late: fn(&Operation) -> bool,
    by: Duration,
}

impl LockNode for LateReplies {
    lock_core::forward_to_node!(self => self.node; name inspect write_record read_fences wakeups disconnected disconnect look evict);

    fn submit(&self, request: Request, reply_to: ReplySender) {
        if !(self.is_late)(&request.operation) {
            return self.node.submit(request, reply_to);
        }
        let (reply, by) = (ask(&self.node, request), self.by);
        tokio::spawn(async move {
            let reply = reply.await;
            sleep(by).await;
            reply_to.send(reply);
        });
    }
}

impl LateReplies {
    /// A manager whose requests of this kind are replied to late by the nodes of the cluster.
    async fn manager(cluster: &MemoryCluster, by: Duration, is_late: fn(&Operation) -> bool) -> LockManager {
        let nodes = cluster.nodes.iter().map(|node| Self { node: node.clone(), is_late, by });
        let builder = LockManager::builder().nodes(nodes).wait(20 * SECOND).ttl(9 * SECOND);
        builder.node_timeout(NODE_TIMEOUT * 8).connect().await.unwrap()
    }
}

// promise: forced-release, overload
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_taken_away_before_its_late_grant_arrived_is_lost_at_once() {
    let cluster = MemoryCluster::new(3);
    let is_acquire = |operation: &Operation| matches!(operation, Operation::Acquire { .. });
    let late = LateReplies::manager(&cluster, NODE_TIMEOUT * 6, is_acquire).await;
    let others = cluster.manager();
    let acquired = tokio::spawn(async move { late.lock("r").acquire().await });
    sleep(NODE_TIMEOUT).await;
    others.force_release("r").await.unwrap();
    let successor = others.lock("r").try_acquire().await.unwrap();
    let guard = acquired.await.unwrap().unwrap();
    assert!(guard.token() < successor.token());
    let granted = Instant::now();
    guard.lost().await;
    assert!(granted.elapsed() < NODE_TIMEOUT, "{:?}", granted.elapsed());
}

// promise: forced-release, several-locks
#[tokio::test(start_paused = true)]
async fn a_set_is_not_completed_by_a_late_reply_to_whether_its_locks_are_still_held() {
    let cluster = MemoryCluster::new(3);
    let is_extend = |operation: &Operation| matches!(operation, Operation::Extend { .. });
    let late = LateReplies::manager(&cluster, NODE_TIMEOUT * 6, is_extend).await;
    let others = cluster.manager();
    let second = others.lock("b").acquire().await.unwrap();
    let set = tokio::spawn(async move { late.lock_all(["a", "b"]).acquire().await.map(|_| Instant::now()) });
    // It has the first, waits for the second, and asks about the first again.
    sleep(SECOND / 2).await;
    second.release().await.unwrap();
    sleep(Duration::from_millis(10)).await;
    others.force_release("a").await.unwrap();
    let successor = others.lock("a").try_acquire().await.unwrap();
    sleep(2 * SECOND).await;
    let released = Instant::now();
    successor.release().await.unwrap();
    assert!(set.await.unwrap().unwrap() >= released);
}

// promise: delegation, overload
#[tokio::test(start_paused = true)]
async fn a_delegation_is_adopted_and_kept_although_the_nodes_became_slow() {
    let (cluster, locks) = slow(Duration::ZERO).await;
    let adopter = cluster.builder().connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    let delegation = guard.delegate().expires_in(60 * SECOND).create().unwrap();
    set_delay(&cluster.nodes, NODE_TIMEOUT * 3);
    let adopted = adopter.adopt(delegation.as_str(), "r").await.unwrap();
    sleep(30 * SECOND).await;
    assert!(guard.is_valid() && adopted.is_valid());
}

// promise: minority-faults
#[tokio::test(start_paused = true)]
async fn an_attempt_waits_no_longer_for_a_node_that_hangs_when_another_one_is_down() {
    let (cluster, locks) = slow(Duration::ZERO).await;
    set_delay(&cluster.nodes[..2], HANGS);
    cluster.nodes[2].set_down(true);
    let waiting = tokio::spawn(async move { locks.lock("r").acquire().await });
    sleep(NODE_TIMEOUT / 2).await;
    assert_eq!(cluster.holding(), 2);
    sleep(NODE_TIMEOUT).await;
    assert_eq!(cluster.holding(), 0, "the attempt was undone at the node timeout");
    waiting.abort();
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn a_close_ends_an_attempt_that_is_late() {
    let (cluster, locks) = slow(Duration::ZERO).await;
    set_delay(&cluster.nodes[..3], HANGS);
    let waiting = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock("r").acquire().await.map(drop) }
    });
    sleep(NODE_TIMEOUT * 2).await;
    let closed = Instant::now();
    locks.close();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    assert_eq!(closed.elapsed(), Duration::ZERO);
}

// promise: no-leaks
#[tokio::test(start_paused = true)]
async fn a_node_whose_release_was_lost_is_asked_again_while_another_one_hangs() {
    let (cluster, locks) = slow(Duration::ZERO).await;
    let guard = locks.lock("r").acquire().await.unwrap();
    set_delay(&cluster.nodes[3..], HANGS);
    assert_eq!(guard.release().await, Ok(true));
    assert_eq!(cluster.holding(), 2);
    // Its connection breaks, and is back at once.
    let lost = &cluster.nodes[3];
    lost.set_down(true);
    lost.set_delay(Duration::ZERO);
    lost.set_down(false);
    sleep(SECOND).await;
    assert_eq!(cluster.holding(), 1);
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
