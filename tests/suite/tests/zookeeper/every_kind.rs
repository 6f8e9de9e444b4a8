//! Locks of every kind in ZooKeeper, where nobody may adopt one.

use std::time::Duration;

use lock_core::{LockManager, LockManagerBuilder};
use lock_support::{
    Kind, ZooKeeperServer, on_one_thread, try_every_kind, try_every_kind_on_two_runtimes, whatever_becomes_of_it,
};

use crate::set::node;

/// With a longer tick than the server's, so that the session has time to spare when many managers are busy on few processors.
fn builder(address: &str) -> LockManagerBuilder {
    LockManager::builder().nodes([node(address).tick_time(Duration::from_secs(1))])
}

fn kinds() -> Vec<Kind> {
    Kind::ALL.into_iter().filter(|kind| *kind != Kind::Delegated).collect()
}

// promise: zookeeper
#[tokio::test]
async fn every_kind_of_lock_is_acquired_renewed_and_released_in_an_ensemble() {
    let address = ZooKeeperServer::shared().await;
    try_every_kind(|| builder(&address).prefix("kinds:"), &kinds()).await;
}

// promise: any-runtime
#[test]
fn locks_in_an_ensemble_have_one_holder_although_their_runtime_stalls() {
    let address = on_one_thread().block_on(ZooKeeperServer::shared());
    whatever_becomes_of_it(|fate| {
        // Managers whose prefix differs share nothing. The session may end while it moves.
        try_every_kind_on_two_runtimes(fate, || builder(&address).prefix(format!("{fate:?}:")), &kinds(), false);
    });
}
