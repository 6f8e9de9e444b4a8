//! Locks of every kind on real servers, independent ones and one behind Sentinel.

use lock_core::LockManager;
use lock_support::{
    Kind, RedisCluster, RedisServer, Sentinel, on_one_thread, try_every_kind, try_every_kind_on_two_runtimes,
    whatever_becomes_of_it,
};

// promise: exclusion, turns
#[tokio::test]
async fn every_kind_of_lock_is_acquired_renewed_and_released_on_servers() {
    let cluster = RedisCluster::start(3).await;
    try_every_kind(|| cluster.builder(), &Kind::ALL).await;
}

// promise: replicas
#[tokio::test]
async fn every_kind_of_lock_is_acquired_renewed_and_released_behind_a_sentinel() {
    let master = RedisServer::start().await;
    let sentinel = Sentinel::start("mymaster", &master, 0).await;
    try_every_kind(|| LockManager::builder().sentinel([sentinel.address()], "mymaster"), &Kind::ALL).await;
}

// promise: any-runtime
#[test]
fn locks_behind_a_sentinel_are_renewed_on_another_runtime() {
    let live = on_one_thread();
    let master = live.block_on(RedisServer::start());
    let sentinel = live.block_on(Sentinel::start("mymaster", &master, 0));
    whatever_becomes_of_it(|fate| {
        // Managers whose prefix differs share nothing.
        let builder = || LockManager::builder().sentinel([sentinel.address()], "mymaster").prefix(format!("{fate:?}:"));
        try_every_kind_on_two_runtimes(fate, builder, &Kind::ALL, true);
    });
}
