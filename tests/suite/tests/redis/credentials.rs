//! Passwords that change, and providers that give none.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::masters::InvalidSetting;
use lock_core::{
    ConfigError, ConnectError, Credentials, LockError, LockManager, LockManagerBuilder, MemoryNode, NodeError,
    RedisNode,
};
use lock_support::{
    Kind, Load, Logs, RedisCluster, RedisServer, Sentinel, SlotCluster, alone, eventually, eventually_async,
    on_one_thread, try_every_kind, try_every_kind_on_two_runtimes, whatever_becomes_of_it,
};
use tokio::time::{Instant, sleep};

/// A password that the servers and the services are told again and again.
#[derive(Clone, Default)]
struct Password(Arc<Mutex<(String, usize)>>);

impl Password {
    fn change(&self, password: String) {
        self.0.lock().unwrap().0 = password;
    }

    /// How often it was asked for.
    fn asked(&self) -> usize {
        self.0.lock().unwrap().1
    }

    fn credentials(&self) -> Credentials {
        let mut known = self.0.lock().unwrap();
        known.1 += 1;
        Credentials::new("app", &known.0)
    }
}

/// Sets the password of the user `app`. The former one is not accepted from now on.
async fn set_password(server: &RedisServer, password: &str) {
    let set = format!("ACL SETUSER app on resetpass >{password} ~* &* +@all");
    assert_eq!(server.query::<String>(&set).await, "OK");
}

/// Ends all connections of the user `app`. Returns how many there were.
async fn end_connections(server: &RedisServer) -> usize {
    server.query("CLIENT KILL USER app").await
}

async fn set_passwords(cluster: &RedisCluster, password: &str) {
    join_all(cluster.servers.iter().map(|server| set_password(server, password))).await;
}

/// A builder that asks for the password.
fn builder(cluster: &RedisCluster, password: &Password) -> LockManagerBuilder {
    let password = password.clone();
    cluster.builder().credentials(move || ready(Ok::<_, Infallible>(password.credentials())))
}

// promise: minority-faults
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acquisition_fails_while_the_password_changes_every_two_seconds() {
    let _alone = alone().await;
    let (cluster, password) = (RedisCluster::start(3).await, Password::default());
    password.change("first".into());
    set_passwords(&cluster, "first").await;
    let locks = builder(&cluster, &password).connect().await.unwrap();
    let load = Load::start(&locks, 16);
    for change in 0..4 {
        sleep(Duration::from_secs(2)).await;
        let next = format!("password-{change}");
        password.change(next.clone());
        for server in &cluster.servers {
            set_password(server, &next).await;
            assert!(end_connections(server).await > 0);
        }
    }
    let done = load.stop().await;
    assert!(done.failed.is_empty(), "{:?}", done.failed);
    assert!(done.granted > 1_000, "{}", done.granted);
    // Of each server: once to begin with, and once after each change.
    eventually("all are connected again", || password.asked() >= 3 * 5).await;
    assert!(password.asked() <= 3 * 5 + 3, "it was asked {} times", password.asked());
}

// promise: lost-quorum
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acquisition_fails_while_servers_end_connections_at_a_fixed_age() {
    let _alone = alone().await;
    let (cluster, password) = (RedisCluster::start(3).await, Password::default());
    password.change("secret".into());
    set_passwords(&cluster, "secret").await;
    let locks = builder(&cluster, &password).connect().await.unwrap();
    let load = Load::start(&locks, 16);
    for _ in 0..10 {
        sleep(Duration::from_millis(500)).await;
        // They were made together, and so end together: the worst case.
        let ended = join_all(cluster.servers.iter().map(end_connections)).await;
        assert!(ended.iter().all(|ended| *ended > 0), "{ended:?}");
    }
    let done = load.stop().await;
    assert!(done.failed.is_empty(), "{:?}", done.failed);
    assert!(done.granted > 1_000, "{}", done.granted);
}

