//! Redis Clusters as masters.

use std::time::Duration;

use lock_core::masters::Refusal;
use lock_core::{ConfigError, ConnectError, LockError, LockManager, LockManagerBuilder, NodeError};
use lock_support::{Kind, RedisServer, SlotCluster, all_nodes_vote, eventually_async, free_port, try_every_kind};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(5);

fn over(cluster: &SlotCluster, shards: u32) -> LockManagerBuilder {
    LockManager::builder().redis_cluster([cluster.url()]).shards(shards).max_ttl(TTL).ttl(TTL).node_timeout(TTL / 5)
}

async fn refusal(builder: LockManagerBuilder) -> Refusal {
    match builder.connect().await.unwrap_err() {
        ConnectError::Config(ConfigError::RefusedNode { refusal, .. }) => refusal,
        other => panic!("{other}"),
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("stock:{number}")).collect()
}

// promise: exclusion, turns
#[tokio::test]
async fn every_kind_of_lock_is_acquired_renewed_and_released_in_a_cluster() {
    let cluster = SlotCluster::start(3, 0).await;
    try_every_kind(|| LockManager::builder().redis_cluster([cluster.url()]).shards(16), &Kind::ALL).await;
}

// promise: exclusion, turns
#[tokio::test]
async fn every_kind_of_lock_is_acquired_renewed_and_released_in_three_clusters() {
    let clusters = futures_util::future::join_all((0..3).map(|_| SlotCluster::start(1, 0))).await;
    let urls: Vec<_> = clusters.iter().map(SlotCluster::url).collect();
    try_every_kind(|| LockManager::builder().redis_cluster(&urls).shards(2), &Kind::ALL).await;
}

// promise: exclusion, fencing
#[tokio::test]
async fn the_locks_of_shards_are_on_all_servers_and_each_is_in_one_slot() {
    let cluster = SlotCluster::start(3, 0).await;
    let locks = over(&cluster, 16).connect().await.unwrap();
    let rival = over(&cluster, 16).connect().await.unwrap();
    let mut held = Vec::new();
    for name in names(100) {
        held.push(locks.lock(name).acquire().await.unwrap());
    }
    for server in &cluster.servers {
        let keys: Vec<_> = server.keys("{lock:#*}stock:*").await;
        assert!(keys.len() > 15, "{}", keys.len());
    }
    assert_eq!(cluster.keys("{lock:#*}stock:*").await.len(), 100);
    for name in names(100) {
        assert!(matches!(rival.lock(name).try_acquire().await, Err(LockError::Contended { .. })));
    }
    let before = held[0].token();
    drop(held);
    assert!(rival.lock("stock:0").acquire().await.unwrap().token() > before);
}

// promise: turns
#[tokio::test]
async fn waiters_are_woken_by_channels_of_the_slot() {
    let cluster = SlotCluster::start(3, 0).await;
    let [ours, theirs] = [over(&cluster, 4).connect().await.unwrap(), over(&cluster, 4).connect().await.unwrap()];
    let listening = async || cluster.query_all::<Vec<String>>("PUBSUB SHARDCHANNELS").await.concat().len();
    // What is delegated is left to expire when its guards are dropped, and nobody is woken.
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Delegated) {
        for name in names(8) {
            let name = format!("{kind:?}:{name}");
            let held = kind.acquire(&ours, &name).await.unwrap();
            let waiting = tokio::spawn({
                let theirs = theirs.clone();
                async move { kind.rival(&theirs, &name, TTL * 2).await.map(|_| Instant::now()) }
            });
            eventually_async("it waits", async || !theirs.waiting().is_empty()).await;
            eventually_async("it listens", async || listening().await > 0).await;
            drop(held);
            waiting.await.unwrap().unwrap();
        }
    }
    assert!(listening().await >= 4, "one for each shard");
    let ordinary = cluster.query_all::<Vec<String>>("PUBSUB CHANNELS").await.concat();
    assert_eq!(ordinary, Vec::<String>::new(), "no message goes to all servers");
    // Not one was left to a timer.
    let commands = cluster.query_all::<String>("INFO commandstats").await.concat();
    assert!(commands.contains("cmdstat_spublish"), "{commands}");
}

