//! Servers that delete keys when their memory is full: locks, but never what tokens rest on.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::masters::{InvalidSetting, Refusal};
use lock_core::{ConfigError, ConnectError, LockError, LockManager, LockManagerBuilder, MemoryNode};
use lock_support::{Events, Held, Kind, RedisServer, alone, eventually_async, try_every_kind};
use tokio::time::timeout;

const TTL: Duration = Duration::from_secs(2);

/// A server that is full before long.
async fn small_server(policy: &str) -> RedisServer {
    let arguments = ["--maxmemory", "16mb", "--maxmemory-policy", policy, "--maxmemory-samples", "64"];
    RedisServer::start_with(&arguments).await
}

fn builder(server: &RedisServer) -> LockManagerBuilder {
    let builder = LockManager::builder().redis([server.url()]).node_timeout(Duration::from_secs(1));
    builder.ttl(TTL).max_ttl(TTL).tolerate_eviction(true)
}

/// Writes other keys that expire, until this one has been deleted for them.
async fn fill_until_gone(server: &RedisServer, key: &str) {
    let mut connection = server.connect().await.unwrap();
    let value = vec![b'x'; 64 * 1024];
    for n in 0..100_000 {
        let mut fill = redis::pipe();
        for other in 0..32 {
            fill.cmd("SET").arg(format!("other:{n}:{other}")).arg(&value).arg("PX").arg(600_000).ignore();
        }
        let (exists,): (bool,) = fill.cmd("EXISTS").arg(key).query_async(&mut connection).await.unwrap();
        if !exists {
            return;
        }
    }
    panic!("{key} is never deleted");
}

// promise: fencing
#[tokio::test]
async fn locks_vanish_from_a_full_server_and_tokens_grow_all_the_same() {
    let _alone = alone().await;
    let events = Events::record();
    let server = small_server("volatile-lru").await;
    let (locks, others) = (builder(&server).connect().await.unwrap(), builder(&server).connect().await.unwrap());
    let mut last = None;
    for _ in 0..5 {
        let held = locks.lock("r").acquire().await.unwrap();
        assert!(last < Some(held.token()), "{last:?}");
        fill_until_gone(&server, "lock:r").await;
        // The second holder at once, which is not promised to be kept out. Its token says who came later.
        let second = others.lock("r").try_acquire().await.unwrap();
        assert!(second.token() > held.token());
        timeout(TTL, held.lost()).await.expect("the renewal notices the loss");
        assert!(matches!(held.release().await, Err(LockError::Lost { .. }) | Ok(false)));
        last = Some(second.token());
        assert!(second.is_valid() && second.release().await.unwrap());
        // All that tokens rest on.
        assert_eq!(server.query::<i64>("PTTL lock:{node}").await, -1);
    }
    let warned = events.named("lock.node_may_evict");
    assert_eq!(warned.len(), 2, "once for each manager: {warned:?}");
    assert!(warned[0].fields.contains("volatile-lru") && warned[0].level == tracing::Level::WARN, "{warned:?}");
}

// promise: fencing, reported-losses
#[tokio::test]
async fn a_lock_of_every_kind_that_is_deleted_ends_and_its_next_token_is_larger() {
    let _alone = alone().await;
    let server = small_server("volatile-lru").await;
    let connect = async || builder(&server).wait(TTL * 5).connect().await.unwrap();
    let (locks, others) = (connect().await, connect().await);
    let name = |kind: Kind| format!("{kind:?}");
    let held = join_all(Kind::ALL.map(async |kind| kind.acquire(&locks, &name(kind)).await.unwrap())).await;
    for lock in server.keys("lock:[^{]*").await {
        fill_until_gone(&server, &lock).await;
    }
    timeout(TTL * 2, join_all(held.iter().map(Held::lost))).await.expect("all losses are noticed");
    for (kind, held) in Kind::ALL.into_iter().zip(held) {
        let next = kind.rival(&others, &name(kind), TTL * 5).await.unwrap();
        assert!(held.leases().last().unwrap().token() < next.leases()[0].token(), "{kind:?}");
    }
}

// promise: fencing
#[tokio::test]
async fn nothing_but_the_record_does_not_expire_whatever_is_locked() {
    let server = small_server("volatile-ttl").await;
    let locks = builder(&server).connect().await.unwrap();
    let held = locks.lock("held").acquire().await.unwrap();
    let read = locks.read("read").acquire().await.unwrap();
    let permit = locks.permits("permit", 3).acquire().await.unwrap();
    let waiting = tokio::spawn(builder(&server).connect().await.unwrap().lock("held").wait(TTL * 5).acquire());
    eventually_async("somebody waits", async || server.keys("lock:{held}:queue").await.len() == 1).await;
    for key in server.keys("*").await {
        let expires = server.query::<i64>(&format!("PTTL {key}")).await;
        assert!((expires == -1) == (key == "lock:{node}"), "{key}: {expires}");
    }
    held.release().await.unwrap();
    drop((read, permit, waiting.await.unwrap().unwrap()));
    let forced = locks.lock("held").acquire().await.unwrap();
    let token = locks.force_release("held").await.unwrap();
    assert_eq!(server.query::<i64>("PTTL lock:{node}").await, -1);
    drop((forced, token));
}

#[tokio::test]
async fn every_kind_of_lock_works_on_a_server_that_may_evict() {
    let server = small_server("volatile-lfu").await;
    try_every_kind(|| builder(&server), &Kind::ALL).await;
}

#[tokio::test]
async fn every_shard_may_be_on_a_server_that_evicts() {
    let server = small_server("volatile-lru").await;
    let locks = builder(&server).shards(4).connect().await.unwrap();
    for name in 0..32 {
        assert!(locks.lock(format!("stock:{name}")).acquire().await.unwrap().release().await.unwrap());
    }
    assert!(builder(&server).tolerate_eviction(false).shards(4).connect().await.is_err());
}

#[tokio::test]
async fn a_policy_is_refused_that_nobody_asked_for_or_that_deletes_the_record() {
    for (policy, tolerate, hint) in
        [("volatile-lru", false, "tolerate_eviction(true)"), ("allkeys-lru", true, "must be noeviction")]
    {
        let server = small_server(policy).await;
        let refused = builder(&server).tolerate_eviction(tolerate).connect().await.unwrap_err();
        let ConnectError::Config(ConfigError::RefusedNode { refusal, .. }) = refused else { panic!("{refused}") };
        assert_eq!(refusal, Refusal::Evicts { policy: policy.into() });
        assert!(refusal.to_string().contains(hint), "{refusal}");
    }
}

#[test]
fn a_store_that_evicts_nothing_takes_no_such_setting() {
    let refused = |builder: LockManagerBuilder| match builder.tolerate_eviction(true).connect_lazy().unwrap_err() {
        ConfigError::InvalidSetting(InvalidSetting { setting: "tolerate_eviction", node, .. }) => node,
        other => panic!("{other}"),
    };
    assert_eq!(refused(LockManager::builder().postgres(["postgres://app@10.0.0.1/shop"])), "10.0.0.1:5432/shop");
    refused(LockManager::builder().nodes([MemoryNode::new()]));
    refused(LockManager::builder().zookeeper("10.0.0.1:2181"));
}
