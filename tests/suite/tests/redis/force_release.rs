//! Locks that are inspected, and taken from their holders, on real servers.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::inspection::LockVerdict;
use lock_core::node::OwnerId;
use lock_core::{LockError, LockManager};
use lock_support::{RedisCluster, RedisServer, all_nodes_vote, eventually_async, try_succession};
use tokio::time::{Instant, timeout};

const TTL: Duration = Duration::from_secs(3);
const WAIT: Duration = Duration::from_secs(30);

// promise: forced-release
#[tokio::test]
async fn a_waiter_gets_the_lock_of_an_evicted_holder_which_cannot_renew() {
    let cluster = RedisCluster::start(3).await;
    let builder = || cluster.builder().ttl(TTL).max_ttl(TTL).wait(WAIT);
    let (ours, theirs) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());
    let operator = builder().connect().await.unwrap();
    let stuck = ours.lock("r").acquire().await.unwrap();
    let waiting = tokio::spawn(theirs.lock("r").acquire());
    eventually_async("another process waits", async || {
        operator.inspect("r").await.unwrap().nodes.iter().all(|node| node.waiters == 1)
    })
    .await;
    let report = operator.inspect("r").await.unwrap();
    assert_eq!(report.verdict(), LockVerdict::Held);
    assert!(report.nodes.iter().all(|node| node.votes && node.holder == report.holder), "{report:?}");

    let began = Instant::now();
    let forced = operator.force_release("r").await.unwrap();
    assert_eq!((forced.evicted, forced.freed_on.len()), (vec![report.holder.unwrap()], 3));
    let next = waiting.await.unwrap().unwrap();
    // A waiter that was not woken tries again after a second.
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    assert!(stuck.token() < forced.token && forced.token < next.token());
    timeout(TTL, stuck.lost()).await.unwrap();
    drop(stuck);
    // The tombstone is there until no lock can be left, and bars only the one who was evicted.
    next.release().await.unwrap();
    let held = ours.lock("r").acquire().await.unwrap();
    let report = operator.inspect("r").await.unwrap();
    assert!(report.nodes.iter().all(|node| node.evicted.len() == 1), "{report:?}");
    drop(held);
    for server in &cluster.servers {
        let remaining: i64 = server.query("PTTL lock:{r}:evicted").await;
        assert!((1..=5032).contains(&remaining), "{remaining}");
    }
}

// promise: forced-release
#[tokio::test]
async fn a_late_request_of_an_evicted_holder_is_refused_until_its_tombstone_expires() {
    let cluster = RedisCluster::start(1).await;
    let locks =
        cluster.builder().ttl(Duration::from_millis(200)).max_ttl(Duration::from_millis(200)).connect().await.unwrap();
    let stuck = locks.lock("r").acquire().await.unwrap();
    let server = &cluster.servers[0];
    let owner: String = server.query("GET lock:r").await;
    assert!(owner.starts_with(OwnerId::PREFIX));
    locks.force_release("r").await.unwrap();
    drop(stuck);
    assert_eq!(server.query::<String>("GET lock:{r}:evicted").await, owner);
    eventually_async("the tombstone expires", async || {
        server.query::<Option<String>>("GET lock:{r}:evicted").await.is_none()
    })
    .await;
    // The mark goes with the first look that finds nothing.
    let fence_has_mark = async || {
        let fields: Vec<String> = server.query("HKEYS lock:{node}").await;
        fields.iter().any(|field| field.starts_with('q') && field[1..].parse::<u16>().is_ok())
    };
    assert!(fence_has_mark().await);
    eventually_async("the mark is gone", async || {
        drop(locks.lock("r").acquire().await.unwrap());
        !fence_has_mark().await
    })
    .await;
}

// promise: forced-release
#[tokio::test]
async fn a_stranger_whose_key_does_not_expire_is_evicted() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().connect().await.unwrap();
    for server in &cluster.servers {
        server.query::<String>("SET lock:r somebody").await;
    }
    let report = locks.inspect("r").await.unwrap();
    assert_eq!(report.verdict(), LockVerdict::Held);
    assert!(report.nodes.iter().all(|node| node.stranger && node.remaining.is_none()), "{report:?}");
    assert_eq!(locks.force_release("r").await.unwrap().freed_on.len(), 3);
    locks.lock("r").try_acquire().await.unwrap().release().await.unwrap();
}

// promise: distinct-errors
#[tokio::test]
async fn a_stranger_whose_key_expires_in_thousands_of_years_holds_the_lock() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().connect().await.unwrap();
    for server in &cluster.servers {
        server.query::<String>("SET lock:r somebody EXAT 253402300799").await;
    }
    for refused in [locks.lock("r").try_acquire().await.err(), locks.read("r").try_acquire().await.err()] {
        assert!(matches!(refused, Some(LockError::Contended { .. })), "{refused:?}");
    }
}

// promise: forced-release
#[tokio::test]
async fn a_key_that_is_no_lock_is_left_alone() {
    let cluster = RedisCluster::start(3).await;
    let locks = cluster.builder().connect().await.unwrap();
    for server in &cluster.servers {
        server.query::<i64>("LPUSH lock:r 1").await;
    }
    assert!(matches!(locks.force_release("r").await, Err(LockError::NotALock { .. })));
    for server in &cluster.servers {
        assert_eq!(server.query::<i64>("LLEN lock:r").await, 1);
    }
}

// promise: forced-release
#[tokio::test]
async fn what_cannot_be_barred_is_not_evicted() {
    let cluster = RedisCluster::start(3).await;
    let builder = || cluster.builder().ttl(TTL);
    let (ours, theirs) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());
    let held = ours.lock("r").acquire().await.unwrap();
    for server in &cluster.servers {
        // Another client's key stands where the tombstone belongs.
        server.query::<i64>("LPUSH lock:{r}:evicted 1").await;
    }
    let error = theirs.force_release("r").await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    for server in &cluster.servers {
        assert_eq!(server.query::<i64>("EXISTS lock:r").await, 1);
    }
    assert!(held.is_valid());
}

// promise: forced-release
#[tokio::test]
async fn nobody_gets_an_evicted_lock_from_its_former_holder_beside_the_successor() {
    let cluster = RedisCluster::start(3).await;
    let builder = || cluster.builder().ttl(TTL).max_ttl(TTL).wait(WAIT);
    try_succession([builder().connect().await.unwrap(), builder().connect().await.unwrap()]).await;
}

// promise: no-deadlock, forced-release
#[tokio::test]
async fn the_lock_of_a_dead_holder_that_clocks_keep_which_were_set_back_can_be_taken() {
    let ttl = TTL / 3;
    let servers = join_all((0..3).map(|_| RedisServer::start_with_clock(3600))).await;
    let connect = async || {
        let builder = LockManager::builder().redis(servers.iter().map(RedisServer::url)).ttl(ttl).max_ttl(ttl);
        let locks = builder.node_timeout(ttl / 4).connect().await.unwrap();
        all_nodes_vote(&locks).await;
        locks
    };
    let (ours, theirs) = (connect().await, connect().await);
    // As one of a process that died: it is neither renewed nor released.
    let dead = ours.lock("r").renew(false).acquire().await.unwrap();
    servers[..2].iter().for_each(|server| server.step_clock(0));
    let error = theirs.lock("r").wait(ttl * 3).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Contended { .. }) && !dead.is_valid(), "{error}");
    let forced = theirs.force_release("r").await.unwrap();
    let next = theirs.lock("r").acquire().await.unwrap();
    assert!(dead.token() < forced.token && forced.token < next.token());
}
