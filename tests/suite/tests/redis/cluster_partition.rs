//! A primary of a cluster that is cut off from the other servers, while clients still reach it.

use std::time::Duration;

use lock_core::{LockManager, LockManagerBuilder, NodeError, Vote};
use lock_support::{Bus, SlotCluster, all_nodes_vote, eventually_async};

use crate::cluster_faults::{Load, TTL, one_load, slots};

/// A primary that is cut off goes on for this long: longer than these tests take, on a busy machine too.
const LONG_NODE_TIMEOUT: [&str; 2] = ["--cluster-node-timeout", "60000"];
/// How many of its replicas have to acknowledge a vote, and how fast.
const ACKNOWLEDGED: (u32, Duration) = (1, Duration::from_millis(250));

// promise: replicas, quarantine
#[tokio::test]
async fn a_primary_that_is_cut_off_and_still_reached_grants_nothing_when_its_successor_does() {
    let _one = one_load().await;
    let (cluster, bus) = SlotCluster::start_with_bus(3, 1, &[]).await;
    let (load, locks, tasks) = Load::begin(&cluster).await;
    let (_, owner) = slots(&cluster).await[0];
    load.longest_without("the start").await;
    bus.cut_off(&cluster, owner);
    eventually_async("its replica took its place", async || {
        cluster.servers[cluster.replica_of(owner)].is_primary().await
    })
    .await;
    assert!(cluster.servers[owner].is_primary().await, "it does not know");
    load.longest_without("a primary was cut off").await;
    bus.heal();
    cluster.all_agree().await;
    all_nodes_vote(&locks).await;
    load.end(tasks).await;
}

/// A service that knows only a primary which is cut off, and one that finds the replica which an operator had take its place by force.
/// Returns them with the place of the replica. With other seeds the first one would find the replica, too, when it connects again, which
/// it may at any time on a busy machine.
async fn split(
    cluster: &SlotCluster,
    bus: &Bus,
    builder: impl Fn() -> LockManagerBuilder,
) -> (LockManager, LockManager, usize) {
    let builder = |seeds| builder().redis_cluster([seeds]).ttl(TTL).max_ttl(TTL).node_timeout(TTL / 4);
    let owner = cluster.owner(cluster.slot("{lock:#0}").await).await.unwrap();
    let ours = builder(format!("redis://{}", cluster.servers[owner].address())).connect().await.unwrap();
    assert!(ours.lock("r").acquire().await.unwrap().release().await.unwrap());
    let successor = cluster.replica_of(owner);
    bus.cut_off(cluster, owner);
    cluster.servers[successor].query::<String>("CLUSTER FAILOVER TAKEOVER").await;
    let address = format!("{}@", cluster.servers[successor].address());
    for other in (0..3).filter(|other| *other != owner) {
        eventually_async("the others know the successor", async || {
            let nodes = cluster.servers[other].query::<String>("CLUSTER NODES").await;
            nodes.lines().any(|line| line.contains(&address) && line.contains(" master "))
        })
        .await;
    }
    let theirs = builder(cluster.url()).connect().await.unwrap();
    all_nodes_vote(&theirs).await;
    (ours, theirs, successor)
}

// promise: replicas
#[tokio::test]
async fn a_primary_that_is_cut_off_and_its_successor_by_force_may_grant_one_lock_twice() {
    let (cluster, bus) = SlotCluster::start_with_bus(3, 1, &LONG_NODE_TIMEOUT).await;
    let (ours, theirs, _) = split(&cluster, &bus, LockManager::builder).await;
    // A busy machine may not answer in time.
    eventually_async("both hold the lock, as the page says", async || {
        let both = tokio::join!(theirs.lock("r").try_acquire(), ours.lock("r").try_acquire());
        matches!(both, (Ok(second), Ok(first)) if first.is_valid() && second.is_valid())
    })
    .await;
}

// promise: replicas
#[tokio::test]
async fn a_primary_that_is_cut_off_from_its_replicas_grants_nothing_beside_its_successor_if_votes_are_replicated() {
    let (cluster, bus) = SlotCluster::start_with_bus(3, 2, &LONG_NODE_TIMEOUT).await;
    let builder = || LockManager::builder().replicated(ACKNOWLEDGED.0, ACKNOWLEDGED.1);
    let (ours, theirs, successor) = split(&cluster, &bus, builder).await;
    let successor = &cluster.servers[successor];
    eventually_async("the other replica follows the successor", async || {
        successor.query::<String>("INFO replication").await.contains("state=online")
    })
    .await;
    // A busy machine may not answer in time.
    let mut second = None;
    eventually_async("the successor grants the lock", async || {
        second = theirs.lock("r").try_acquire().await.ok();
        second.is_some()
    })
    .await;
    eventually_async("the vote is refused for want of replicas", async || {
        let refused = ours.lock("r").try_acquire().await.unwrap_err();
        refused.votes().iter().any(|vote| matches!(vote.vote, Vote::Failed(NodeError::NotReplicated { .. })))
    })
    .await;
}
