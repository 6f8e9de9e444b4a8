//! Masters that were a replica in between: the process is the same, and the data is that of another server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use lock_core::node::{Keyspace, Kind, LockKeys, Operation, OwnerId, Request, WaiterId};
use lock_core::{LockManager, LockNode as _, NodeError, RedisNode};
use lock_support::{Proxy, RedisCluster, RedisServer, all_nodes_vote, ask, eventually_async};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(10);

/// Lets a replica of a master go its own way, when it has what the master has.
async fn part(replica: &RedisServer, master: &RedisServer) {
    eventually_async("the replica has it all", async || {
        let record = "HGETALL lock:{node}";
        replica.query::<Vec<String>>(record).await.len() == master.query::<Vec<String>>(record).await.len()
    })
    .await;
    replica.promote().await;
    replica.query::<String>("CONFIG SET repl-diskless-sync-delay 0").await;
}

/// Makes a master a replica of a copy, and a master again as soon as it has the copy's data instead of its own.
async fn flip(master: &RedisServer, copy: &RedisServer) {
    // It has what the copy has not, so that the data of both cannot be joined.
    master.query::<String>("SET only-there 1").await;
    master.query::<String>(&format!("REPLICAOF 127.0.0.1 {}", copy.port())).await;
    eventually_async("the master has the data of the copy", async || {
        master.is_in_sync().await && master.keys("only-there").await.is_empty()
    })
    .await;
    master.promote().await;
}