// promise: health
#[tokio::test]
async fn what_is_no_cluster_or_not_one_is_refused_with_the_remedy() {
    let (plain, one, other) =
        (RedisServer::start().await, SlotCluster::start(1, 0).await, SlotCluster::start(1, 0).await);
    let refused = refusal(LockManager::builder().redis_cluster([plain.url()])).await;
    assert_eq!(refused, Refusal::NotCluster { server: plain.address() });
    assert!(refused.to_string().contains("name it with redis"), "{refused}");

    let both = format!("{},{}", one.url(), other.servers[0].address());
    let refused = refusal(LockManager::builder().redis_cluster([both])).await;
    assert!(matches!(refused, Refusal::OtherCluster { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains(&one.servers[0].address()) && text.contains(&other.servers[0].address()), "{text}");

    let refused = refusal(LockManager::builder().redis([one.servers[0].url()])).await;
    assert!(matches!(refused, Refusal::ClusterMode { .. }) && refused.to_string().contains("redis_cluster"));

    let mixed = LockManager::builder().redis_cluster([one.url()]).redis([plain.url()]).connect_lazy();
    assert!(matches!(mixed, Err(ConfigError::MixedClusters { .. })), "{mixed:?}");
    let braces = LockManager::builder().redis_cluster([one.url()]).prefix("{shop}:").connect_lazy();
    assert!(matches!(braces, Err(ConfigError::InvalidName { field: "prefix", .. })), "{braces:?}");
    let database = LockManager::builder().redis_cluster([format!("{}/1", one.url())]).connect_lazy();
    assert!(database.unwrap_err().to_string().contains("no database but 0"));

    let _locks = over(&one, 4).connect().await.unwrap();
    let refused = refusal(over(&one, 8)).await;
    assert!(refused.to_string().starts_with("shards is 8 here, but 4"), "{refused}");
}

// promise: membership
#[tokio::test]
async fn a_client_with_another_number_of_shards_is_refused_although_the_server_of_the_first_one_lost_everything() {
    let cluster = SlotCluster::start(3, 0).await;
    over(&cluster, 4).connect().await.unwrap().shutdown(Duration::ZERO).await;
    let first = cluster.owner(cluster.slot("{lock:#0}").await).await.unwrap();
    cluster.servers[first].query::<String>("FLUSHALL").await;
    for other in [1, 2, 16] {
        let refused = refusal(over(&cluster, other)).await;
        assert!(refused.to_string().starts_with(&format!("shards is {other} here, but 4")), "{refused}");
    }
    assert!(over(&cluster, 4).connect().await.is_ok());
}

#[tokio::test]
async fn a_seed_that_is_gone_keeps_nobody_from_the_cluster() {
    let mut cluster = SlotCluster::start(3, 1).await;
    let gone = format!("127.0.0.1:{}", free_port());
    let url = cluster.url().replace("redis://", &format!("redis://{gone},"));
    let locks = LockManager::builder().redis_cluster([url]).shards(4).max_ttl(TTL).connect().await.unwrap();
    drop(locks.lock("r").acquire().await.unwrap());
    let nobody = LockManager::builder().redis_cluster([format!("redis://{gone}")]);
    let error = nobody.connect_timeout(Duration::from_secs(1)).connect().await.unwrap_err();
    assert!(error.to_string().contains(&gone), "{error}");
    // Nor does a primary that is gone, when its replica has taken its place.
    let slot = cluster.slot("{lock:#0}").await;
    let owner = cluster.owner(slot).await.unwrap();
    cluster.servers[owner].kill();
    let began = Instant::now();
    eventually_async("the replica is asked", async || locks.health().await.quorum).await;
    assert!(began.elapsed() < Duration::from_secs(30));
}

// promise: quarantine
#[tokio::test]
async fn a_failover_stops_the_shards_of_one_server_for_max_ttl_and_no_others() {
    let cluster = SlotCluster::start(3, 1).await;
    let locks = over(&cluster, 16).connect().await.unwrap();
    let mut held = Vec::new();
    for name in names(100) {
        held.push(locks.lock(name).max_hold(Duration::from_secs(120)).acquire().await.unwrap());
    }
    cluster.fail_over(cluster.replica_of(1)).await;
    // A look in which another node did not reply in time counts for nothing: the next one has to show the same.
    eventually_async("the shards of one server of three are in quarantine, and no others stand still", async || {
        let health = locks.health().await;
        let joining = health.nodes.iter().filter(|node| matches!(node.problem, Some(NodeError::Quarantined { .. })));
        let stopped = health.shards_without_quorum.len();
        (4..=7).contains(&stopped) && joining.count() == stopped
    })
    .await;
    all_nodes_vote(&locks).await;
    let valid = held.iter().filter(|lease| lease.is_valid()).count();
    assert!((50..90).contains(&valid), "those of two servers of three are still held: {valid}");
    drop(held);
    for name in names(100) {
        assert!(locks.lock(name).acquire().await.is_ok());
    }
}

// promise: exclusion
#[tokio::test]
async fn with_three_clusters_a_failover_in_one_stops_nothing() {
    let (one, two, three) = tokio::join!(SlotCluster::start(1, 1), SlotCluster::start(1, 0), SlotCluster::start(1, 0));
    let builder = LockManager::builder().redis_cluster([one.url(), two.url(), three.url()]).shards(2);
    let locks = builder.max_ttl(TTL).ttl(TTL).node_timeout(TTL / 5).connect().await.unwrap();
    let held = locks.lock("held").max_hold(Duration::from_secs(120)).acquire().await.unwrap();
    one.fail_over(one.replica_of(0)).await;
    let until = Instant::now() + TTL;
    while Instant::now() < until {
        assert!(locks.lock("r").acquire().await.is_ok());
        sleep(Duration::from_millis(10)).await;
    }
    assert!(held.is_valid());
    all_nodes_vote(&locks).await;
}

// promise: no-leaks
#[tokio::test]
async fn a_manager_has_one_connection_to_each_server_however_many_shards_there_are() {
    let cluster = SlotCluster::start(3, 0).await;
    let [ours, theirs] = [over(&cluster, 64).connect().await.unwrap(), over(&cluster, 64).connect().await.unwrap()];
    let mut held = Vec::new();
    for name in names(200) {
        held.push(ours.lock(&name).acquire().await.unwrap());
    }
    // They listen, too.
    let waiting: Vec<_> =
        names(200).into_iter().map(|name| tokio::spawn(theirs.lock(name).wait(TTL * 4).acquire())).collect();
    eventually_async("all wait", async || theirs.waiting().len() == 200).await;
    eventually_async("there are two for each server, and the one that asks", async || {
        let clients = cluster.query_all::<String>("CLIENT LIST").await;
        clients.iter().all(|clients| clients.lines().count() == 3)
    })
    .await;
    drop(held);
    for waiting in waiting {
        drop(waiting.await.unwrap().unwrap());
    }
}
