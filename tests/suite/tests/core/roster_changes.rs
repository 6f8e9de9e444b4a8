//! Promise 5 while the members change: acquisitions go on. In virtual time.

use std::time::Duration;

use lock_core::inspection::LockVerdict;
use lock_core::{LockError, LockManager};
use lock_support::MemoryCluster;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
/// A `ttl` that is not renewed while the members change.
const LONG: Duration = Duration::from_secs(60);
const NODE_TIMEOUT: Duration = Duration::from_millis(100);
const ROUND_TRIP: Duration = Duration::from_millis(5);
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

/// A set with one manager, whose members change because another manager allows a longer time to live.
struct Changing {
    cluster: MemoryCluster,
    locks: LockManager,
}

impl Changing {
    /// The members change; and what `asks` awaits begins so many round trips after that.
    async fn while_it_does<T>(&self, after: u32, asks: impl Future<Output = T>) -> T {
        self.cluster.nodes.iter().for_each(|node| node.set_delay(ROUND_TRIP));
        let changing = self.cluster.builder().ttl(LONG).max_ttl(LONG * 2).connect();
        let asking = async {
            sleep(ROUND_TRIP * after).await;
            asks.await
        };
        let (changed, answer) = tokio::join!(changing, asking);
        changed.unwrap();
        answer
    }

    /// For each number of round trips after which they may be asked.
    async fn each(asks: impl AsyncFn(Self, u32)) {
        for after in 0..12 {
            let cluster = MemoryCluster::new(3);
            let locks = cluster.builder().ttl(LONG).max_ttl(LONG).connect().await.unwrap();
            asks(Self { cluster, locks }, after).await;
        }
    }
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn a_manager_is_ready_while_the_members_change() {
    Changing::each(async |set, after| {
        let ready = set.while_it_does(after, set.locks.ready()).await;
        assert_eq!(ready, Ok(()), "after {after} round trips");
    })
    .await;
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn the_set_has_a_quorum_while_its_members_change() {
    Changing::each(async |set, after| {
        let health = set.while_it_does(after, set.locks.health()).await;
        assert!(
            health.quorum && health.nodes.iter().all(|node| node.admitted),
            "after {after} round trips: {health:?}"
        );
    })
    .await;
}

// promise: membership
#[tokio::test(start_paused = true)]
async fn a_lock_is_seen_to_be_held_while_the_members_change() {
    Changing::each(async |set, after| {
        let _held = set.locks.lock("r").acquire().await.unwrap();
        let report = set.while_it_does(after, set.locks.inspect("r")).await.unwrap();
        assert_eq!(report.verdict(), LockVerdict::Held, "after {after} round trips: {report:?}");
    })
    .await;
}

// promise: membership, forced-release
#[tokio::test(start_paused = true)]
async fn a_lock_is_taken_from_its_holder_while_the_members_change() {
    Changing::each(async |set, after| {
        let held = set.locks.lock("r").acquire().await.unwrap();
        let forced = set.while_it_does(after, set.locks.force_release("r")).await.unwrap();
        assert!(held.token() < forced.token && forced.evicted.len() == 1, "after {after} round trips");
        let next = set.locks.lock("r").acquire().await.unwrap();
        assert!(forced.token < next.token(), "after {after} round trips");
    })
    .await;
}

// promise: membership, readers
#[tokio::test(start_paused = true)]
async fn a_writer_goes_on_to_read_while_the_members_change() {
    Changing::each(async |set, after| {
        let writing = set.locks.lock("r").acquire().await.unwrap();
        let reading = set.while_it_does(after, writing.downgrade()).await.unwrap();
        assert!(reading.is_valid(), "after {after} round trips");
        let other = set.cluster.builder().ttl(LONG).max_ttl(LONG * 2).connect().await.unwrap();
        assert!(other.read("r").try_acquire().await.is_ok(), "after {after} round trips");
        assert!(other.lock("r").try_acquire().await.is_err(), "after {after} round trips");
    })
    .await;
}

// promise: readers
#[tokio::test(start_paused = true)]
async fn a_downgrade_without_a_majority_names_the_nodes_that_failed() {
    let cluster = MemoryCluster::new(3);
    let locks = cluster.builder().ttl(TTL).node_timeout(NODE_TIMEOUT).connect().await.unwrap();
    let writing = locks.lock("r").acquire().await.unwrap();
    cluster.nodes[1..].iter().for_each(|node| node.set_delay(HANGS));
    let Err(LockError::NoQuorum { votes, .. }) = writing.downgrade().await else { panic!("two of three hang") };
    assert_eq!(votes.len(), 2, "{votes:?}");
}
