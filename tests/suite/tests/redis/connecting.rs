//! Connecting to real servers: which servers are refused, logins, and plain Redlock clients on the same keys.

use std::time::Duration;

use lock_core::masters::{NotMember, Refusal};
use lock_core::redis;
use lock_core::{ConfigError, ConnectError, LockError, LockManager, NodeError, Vote};
use lock_support::{Events, RedisCluster, RedisServer, eventually, eventually_async};
use tokio::time::Instant;

async fn refusal(locks: lock_core::LockManagerBuilder) -> (String, Refusal) {
    match locks.connect().await.unwrap_err() {
        ConnectError::Config(ConfigError::RefusedNode { node, refusal }) => (node, refusal),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_replica_is_refused() {
    let mut cluster = RedisCluster::start(3).await;
    let master = RedisServer::start().await;
    let replicaof = format!("127.0.0.1 {}", master.port());
    cluster.servers[1] = RedisServer::start_with(&["--replicaof", &replicaof]).await;
    assert_eq!(refusal(cluster.builder()).await, (cluster.servers[1].address(), Refusal::Replica));
}

#[tokio::test]
async fn a_refusal_is_reported_at_once_although_other_servers_may_be_starting() {
    let mut cluster = RedisCluster::start(3).await;
    let replicaof = format!("127.0.0.1 {}", cluster.servers[0].port());
    cluster.servers[1] = RedisServer::start_with(&["--replicaof", &replicaof]).await;
    cluster.servers[0].kill();
    cluster.servers[2].kill();
    let started = Instant::now();
    let builder = cluster.builder().connect_timeout(Duration::from_secs(60));
    assert_eq!(refusal(builder).await, (cluster.servers[1].address(), Refusal::Replica));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_service_that_is_started_before_its_masters_connects_to_them() {
    let mut cluster = RedisCluster::start(3).await;
    for is_formed in [false, true] {
        if is_formed {
            cluster.builder().connect().await.unwrap();
        }
        cluster.servers.iter_mut().for_each(RedisServer::kill);
        let connecting = tokio::spawn(cluster.builder().connect_timeout(Duration::from_secs(30)).connect());
        for server in &mut cluster.servers {
            server.restart_empty().await;
        }
        connecting.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_server_that_evicts_is_refused() {
    let mut cluster = RedisCluster::start(3).await;
    cluster.servers[2] = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]).await;
    let (node, refusal) = refusal(cluster.builder()).await;
    assert_eq!(node, cluster.servers[2].address());
    assert_eq!(refusal, Refusal::Evicts { policy: "allkeys-lru".into() });
    assert!(refusal.to_string().contains("noeviction"), "{refusal}");
}

#[tokio::test]
async fn two_addresses_of_one_server_are_refused() {
    let cluster = RedisCluster::start(2).await;
    let again = format!("redis://localhost:{}", cluster.servers[0].port());
    let (node, refusal) = refusal(cluster.builder().redis([&again])).await;
    assert_eq!(node, again.trim_start_matches("redis://"));
    assert_eq!(refusal, Refusal::Duplicate { other: cluster.servers[0].address() });
    // Two databases of one server are one server, too.
    let databases = [cluster.servers[0].url(), cluster.servers[1].url(), format!("{}/1", cluster.servers[0].url())];
    let builder = LockManager::builder().redis(databases);
    assert!(matches!(builder.connect().await, Err(ConnectError::Config(ConfigError::RefusedNode { .. }))));
}

#[tokio::test]
async fn an_even_number_of_servers_is_refused() {
    let cluster = RedisCluster::start(2).await;
    let error = cluster.builder().connect().await.unwrap_err();
    assert_eq!(error, ConnectError::Config(ConfigError::EvenNodes { nodes: 2 }));
}

#[tokio::test]
async fn connect_reports_a_missing_majority_and_tolerates_a_dead_minority() {
    let mut cluster = RedisCluster::start(3).await;
    cluster.builder().connect().await.unwrap();
    cluster.servers[0].kill();
    let locks = cluster.builder().connect().await.unwrap();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    // Hung, not dead: its connections are accepted, but no command is answered.
    cluster.servers[1].stop();
    let started = Instant::now();
    let builder = cluster.builder().connect_timeout(Duration::from_secs(2));
    let error = builder.connect().await.unwrap_err();
    let ConnectError::NoQuorum { nodes: 3, reachable: 1, unreachable } = &error else { panic!("{error}") };
    assert_eq!(unreachable[0].0, cluster.servers[0].address());
    assert_eq!(unreachable[1].0, cluster.servers[1].address());
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    cluster.servers[1].cont();
}

// promise: membership
#[tokio::test]
async fn a_new_set_is_not_formed_without_one_of_its_masters_unless_it_is_told_to() {
    let mut cluster = RedisCluster::start(3).await;
    cluster.servers[0].kill();
    let error = cluster.builder().connect_timeout(Duration::from_secs(1)).connect().await.unwrap_err();
    assert_eq!(error, ConnectError::NotFormed { missing: vec![cluster.servers[0].address()] });
    let quarantine = Duration::from_millis(300);
    let builder = cluster.builder().ttl(quarantine).max_ttl(quarantine).form_with_missing(true);
    let (locks, started) = (builder.connect().await.unwrap(), Instant::now());
    eventually_async("the lock is acquired", async || locks.lock("r").acquire().await.is_ok()).await;
    assert!(started.elapsed() >= quarantine, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_password_and_a_database_are_taken_from_the_url() {
    let server = RedisServer::start_with(&["--requirepass", "s3cret"]).await;
    let url = |login: &str| format!("redis://{login}{}/3", server.address());
    let with = |login: &str| LockManager::builder().redis([url(login)]).node_timeout(Duration::from_secs(1));
    let locks = with(":s3cret@").connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    let mut connection = server.connect().await.unwrap();
    redis::cmd("SELECT").arg(3).exec_async(&mut connection).await.unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg("lock:*").query_async(&mut connection).await.unwrap();
    assert_eq!(keys.len(), 2, "the lock and the record of the node: {keys:?}");
    assert_eq!(server.keys("*").await, Vec::<String>::new(), "nothing in database 0");
    assert!(guard.release().await.unwrap());
    for login in ["", ":wrong@"] {
        let (_, refusal) = refusal(with(login)).await;
        assert!(matches!(refusal, Refusal::Login { .. }), "{login}: {refusal}");
        assert!(!format!("{refusal} {refusal:?}").contains("wrong@"), "{refusal}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_resp3_is_used_and_polled() {
    let server = RedisServer::start_with(&["--rename-command", "HELLO", ""]).await;
    let log = Events::record();
    let connect = async || LockManager::builder().redis([server.url()]).connect().await.unwrap();
    let (one, other) = (connect().await, connect().await);
    let held = one.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("r").wait(Duration::from_secs(20)).acquire());
    eventually("the waiter is known to poll", || !log.named("lock.node_does_not_call").is_empty()).await;
    assert!(held.release().await.unwrap());
    assert!(waiting.await.unwrap().unwrap().release().await.unwrap());
    assert_eq!(log.named("lock.node_does_not_tell_losses").len(), 2, "once for each manager");
}

#[tokio::test]
async fn a_factory_that_does_not_use_its_configuration_makes_waiters_poll() {
    let server = RedisServer::start().await;
    let log = Events::record();
    let connect = async |url: String, uses: bool| {
        let connect = move |config: redis::AsyncConnectionConfig| {
            let url = url.clone();
            async move {
                let client = redis::Client::open(url)?;
                match uses {
                    true => client.get_multiplexed_async_connection_with_config(&config).await,
                    false => client.get_multiplexed_async_connection().await,
                }
            }
        };
        LockManager::builder().redis_factory("it", connect).connect().await
    };
    let Err(ConnectError::Config(ConfigError::RefusedNode { refusal, .. })) = connect(server.url(), true).await else {
        panic!("RESP2")
    };
    assert!(refusal.to_string().contains("?protocol=resp3"), "{refusal}");
    let (one, other) = (connect(server.url(), false).await.unwrap(), connect(server.url(), false).await.unwrap());
    let held = one.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("r").wait(Duration::from_secs(20)).acquire());
    eventually("the waiter is known to poll", || !log.named("lock.node_does_not_call").is_empty()).await;
    assert!(held.release().await.unwrap());
    assert!(waiting.await.unwrap().unwrap().release().await.unwrap());
}

// promise: exclusion
#[tokio::test]
async fn a_plain_redlock_client_and_this_one_exclude_each_other() {
    let cluster = RedisCluster::start(5).await;
    let locks = cluster.builder().prefix("").connect().await.unwrap();
    let set = "SET stock:1 x NX PX 5000";
    for server in &cluster.servers[1..4] {
        assert_eq!(server.query::<Option<String>>(set).await.as_deref(), Some("OK"));
    }
    let error = locks.lock("stock:1").try_acquire().await.unwrap_err();
    let LockError::Contended { free_in, votes, .. } = &error else { panic!("{error}") };
    assert!(free_in.unwrap() <= Duration::from_secs(5) && free_in.unwrap() > Duration::from_secs(3), "{free_in:?}");
    assert!(votes.iter().filter(|vote| matches!(vote.vote, Vote::Held { .. })).count() >= 1);
    eventually_async("our own grants are released", async || cluster.keys("stock:1").await.len() == 3).await;

    for server in &cluster.servers[1..4] {
        assert_eq!(server.query::<i64>("DEL stock:1").await, 1);
    }
    let guard = locks.lock("stock:1").try_acquire().await.unwrap();
    eventually_async("all servers have the key", async || cluster.keys("stock:1").await.len() == 5).await;
    for server in &cluster.servers {
        assert_eq!(server.query::<Option<String>>(set).await, None);
    }
    assert!(guard.release().await.unwrap());
    assert_eq!(cluster.servers[0].query::<Option<String>>(set).await.as_deref(), Some("OK"));
}

// promise: readers
#[tokio::test]
async fn a_plain_redlock_client_and_readers_exclude_each_other() {
    let cluster = RedisCluster::start(3).await;
    let connect = async || cluster.builder().prefix("").connect().await.unwrap();
    let (one, other) = (connect().await, connect().await);
    let set = "SET catalog x NX PX 5000";
    for server in &cluster.servers[..2] {
        assert_eq!(server.query::<Option<String>>(set).await.as_deref(), Some("OK"));
    }
    assert!(matches!(one.read("catalog").try_acquire().await, Err(LockError::Contended { .. })));
    for server in &cluster.servers[..2] {
        assert_eq!(server.query::<i64>("DEL catalog").await, 1);
    }
    eventually_async("our own grants are released", async || cluster.keys("catalog").await.is_empty()).await;

    let readers = [one.read("catalog").acquire().await.unwrap(), other.read("catalog").acquire().await.unwrap()];
    let [first, last] = readers;
    for reader in [first, last] {
        for server in &cluster.servers {
            assert_eq!(server.query::<Option<String>>(set).await, None, "somebody still reads");
        }
        assert!(reader.release().await.unwrap());
    }
    eventually_async("the last reader has released it", async || cluster.keys("catalog").await.is_empty()).await;
    assert_eq!(cluster.servers[0].query::<Option<String>>(set).await.as_deref(), Some("OK"));
}

#[tokio::test]
async fn readers_that_cannot_be_looked_up_are_not_taken_for_none() {
    let cluster = RedisCluster::start(1).await;
    let locks = cluster.builder().connect().await.unwrap();
    let (reader, server) = (locks.read("r").acquire().await.unwrap(), &cluster.servers[0]);
    server.query::<String>("ACL SETUSER default -zrange").await;
    let error = locks.force_release("r").await.unwrap_err();
    assert!(matches!(error, LockError::Contended { .. }), "{error}");
    assert_eq!(server.query::<String>("GET lock:r").await, "lock-shared", "somebody still reads");
    server.query::<String>("ACL SETUSER default +@all -zscore").await;
    let error = locks.read("other").try_acquire().await.unwrap_err();
    assert!(error.votes().iter().all(|vote| matches!(vote.vote, Vote::Failed(_))), "{error}");
    assert!(server.query::<Option<String>>("GET lock:other").await.is_none());
    server.query::<String>("ACL SETUSER default +@all").await;
    assert!(reader.release().await.unwrap());
}

#[tokio::test]
async fn the_record_is_a_hashtable_however_few_fences_it_has() {
    let mut cluster = RedisCluster::start(3).await;
    cluster.servers[2] = RedisServer::start_with(&["--appendonly", "yes"]).await;
    let locks = cluster.builder().connect().await.unwrap();
    drop(locks.lock("r").acquire().await.unwrap());
    cluster.servers[2].restart_with_data().await;
    for server in &cluster.servers {
        assert_eq!(server.query::<String>("OBJECT ENCODING lock:{node}").await, "hashtable");
        assert!(server.query::<String>("HGET lock:{node} about").await.contains("set of lock masters"));
    }
}

#[tokio::test]
async fn a_client_that_starts_without_a_majority_uses_it_when_it_recovers() {
    let cluster = RedisCluster::start(3).await;
    for server in &cluster.servers[..2] {
        server.stop();
    }
    let locks = cluster.builder().connect_lazy().unwrap();
    let error = locks.lock("r").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    eventually_async("the reachable server says which masters are missing", async || {
        let problem = locks.health().await.nodes.remove(2).problem;
        let Some(NodeError::NotMember(NotMember::Unformed { missing })) = problem else { return false };
        missing == cluster.servers[..2].iter().map(RedisServer::address).collect::<Vec<_>>()
    })
    .await;
    for server in &cluster.servers[..2] {
        server.cont();
    }
    eventually_async("the lock is acquired", async || locks.lock("r").acquire().await.is_ok()).await;
}
