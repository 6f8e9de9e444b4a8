//! Servers of Redis 6.2, the oldest release that is supported, if it is installed.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockError, LockManager};
use lock_support::{Kind, RedisServer, Release, try_every_kind};
use tokio::time::Instant;

// promise: exclusion, turns
#[tokio::test]
async fn every_kind_of_lock_is_acquired_renewed_and_released_on_redis_6() {
    let test = "every_kind_of_lock_is_acquired_renewed_and_released_on_redis_6";
    let Some(program) = Release::Redis6.server(test) else { return };
    let servers = join_all((0..3).map(|_| RedisServer::start_program(&program, &[]))).await;
    let builder = || LockManager::builder().redis(servers.iter().map(RedisServer::url));
    try_every_kind(|| builder().node_timeout(Duration::from_secs(1)), &Kind::ALL).await;
}

/// It ends its error of a full memory with a line break. Renewals travel with the requests that get it.
// promise: distinct-errors
#[tokio::test]
async fn locks_are_renewed_while_the_memory_of_redis_6_is_full() {
    const TTL: Duration = Duration::from_secs(2);
    let test = "locks_are_renewed_while_the_memory_of_redis_6_is_full";
    let Some(program) = Release::Redis6.server(test) else { return };
    let server = RedisServer::start_program(&program, &[]).await;
    let builder = LockManager::builder().redis([server.url()]).ttl(TTL).node_timeout(Duration::from_millis(500));
    let locks = builder.connect().await.unwrap();
    let held = locks.lock("held").acquire().await.unwrap();
    server.query::<String>("CONFIG SET maxmemory 1").await;
    let began = Instant::now();
    join_all((0..8).map(async |caller| {
        while began.elapsed() < TTL * 2 {
            let refused = locks.lock(format!("r{caller}")).try_acquire().await.unwrap_err();
            assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
            let refused = refused.to_string();
            assert!(refused.contains("raise maxmemory") || refused.contains("no reply in time"), "{refused}");
        }
    }))
    .await;
    held.check().unwrap();
    assert!(held.release().await.unwrap());
}
