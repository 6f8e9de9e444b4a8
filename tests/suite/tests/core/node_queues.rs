//! The queues on the nodes: the order among several processes. In virtual time; each manager stands for a process.

use std::num::NonZeroU64;
use std::time::Duration;

use futures_util::StreamExt as _;
use lock_core::node::{Kind, Operation, OwnerId, Position, RESERVATION_TTL, Reply};
use lock_core::{LockError, LockGuard, LockManager};
use lock_support::MemoryCluster;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

pub(crate) const WAIT: Duration = Duration::from_secs(30);
/// Not a whole number of seconds, so that no timer fires at the same time.
pub(crate) const HOLD: Duration = Duration::from_millis(5_300);

pub(crate) async fn processes(cluster: &MemoryCluster, count: usize) -> Vec<LockManager> {
    let mut managers = Vec::new();
    for _ in 0..count {
        managers.push(cluster.builder().wait(WAIT).connect().await.unwrap());
    }
    managers
}

/// Drops the guard of a lock. Returns how long it then takes until the waiter has had it.
pub(crate) async fn wait_after_release(held: LockGuard, waiting: JoinHandle<Result<LockGuard, LockError>>) -> Duration {
    drop(held);
    let released = Instant::now();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    released.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_a_waiter_in_another_process() {
    let cluster = MemoryCluster::new(5);
    let managers = processes(&cluster, 2).await;
    let held = managers[0].lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(managers[1].lock("r").acquire());
    sleep(HOLD).await;
    let waited = wait_after_release(held, waiting).await;
    assert!(waited < Duration::from_millis(5), "{waited:?}");
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn processes_are_served_in_the_order_in_which_they_began_to_wait() {
    let cluster = MemoryCluster::new(5);
    let managers = processes(&cluster, 6).await;
    let held = managers[0].lock("r").acquire().await.unwrap();
    let mut waiting = Vec::new();
    for locks in &managers[1..] {
        waiting.push(tokio::spawn(locks.lock("r").acquire()));
        sleep(Duration::from_millis(50)).await;
    }
    sleep(HOLD).await;
    let mut last = held.token();
    held.release().await.unwrap();
    for waiting in waiting {
        let started = Instant::now();
        let guard = waiting.await.unwrap().unwrap();
        assert!(started.elapsed() < Duration::from_millis(5), "{:?}", started.elapsed());
        assert!(guard.token() > last);
        last = guard.token();
        guard.release().await.unwrap();
    }
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_busy_process_does_not_starve_the_others() {
    let cluster = MemoryCluster::new(5);
    let managers = processes(&cluster, 3).await;
    let ends = Instant::now() + Duration::from_secs(20);
    let mut shares = Vec::new();
    for (locks, tasks) in managers.iter().zip([1, 4, 16]) {
        for _ in 0..tasks {
            let locks = locks.clone();
            shares.push(tokio::spawn(async move {
                let mut cycles = 0_u32;
                while Instant::now() < ends {
                    let guard = locks.lock("r").acquire().await.unwrap();
                    sleep(Duration::from_millis(1)).await;
                    guard.release().await.unwrap();
                    cycles += 1;
                }
                (tasks, cycles)
            }));
        }
    }
    let mut least = u32::MAX;
    for share in shares {
        least = least.min(share.await.unwrap().1);
    }
    // In each round every process has one run: at most 16 + 16 + 16 cycles of 1 ms, each rounded up by the timer.
    assert!(least > 20_000 / (3 * 16 * 2 * 16), "{least}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_left_delays_nobody() {
    let cluster = MemoryCluster::new(5);
    let managers = processes(&cluster, 3).await;
    let held = managers[0].lock("r").acquire().await.unwrap();
    let leaves = tokio::spawn(managers[1].lock("r").acquire());
    sleep(Duration::from_millis(50)).await;
    let stays = tokio::spawn(managers[2].lock("r").acquire());
    sleep(HOLD).await;
    leaves.abort();
    sleep(Duration::from_millis(50)).await;
    let waited = wait_after_release(held, stays).await;
    assert!(waited < Duration::from_millis(5), "{waited:?}");
}

/// Lets a process that does nothing else wait for the lock on all nodes, before anybody else.
async fn wait_raw(cluster: &MemoryCluster, resource: &str) {
    for node in 0..cluster.nodes.len() {
        let (owner, since) = (OwnerId::from_bits(7), Some(NonZeroU64::MIN));
        let acquire = Operation::Acquire { owner, ttl: HOLD, hint: 0, tokens: 1, since, kind: Kind::Write };
        let reply = cluster.raw(node).await.send(resource, acquire).await;
        let position = Some(Position { ahead: 0, anew: true });
        assert!(matches!(reply, Ok(Reply::Held { position: at, .. }) if at == position), "{reply:?}");
    }
}

// promise: no-deadlock
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_process_ended_delays_nobody() {
    let cluster = MemoryCluster::new(5);
    let managers = processes(&cluster, 2).await;
    let held = managers[0].lock("r").acquire().await.unwrap();
    wait_raw(&cluster, "r").await;
    let waiting = tokio::spawn(managers[1].lock("r").acquire());
    sleep(HOLD).await;
    let waited = wait_after_release(held, waiting).await;
    assert!(waited < Duration::from_millis(5), "{waited:?}");
}

// promise: no-deadlock
#[tokio::test(start_paused = true)]
async fn a_frozen_waiter_costs_its_reservation_not_a_ttl() {
    let cluster = MemoryCluster::new(5);
    let managers = processes(&cluster, 2).await;
    let held = managers[0].lock("r").acquire().await.unwrap();
    wait_raw(&cluster, "r").await;
    let mut frozen = Vec::new();
    for node in 0..5 {
        frozen.push(cluster.raw(node).await.listen().await);
    }
    let waiting = tokio::spawn(managers[1].lock("r").acquire());
    sleep(HOLD).await;
    let waited = wait_after_release(held, waiting).await;
    assert!(waited >= RESERVATION_TTL && waited < RESERVATION_TTL + Duration::from_millis(15), "{waited:?}");
}

// promise: turns
#[tokio::test(start_paused = true)]
async fn a_free_key_is_reserved_for_the_first_waiter() {
    let cluster = MemoryCluster::new(1);
    let managers = processes(&cluster, 1).await;
    let held = managers[0].lock("r").acquire().await.unwrap();
    wait_raw(&cluster, "r").await;
    let mut frozen = cluster.raw(0).await.listen().await;
    held.release().await.unwrap();
    let wakeup = frozen.next().await.unwrap();
    assert_eq!((wakeup.lock_key.as_str(), wakeup.before), ("lock:r", 0));
    // The key is free but reserved: neither a caller that does not wait nor one behind the first waiter gets the lock.
    assert!(managers[0].lock("r").try_acquire().await.is_err());
    let started = Instant::now();
    let late = managers[0].lock("r").acquire().await.unwrap();
    assert!(started.elapsed() >= RESERVATION_TTL && started.elapsed() < RESERVATION_TTL * 2, "{:?}", started.elapsed());
    drop(late);
}

// promise: no-deadlock
#[tokio::test(start_paused = true)]
async fn a_process_that_is_woken_for_a_lock_it_does_not_want_leaves_it_to_the_next() {
    let cluster = MemoryCluster::new(5);
    let managers = processes(&cluster, 3).await;
    let held = managers[0].lock("r").acquire().await.unwrap();
    let leaves = tokio::spawn(managers[1].lock("r").acquire());
    sleep(Duration::from_millis(50)).await;
    let stays = tokio::spawn(managers[2].lock("r").acquire());
    sleep(Duration::from_millis(50)).await;
    // What says that it leaves does not get through.
    cluster.nodes.iter().for_each(|node| node.set_delay(HOLD * 2));
    leaves.abort();
    _ = leaves.await;
    cluster.nodes.iter().for_each(|node| {
        node.set_down(true);
        node.set_down(false);
        node.set_delay(Duration::ZERO);
    });
    sleep(HOLD).await;
    held.release().await.unwrap();
    let released = Instant::now();
    stays.await.unwrap().unwrap().release().await.unwrap();
    assert!(released.elapsed() < Duration::from_millis(5), "{:?}", released.elapsed());
}
