//! Shards over independent servers.

use std::collections::HashSet;
use std::time::Duration;

use lock_core::{LockManager, NodeError};
use lock_support::{Kind, RedisCluster, all_nodes_vote, eventually_async, try_every_kind};

// promise: exclusion, turns
#[tokio::test]
async fn every_kind_of_lock_is_acquired_renewed_and_released_in_shards() {
    let cluster = RedisCluster::start(3).await;
    try_every_kind(|| cluster.builder().shards(16), &Kind::ALL).await;
}

// promise: quarantine
#[tokio::test]
async fn what_happens_to_one_shard_stops_no_other() {
    let cluster = RedisCluster::start(1).await;
    let locks = cluster.builder().shards(4).max_ttl(Duration::from_secs(5)).connect().await.unwrap();
    let mut held = Vec::new();
    for number in 0..40 {
        held.push(locks.lock(format!("stock:{number}")).max_hold(Duration::from_secs(60)).acquire().await.unwrap());
    }
    let mut records = cluster.keys("lock:*{node}").await;
    records.sort();
    assert_eq!(records, ["lock:{node}", "lock:{}1:{node}", "lock:{}2:{node}", "lock:{}3:{node}"]);
    cluster.servers[0].query::<u64>("DEL lock:{}2:{node}").await;
    let mut stopped = HashSet::new();
    eventually_async("the shard is in quarantine", async || {
        let health = locks.health().await;
        stopped.extend(health.shards_without_quorum);
        health.nodes.iter().any(|node| matches!(node.problem, Some(NodeError::Quarantined { .. })))
    })
    .await;
    assert_eq!(stopped, HashSet::from([2]));
    all_nodes_vote(&locks).await;
    let valid = held.iter().filter(|lease| lease.is_valid()).count();
    assert!((20..40).contains(&valid), "those of one shard of four are lost: {valid}");
}

#[tokio::test]
async fn a_client_with_another_number_of_shards_is_refused_by_servers() {
    let cluster = RedisCluster::start(1).await;
    let _locks: LockManager = cluster.builder().shards(4).connect().await.unwrap();
    for other in [1, 2, 16] {
        let error = cluster.builder().shards(other).connect().await.unwrap_err().to_string();
        assert!(error.contains(&format!("shards is {other} here, but 4")), "{error}");
    }
    assert_eq!(cluster.keys("lock:*{node}").await.len(), 4, "nothing was formed");
}

// promise: membership
#[tokio::test]
async fn a_client_with_another_number_of_shards_is_refused_although_the_record_of_the_first_one_is_gone() {
    let cluster = RedisCluster::start(3).await;
    cluster.builder().shards(4).connect().await.unwrap().shutdown(Duration::ZERO).await;
    for server in &cluster.servers {
        assert_eq!(server.query::<u64>("DEL lock:{node}").await, 1);
    }
    for other in [1, 2, 16] {
        let error = cluster.builder().shards(other).connect().await.unwrap_err().to_string();
        assert!(error.contains(&format!("shards is {other} here, but 4")), "{error}");
    }
    assert_eq!(cluster.keys("lock:*{node}").await.len(), 9, "nothing was formed");
    assert!(cluster.builder().shards(4).connect().await.is_ok());
}

#[tokio::test]
async fn all_shards_share_the_connection_to_a_server() {
    let cluster = RedisCluster::start(1).await;
    let locks = cluster.builder().shards(16).connect().await.unwrap();
    for number in 0..100 {
        drop(locks.lock(format!("stock:{number}")).acquire().await.unwrap());
    }
    eventually_async("there is one, and the one that asks", async || {
        cluster.servers[0].query::<String>("CLIENT LIST").await.lines().count() == 2
    })
    .await;
}