// promise: minority-faults
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_never_wait_notice_nothing_when_one_server_after_another_ends_connections() {
    let _alone = alone().await;
    let (cluster, password) = (RedisCluster::start(3).await, Password::default());
    password.change("secret".into());
    set_passwords(&cluster, "secret").await;
    let locks = builder(&cluster, &password).wait(Duration::ZERO).connect().await.unwrap();
    let load = Load::start(&locks, 8);
    for server in cluster.servers.iter().cycle().take(12) {
        sleep(Duration::from_millis(400)).await;
        assert!(end_connections(server).await > 0);
    }
    let mut done = load.stop().await;
    // Two share each lock.
    done.failed.retain(|error| !matches!(error, LockError::Contended { .. }));
    assert!(done.failed.is_empty(), "{:?}", done.failed);
    assert!(done.granted > 500, "{}", done.granted);
}

// promise: exclusion
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_lock_is_acquired_renewed_and_released_while_connections_end() {
    let _alone = alone().await;
    let (cluster, password) = (RedisCluster::start(3).await, Password::default());
    password.change("secret".into());
    set_passwords(&cluster, "secret").await;
    let ending = async {
        for server in cluster.servers.iter().cycle() {
            sleep(Duration::from_millis(500)).await;
            end_connections(server).await;
        }
    };
    tokio::select! {
        () = ending => {}
        () = try_every_kind(|| builder(&cluster, &password), &Kind::ALL) => {}
    }
}

// promise: any-runtime
#[test]
fn a_provider_is_asked_on_the_runtime_that_takes_over() {
    let live = on_one_thread();
    let (server, password) = (live.block_on(RedisServer::start()), Password::default());
    password.change("secret".into());
    live.block_on(set_password(&server, "secret"));
    let cluster = RedisCluster { servers: vec![server] };
    whatever_becomes_of_it(|fate| {
        let builder = || builder(&cluster, &password).prefix(format!("{fate:?}:"));
        try_every_kind_on_two_runtimes(fate, builder, &[Kind::Write], true);
    });
    assert!(password.asked() > 4, "{}", password.asked());
}

// promise: health
#[tokio::test]
async fn a_login_that_is_refused_is_tried_again_with_the_password_of_then() {
    let logs = Logs::record();
    let (cluster, password) = (RedisCluster::start(1).await, Password::default());
    password.change("the-0ld-one".into());
    set_passwords(&cluster, "the-new-0ne").await;
    let connecting = tokio::spawn(builder(&cluster, &password).connect());
    eventually("it was refused", || password.asked() > 2).await;
    password.change("the-new-0ne".into());
    let locks = connecting.await.unwrap().unwrap();
    locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    set_passwords(&cluster, "an0ther").await;
    end_connections(&cluster.servers[0]).await;
    eventually_async("health says so", async || {
        let health = locks.health().await;
        matches!(&health.nodes[0].problem, Some(NodeError::Credentials { reason }) if reason.contains("refused"))
    })
    .await;
    let said = logs.text().concat();
    assert!(said.contains("lock.node_away") && said.contains("no valid credentials"), "{said}");
    for secret in ["the-0ld-one", "the-new-0ne", "an0ther"] {
        assert!(!said.contains(secret), "{said}");
    }
}

/// What keeps a manager from connecting, and how long it tried.
async fn problem(builder: LockManagerBuilder) -> (NodeError, Duration) {
    let began = Instant::now();
    match builder.connect_timeout(Duration::from_secs(2)).connect().await.unwrap_err() {
        ConnectError::NoQuorum { mut unreachable, .. } => (unreachable.remove(0).1, began.elapsed()),
        other => panic!("{other}"),
    }
}

/// Gives a builder a provider that counts how often it is asked.
type Counted = fn(LockManagerBuilder, Arc<AtomicUsize>) -> LockManagerBuilder;

