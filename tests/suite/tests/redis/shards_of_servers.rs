//! Shards over independent servers.

use std::collections::HashSet;
use std::time::Duration;

use lock_core::{ConfigError, LockManager, LockManagerBuilder, NodeError};
use lock_support::{Kind, RedisCluster, RedisServer, all_nodes_vote, eventually_async, try_every_kind};

const TTL: Duration = Duration::from_secs(2);

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

fn over(sets: &[&RedisServer]) -> LockManagerBuilder {
    let builder = LockManager::builder().ttl(TTL).max_ttl(TTL);
    sets.iter().fold(builder, |builder, server| builder.set([server.url()]))
}

// promise: exclusion, turns
#[tokio::test]
async fn every_kind_of_lock_is_acquired_renewed_and_released_in_sets_of_servers() {
    let [one, two] = [RedisCluster::start(3).await, RedisCluster::start(1).await];
    let urls = |cluster: &RedisCluster| cluster.servers.iter().map(RedisServer::url).collect::<Vec<_>>();
    try_every_kind(|| LockManager::builder().set(urls(&one)).set(urls(&two)), &Kind::ALL).await;
}

// promise: exclusion
#[tokio::test]
async fn each_set_of_servers_has_locks_of_its_own_and_one_that_is_away_stops_no_other() {
    let mut servers = RedisCluster::start(4).await.servers;
    let locks = over(&servers.iter().collect::<Vec<_>>()).connect().await.unwrap();
    let mut held = Vec::new();
    for number in 0..40 {
        held.push(locks.lock(format!("stock:{number}")).acquire().await.unwrap());
    }
    let mut counts = Vec::new();
    for server in &servers {
        counts.push(server.keys("lock:stock:*").await.len());
    }
    assert!(counts.iter().sum::<usize>() == 40 && counts.iter().all(|count| *count > 3), "{counts:?}");
    servers[2].kill();
    eventually_async("a shard is away", async || locks.health().await.shards_without_quorum == [2]).await;
    drop(held);
    let mut granted = 0;
    for number in 0..40 {
        granted += usize::from(locks.lock(format!("stock:{number}")).wait(TTL).acquire().await.is_ok());
    }
    assert_eq!(granted, 40 - counts[2]);
}

// promise: membership
#[tokio::test]
async fn sets_in_another_order_or_of_another_number_and_their_servers_named_otherwise_are_refused() {
    let servers = RedisCluster::start(4).await.servers;
    let [a, b, c, d] = [&servers[0], &servers[1], &servers[2], &servers[3]];
    over(&[a, b]).connect().await.unwrap().shutdown(Duration::ZERO).await;
    // One of several shards says so first.
    let refused = async |builder: LockManagerBuilder, differences: &[[&str; 2]]| {
        let error = builder.connect().await.unwrap_err().to_string();
        let mut texts = differences.iter().map(|[ours, theirs]| format!("shards is {ours} here, but {theirs}"));
        assert!(texts.any(|text| error.contains(&text)), "{error}");
    };
    refused(over(&[b, a]), &[["set 1 of 2", "set 2 of 2"], ["set 2 of 2", "set 1 of 2"]]).await;
    refused(over(&[a]), &[["set 1 of 1", "set 1 of 2"]]).await;
    let of_four = [["set 1 of 4", "set 1 of 2"], ["set 2 of 4", "set 2 of 2"]];
    refused(over(&[a, b, c, d]), &of_four).await;
    refused(LockManager::builder().redis([a.url()]), &[["1", "set 1 of 2"]]).await;
    refused(LockManager::builder().redis([a.url()]).shards(2), &[["2", "set 1 of 2"]]).await;
    // Although the first set lost everything.
    a.query::<String>("FLUSHALL").await;
    refused(over(&[a, b, c, d]), &of_four).await;
    assert!(over(&[a, b]).connect().await.is_ok());
    for server in [c, d] {
        assert_eq!(server.keys("*").await, Vec::<String>::new(), "nothing was formed");
    }
}

#[test]
fn sets_that_are_no_power_of_two_or_beside_others_are_refused_with_the_remedy() {
    let sets = |count: usize| {
        (0..count)
            .fold(LockManager::builder(), |builder, port| builder.set([format!("redis://10.0.0.1:{}", 7000 + port)]))
    };
    assert_eq!(sets(3).connect_lazy().err(), Some(ConfigError::InvalidSets { sets: 3 }));
    let beside = sets(2).redis(["redis://10.0.0.2"]).connect_lazy().unwrap_err();
    assert!(beside.to_string().contains("name all masters with set"), "{beside}");
    let shards = sets(2).shards(4).connect_lazy().unwrap_err();
    assert!(shards.to_string().contains("leave shards out"), "{shards}");
    let twice = sets(1).set(["redis://10.0.0.1:7000"]).connect_lazy().err();
    assert_eq!(twice, Some(ConfigError::DuplicateNode { node: "10.0.0.1:7000".into() }));
    let even = LockManager::builder().set(["redis://10.0.0.1", "redis://10.0.0.2"]).connect_lazy();
    assert_eq!(even.err(), Some(ConfigError::EvenNodes { nodes: 2 }));
}
