use std::time::Duration;

use lock_core::{LockManager, LockManagerBuilder, ZooKeeperNode};
use lock_support::{ZooKeeperServer, all_nodes_vote};

/// The longest lock of these tests. The session is two ticks longer.
pub(crate) const MAX_TTL: Duration = Duration::from_millis(1500);

/// What the node takes the `tickTime` for: longer than it is, so that a busy machine has time to answer.
const TICK_TIME: Duration = ZooKeeperServer::TICK_TIME.saturating_mul(3);

/// A node for a server that stands alone.
pub(crate) fn node(address: &str) -> ZooKeeperNode {
    ZooKeeperNode::from_address(address).unwrap().tick_time(TICK_TIME)
}

pub(crate) fn builder(address: &str) -> LockManagerBuilder {
    LockManager::builder().nodes([node(address)]).max_ttl(MAX_TTL).wait(Duration::from_secs(20))
}

/// A manager that may lock.
pub(crate) async fn connect(address: &str) -> LockManager {
    // A server that has just started may take longer than `connect` waits.
    let locks = builder(address).connect_lazy().unwrap();
    all_nodes_vote(&locks).await;
    locks
}