#[tokio::test]
async fn a_provider_that_fails_hangs_panics_or_gives_nothing_is_named_and_asked_again() {
    let cluster = RedisCluster::start(1).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = |builder: Counted| {
        asked.store(0, Ordering::Relaxed);
        builder(cluster.builder(), Arc::clone(&asked))
    };
    let failing: [(Counted, &str); 5] = [
        (
            |builder, asked| {
                builder.credentials(move || {
                    asked.fetch_add(1, Ordering::Relaxed);
                    ready(Err(io::Error::other("the vault is sealed")))
                })
            },
            "the provider failed: the vault is sealed",
        ),
        (
            |builder, asked| {
                builder.credentials(move || {
                    asked.fetch_add(1, Ordering::Relaxed);
                    pending::<Result<Credentials, Infallible>>()
                })
            },
            "the provider did not answer within 1s",
        ),
        (
            |builder, asked| {
                builder.credentials(move || {
                    asked.fetch_add(1, Ordering::Relaxed);
                    assert!(asked.load(Ordering::Relaxed) == 0, "no vault");
                    pending::<Result<Credentials, Infallible>>()
                })
            },
            "the provider panicked",
        ),
        (
            |builder, asked| {
                builder.credentials(move || {
                    asked.fetch_add(1, Ordering::Relaxed);
                    ready(Ok::<_, Infallible>(Credentials::new("", "s3cret")))
                })
            },
            "an empty user",
        ),
        (
            |builder, asked| {
                builder.credentials(move || {
                    asked.fetch_add(1, Ordering::Relaxed);
                    ready(Ok::<_, Infallible>(Credentials::new("app", "")))
                })
            },
            "an empty password",
        ),
    ];
    for (builder, wanted) in failing {
        let (error, after) = problem(counted(builder)).await;
        assert!(matches!(&error, NodeError::Credentials { reason } if reason.contains(wanted)), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
        assert!(after < Duration::from_secs(10), "{after:?}");
        assert!(asked.load(Ordering::Relaxed) > 1, "{wanted}: it was asked once");
    }
}

// promise: health
#[tokio::test]
async fn every_shard_says_that_the_provider_hangs() {
    let cluster = RedisCluster::start(1).await;
    let builder = cluster.builder().shards(16).credentials(pending::<Result<Credentials, Infallible>>);
    let locks = builder.connect_lazy().unwrap();
    let hangs = |error: &NodeError| matches!(error, NodeError::Credentials { reason } if reason.contains("1s"));
    eventually_async("every shard says so", async || {
        locks.health().await.nodes.iter().all(|node| node.problem.as_ref().is_some_and(hangs))
    })
    .await;
}

#[tokio::test]
async fn a_provider_that_hangs_at_one_master_stops_no_lock() {
    let (cluster, password) = (RedisCluster::start(3).await, Password::default());
    password.change("secret".into());
    set_passwords(&cluster, "secret").await;
    let node = |server: &RedisServer| RedisNode::from_url(&server.url()).unwrap();
    let mut nodes = vec![node(&cluster.servers[0]).credentials(pending::<Result<Credentials, Infallible>>).unwrap()];
    for server in &cluster.servers[1..] {
        let password = password.clone();
        nodes.push(node(server).credentials(move || ready(Ok::<_, Infallible>(password.credentials()))).unwrap());
    }
    let builder = LockManager::builder().nodes(nodes).node_timeout(Duration::from_secs(1)).form_with_missing(true);
    let locks = builder.max_ttl(Duration::from_secs(1)).connect().await.unwrap();
    eventually_async("a majority grants locks", async || locks.lock("r").acquire().await.is_ok()).await;
    let began = Instant::now();
    locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_master_of_a_sentinel_is_logged_in_to_with_the_credentials() {
    let (server, password) = (RedisServer::start().await, Password::default());
    let sentinel = Sentinel::start("mymaster", &server, 0).await;
    set_password(&server, "secret").await;
    password.change("secret".into());
    let asking = password.clone();
    let builder = LockManager::builder().sentinel([sentinel.address()], "mymaster");
    let builder = builder.credentials(move || ready(Ok::<_, Infallible>(asking.credentials())));
    let locks = builder.node_timeout(Duration::from_secs(1)).connect().await.unwrap();
    locks.lock("r").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(end_connections(&server).await, 1);
}

#[tokio::test]
async fn every_shard_logs_in_with_the_credentials() {
    let (cluster, password) = (RedisCluster::start(1).await, Password::default());
    password.change("secret".into());
    set_passwords(&cluster, "secret").await;
    let locks = builder(&cluster, &password).shards(4).connect().await.unwrap();
    assert_eq!(password.asked(), 1, "they share a connection");
    for name in 0..32 {
        assert!(locks.lock(format!("stock:{name}")).acquire().await.unwrap().release().await.unwrap());
    }
    assert!(end_connections(&cluster.servers[0]).await > 0);
}

#[tokio::test]
async fn all_servers_of_a_cluster_are_logged_in_to_with_the_credentials() {
    let (cluster, password) = (SlotCluster::start(3, 0).await, Password::default());
    password.change("secret".into());
    join_all(cluster.servers.iter().map(|server| set_password(server, "secret"))).await;
    let asking = password.clone();
    let builder = LockManager::builder().redis_cluster([cluster.url()]).shards(8).node_timeout(Duration::from_secs(1));
    let builder = builder.credentials(move || ready(Ok::<_, Infallible>(asking.credentials())));
    let locks = builder.connect().await.unwrap();
    for name in 0..32 {
        assert!(locks.lock(format!("stock:{name}")).acquire().await.unwrap().release().await.unwrap());
    }
    let ended = join_all(cluster.servers.iter().map(end_connections)).await;
    assert!(ended.iter().all(|ended| *ended > 0), "{ended:?}");
}

#[test]
fn credentials_beside_another_login_or_without_one_are_refused() {
    let with = |builder: LockManagerBuilder| {
        builder.credentials(|| ready(Ok::<_, Infallible>(Credentials::new("app", "s3cret")))).connect_lazy()
    };
    let refused = |builder| match with(builder) {
        Err(ConfigError::InvalidSetting(error)) if error.setting == "credentials" => error,
        other => panic!("{other:?}"),
    };
    let has_login = |error: InvalidSetting, node: &str| {
        let text = error.to_string();
        assert!(error.node == node && text.contains("remove them from the URL") && !text.contains("s3cret"), "{text}");
    };
    let builder = LockManager::builder;
    has_login(refused(builder().redis(["redis://:s3cret@10.0.0.1"])), "10.0.0.1:6379");
    has_login(refused(builder().redis(["redis://app@10.0.0.1"])), "10.0.0.1:6379");
    has_login(refused(builder().postgres(["postgres://app@10.0.0.1/shop"])), "10.0.0.1:5432/shop");
    has_login(refused(builder().sentinel(["10.0.0.1"], "redis://app:s3cret@mymaster")), "sentinel:mymaster");
    has_login(refused(builder().redis_cluster(["redis://app:s3cret@10.0.0.1,10.0.0.2"])), "cluster:10.0.0.1:6379");
    let has_none =
        |error: InvalidSetting| assert!(error.reason.contains("is for masters that are named with"), "{error}");
    has_none(refused(builder().nodes([MemoryNode::new()])));
    has_none(refused(builder().zookeeper("10.0.0.1")));
    let of_factory = |_| async { Err(redis::RedisError::from(io::Error::other("never called"))) };
    has_none(refused(builder().redis_factory("redis-1", of_factory)));
    // The URLs of sentinels have logins of their own.
    with(builder().sentinel(["redis://watch:s3cret@10.0.0.1"], "mymaster")).unwrap();
}