/// While the lock is valid that `holder` has on the first two masters, nobody gets it.
async fn nobody_is_granted_beside_a_holder(
    cluster: &RedisCluster,
    copy: &RedisServer,
    contenders: &[&LockManager],
    holder: LockManager,
) {
    part(copy, &cluster.servers[0]).await;
    let held = holder.lock("r").renew(false).acquire().await.unwrap();
    assert_eq!(cluster.servers[2].keys("lock:r").await, Vec::<String>::new(), "only two of the masters granted it");
    flip(&cluster.servers[0], copy).await;
    // One that has just started knows only what the masters say.
    let fresh = cluster.builder().ttl(TTL).max_ttl(TTL).connect_lazy().unwrap();
    let rounds = [(contenders, TTL / 2), (&[&fresh], TTL / 4)];
    assert!(held.remaining() > rounds[0].1, "the masters were too slow");
    for (contenders, until) in rounds {
        while held.remaining() > until {
            for contender in contenders {
                let granted = contender.lock("r").try_acquire().await;
                assert!(
                    granted.is_err(),
                    "beside a lock that is valid for another {:?}: {granted:?}",
                    held.remaining()
                );
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    assert!(held.is_valid());
}

// promise: replicas
#[tokio::test]
async fn a_master_that_was_a_replica_in_between_has_no_vote() {
    let cluster = RedisCluster::start(3).await;
    let copy = cluster.servers[0].start_replica().await;
    let builder = || cluster.builder().ttl(TTL).max_ttl(TTL);
    let connected = builder().connect().await.unwrap();
    let way = Proxy::open(cluster.servers[2].address()).await;
    let [one, two] = [0, 1].map(|server| RedisNode::from_url(&cluster.servers[server].url()).unwrap());
    let holder = LockManager::builder().nodes([one, two, way.node()]).ttl(TTL).max_ttl(TTL).connect().await.unwrap();
    all_nodes_vote(&holder).await;
    all_nodes_vote(&connected).await;
    way.hold();
    nobody_is_granted_beside_a_holder(&cluster, &copy, &[&connected], holder).await;
}

// promise: replicas
#[tokio::test]
async fn a_manager_that_is_not_told_of_a_loss_finds_it_when_it_inspects() {
    let cluster = RedisCluster::start(3).await;
    let copy = cluster.servers[0].start_replica().await;
    for server in &cluster.servers {
        let user = "ACL SETUSER untold on >secret ~* &* +@all -client|tracking";
        assert_eq!(server.query::<String>(user).await, "OK");
    }
    let way = Proxy::open(cluster.servers[2].address()).await;
    let [one, two] = [0, 1].map(|server| RedisNode::from_url(&cluster.servers[server].url()).unwrap());
    let holder = LockManager::builder().nodes([one, two, way.node()]).ttl(TTL).max_ttl(TTL).connect().await.unwrap();
    let urls = cluster.servers.iter().map(|server| format!("redis://untold:secret@{}", server.address()));
    let untold = LockManager::builder().redis(urls).ttl(TTL).max_ttl(TTL).connect_lazy().unwrap();
    all_nodes_vote(&holder).await;
    way.hold();
    // It connects after the master changed.
    nobody_is_granted_beside_a_holder(&cluster, &copy, &[&untold], holder).await;
}

// promise: replicas
#[tokio::test]
async fn no_reply_counts_that_follows_a_loss_of_data() {
    for by_flip in [false, true] {
        let cluster = RedisCluster::start(1).await;
        let server = &cluster.servers[0];
        let copy = server.start_replica().await;
        drop(cluster.builder().connect().await.unwrap());
        part(&copy, server).await;
        let nodes = [RedisNode::from_url(&server.url()).unwrap(), cluster.nodes_from_factories().remove(0)];
        let (keyspace, mut found) = (Arc::new(Keyspace::new("lock:")), Vec::new());
        for node in nodes {
            let epoch = node.inspect(&keyspace).await.unwrap().record.get().unwrap().epoch;
            found.push((node, epoch.unwrap()));
        }
        if by_flip {
            flip(server, &copy).await;
        } else {
            server.query::<String>("FLUSHDB").await;
        }
        for (node, epoch) in found {
            let (keys, owner) = (LockKeys::new(&keyspace, "r"), OwnerId::from_bits(7));
            let operation = Operation::Acquire { owner, ttl: TTL, hint: 0, tokens: 1, since: None, kind: Kind::Write };
            let request = Request { keys, epoch, waiter: WaiterId::from_bits(1), polls: false, operation };
            let reply = ask(&node, request).await;
            let was_told = matches!(reply, Err(NodeError::Unreachable { .. } | NodeError::ConnectionLost { .. }));
            assert!(was_told, "{reply:?}");
        }
    }
}

// promise: replicas
#[tokio::test]
async fn a_master_that_gets_its_first_replica_has_lost_nothing() {
    let cluster = RedisCluster::start(3).await;
    let builder = || cluster.builder().max_ttl(Duration::from_secs(60));
    let locks = builder().connect().await.unwrap();
    let held = locks.lock("held").acquire().await.unwrap();
    let data_id = async || {
        let info: String = cluster.servers[0].query("INFO replication").await;
        info.lines().find(|line| line.starts_with("master_replid:")).unwrap().to_owned()
    };
    let before = data_id().await;
    let _replica = cluster.servers[0].start_replica().await;
    assert_ne!(data_id().await, before, "a first replica gives the data another id");
    // As it happens every half minute.
    locks.members().await.unwrap();
    let fresh = builder().connect().await.unwrap();
    for locks in [&fresh, &locks] {
        let health = locks.health().await;
        assert!(health.nodes.iter().all(|node| node.admitted), "{health:?}");
    }
    assert!(held.release().await.unwrap());
}

// promise: membership
#[tokio::test]
async fn a_name_that_leads_to_the_new_primary_is_followed_although_the_old_one_lives_on_as_a_replica() {
    let (old, new) = (RedisServer::start().await, RedisServer::start().await);
    // Only new connections are made to where the name leads by then.
    let primary = Arc::new(AtomicU16::new(old.port()));
    let node = RedisNode::from_factory("primary", {
        let primary = Arc::clone(&primary);
        move |config| {
            let url = format!("redis://127.0.0.1:{}?protocol=resp3", primary.load(Ordering::SeqCst));
            async move { redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await }
        }
    });
    let ttl = TTL / 10;
    let locks = LockManager::builder().ttl(ttl).max_ttl(ttl).nodes([node]).connect().await.unwrap();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    new.query::<String>(&format!("REPLICAOF 127.0.0.1 {}", old.port())).await;
    eventually_async("the replica is in sync", async || new.is_in_sync().await).await;
    part(&new, &old).await;
    old.query::<String>(&format!("REPLICAOF 127.0.0.1 {}", new.port())).await;
    primary.store(new.port(), Ordering::SeqCst);
    eventually_async("the new primary votes, after its quarantine", async || locks.lock("r").acquire().await.is_ok())
        .await;
    assert_eq!(new.keys("lock:{node}").await.len(), 1);
}
