//! Promise 5 while the members change: acquisitions go on. In virtual time.

use std::time::Duration;

use lock_core::LockManager;
use lock_support::MemoryCluster;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const NODE_TIMEOUT: Duration = Duration::from_millis(100);
const HANGS: Duration = Duration::from_secs(3600);

/// Acquires locks, one after another, until `done`. Returns how long the longest acquisition took.
async fn longest_acquisition(locks: &LockManager, done: impl Future<Output = ()>) -> Duration {
    let mut longest = Duration::ZERO;
    let acquiring = async {
        for attempt in 0_u32.. {
            let started = Instant::now();
            drop(locks.lock(format!("r-{attempt}")).acquire().await.unwrap());
            longest = longest.max(started.elapsed());
        }
    };
    tokio::select! {
        () = acquiring => {}
        () = done => {}
    }
    longest
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn a_change_of_the_members_fails_no_acquisition_and_waits_for_no_node_that_hangs() {
    let cluster = MemoryCluster::new(5);
    let builder = || cluster.builder().ttl(TTL).node_timeout(NODE_TIMEOUT);
    let locks = builder().max_ttl(TTL).connect().await.unwrap();
    let before = locks.members().await.unwrap().generation;
    // They answer one after another, so an attempt may see the change on some of them only.
    for (node, round_trip) in cluster.nodes.iter().zip([1, 4, 7]) {
        node.set_delay(Duration::from_millis(round_trip));
    }
    cluster.nodes[3..].iter().for_each(|node| node.set_delay(HANGS));
    let changes = async {
        // Each of these managers allows a longer time to live, which takes a new roster.
        for times in 2..12 {
            builder().max_ttl(TTL * times).connect().await.unwrap();
            sleep(Duration::from_millis(u64::from(times) * 13)).await;
        }
    };
    let longest = longest_acquisition(&locks, changes).await;
    assert!(locks.members().await.unwrap().generation >= before + 10);
    assert!(longest < NODE_TIMEOUT, "{longest:?}");
}
