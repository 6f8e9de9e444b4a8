//! How long the next waiter waits when the processes before it in the queue do not come.

use std::time::Duration;

use lock_support::{RedisCluster, RedisServer, alone};
use tokio::time::Instant;

use crate::waiter::{Waiter, eventually_queued};

/// For how long the free key is kept for a waiter that does not come.
const TURN: Duration = Duration::from_millis(100);
/// What a release, a wake-up and an attempt may take on a busy machine.
const SLACK: Duration = Duration::from_millis(150);

/// How many processes are before the next waiter.
const BEFORE: [u32; 3] = [1, 2, 8];

/// What becomes of a process that waits.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Killed,
    Frozen,
}

/// The time from a release until the next waiter has the lock, if some processes before it do not come.
async fn release_to_grant(before: u32, fate: Fate) -> Duration {
    let cluster = RedisCluster::start(5).await;
    let masters: Vec<_> = cluster.servers.iter().map(RedisServer::url).collect();
    let connect = async || cluster.builder().wait(Duration::from_secs(60)).connect().await.unwrap();
    let (holder, live) = (connect().await, connect().await);
    let held = holder.lock("r").acquire().await.unwrap();
    let mut waiters = Vec::new();
    for place in 1..=before {
        let mut waiter = Waiter::start("r", &masters).await;
        waiter.ask(1).await;
        eventually_queued(&cluster, place as usize).await;
        waiters.push(waiter);
    }
    let waiting = live.lock("r").acquire();
    let waiting = tokio::spawn(async move { waiting.await.map(|guard| (Instant::now(), guard)) });
    eventually_queued(&cluster, before as usize + 1).await;
    let mut frozen = Vec::new();
    for waiter in waiters {
        match fate {
            Fate::Killed => drop(waiter.kill().await),
            Fate::Frozen => {
                waiter.freeze();
                frozen.push(waiter);
            }
        }
    }
    let released = Instant::now();
    held.release().await.unwrap();
    let (granted, _guard) = waiting.await.unwrap().unwrap();
    assert!(frozen.iter().all(|waiter| waiter.granted() == 0));
    granted - released
}

/// The times for each number of processes, as far as they are longer than they may be.
async fn too_long(fate: Fate, limit: fn(u32) -> Duration) -> Vec<(u32, Duration)> {
    let mut too_long = Vec::new();
    for before in BEFORE {
        let took = release_to_grant(before, fate).await;
        if took > limit(before) {
            too_long.push((before, took));
        }
    }
    too_long
}

// promise: turns
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_died_in_the_queue_do_not_delay_the_next_one() {
    let _alone = alone().await;
    assert_eq!(too_long(Fate::Killed, |_| TURN + SLACK).await, []);
}

// promise: turns
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_frozen_process_in_the_queue_delays_the_next_one_by_a_reservation() {
    let _alone = alone().await;
    assert_eq!(too_long(Fate::Frozen, |before| before * TURN + SLACK).await, []);
}
