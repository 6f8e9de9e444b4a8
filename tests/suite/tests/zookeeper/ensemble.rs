use std::time::Duration;

use lock_core::{LockManager, ZooKeeperNode};
use lock_support::{ZooKeeperEnsemble, all_nodes_vote, eventually};
use tokio::time::{Instant, timeout};

/// The longest lock here: long enough for an election on a busy machine.
const MAX_TTL: Duration = Duration::from_secs(4);

async fn connect(address: &str) -> LockManager {
    let node = ZooKeeperNode::from_address(&format!("{address}/locks")).unwrap();
    let node = node.tick_time(ZooKeeperEnsemble::TICK_TIME);
    let locks = LockManager::builder().nodes([node]).max_ttl(MAX_TTL).wait(Duration::from_secs(20)).connect_lazy();
    let locks = locks.unwrap();
    all_nodes_vote(&locks).await;
    locks
}

#[tokio::test]
async fn locks_survive_the_leader_and_a_follower_that_lags_extends_nothing() {
    let mut ensemble = ZooKeeperEnsemble::start().await;
    let leader = ensemble.leader().await;
    let follower = (leader + 1) % 3;
    let behind = connect(&ensemble.servers[follower].address()).await;
    let ahead = connect(&ensemble.servers[leader].address()).await;

    // One manager is connected to a follower only, which stops, and so misses that its lock is taken from it.
    let lease = behind.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
    ensemble.servers[follower].pause();
    let forced = ahead.force_release("r").await.unwrap();
    let next = ahead.lock("r").acquire().await.unwrap();
    ensemble.servers[follower].resume();
    timeout(MAX_TTL, lease.lost()).await.expect("the renewal fails");
    assert!(lease.token() < forced.token && forced.token < next.token());
    assert!(next.is_valid());
    assert!(next.release().await.unwrap());

    // What is granted is granted by a majority: the leader may die.
    let locks = connect(&ensemble.address()).await;
    let guard = locks.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
    let granted = Instant::now();
    ensemble.servers[leader].kill();
    ensemble.leader().await;
    let other = connect(&ensemble.address()).await;
    assert!(other.lock("r").try_acquire().await.is_err());
    assert!(guard.is_valid(), "an election takes less than the ttl");
    // Renewed by the new leader, so it is valid when the time is over that it had under the former one.
    tokio::time::sleep_until(granted + MAX_TTL).await;
    assert!(guard.is_valid() && guard.release().await.unwrap());

    // Without a majority nothing is granted, and nothing stays valid.
    let guard = locks.lock("r").ttl(Duration::from_secs(1)).acquire().await.unwrap();
    ensemble.servers[follower].kill();
    eventually("the lease is lost", || !guard.is_valid()).await;
    assert!(locks.lock("r").wait(Duration::from_millis(500)).acquire().await.is_err());
}
