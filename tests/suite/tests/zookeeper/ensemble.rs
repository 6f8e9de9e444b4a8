use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockManager, ZooKeeperNode};
use lock_support::{ZooKeeperEnsemble, all_nodes_vote, eventually};
use tokio::time::{Instant, timeout};

/// The longest lock, where nothing is elected.
const MAX_TTL: Duration = Duration::from_secs(4);

async fn connect(address: &str) -> LockManager {
    connect_for(address, MAX_TTL).await
}

async fn connect_for(address: &str, max_ttl: Duration) -> LockManager {
    let node = ZooKeeperNode::from_address(&format!("{address}/locks")).unwrap();
    let node = node.tick_time(ZooKeeperEnsemble::TICK_TIME);
    let locks = LockManager::builder().nodes([node]).max_ttl(max_ttl).wait(Duration::from_secs(20)).connect_lazy();
    let locks = locks.unwrap();
    all_nodes_vote(&locks).await;
    locks
}

// promise: zookeeper
#[tokio::test]
#[ignore = "long: bash tests/run.sh --long"]
async fn no_lock_rests_on_one_server_whether_it_lags_or_dies() {
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

    // A follower that dies right after it passed a request on takes no lock with it before its time.
    let ttl = Duration::from_millis(1500);
    let (passing, waiting) = (connect_for(&ensemble.servers[follower].address(), ttl).await, ahead.lock("passed on"));
    let sent = Instant::now();
    let orphan = passing.lock("passed on").ttl(ttl).renew(false).acquire().await.unwrap();
    ensemble.servers[follower].kill();
    let next = waiting.acquire().await.unwrap();
    assert!(sent.elapsed() >= ttl && !orphan.is_valid(), "{:?}", sent.elapsed());
    next.release().await.unwrap();
    ensemble.servers[follower].start_again().await;
    ensemble.all_serve().await;

    // What is granted is granted by a majority: the leader may die. The ttl outlasts an election that has to be repeated.
    let ttl = Duration::from_secs(15);
    let locks = connect_for(&ensemble.address(), ttl).await;
    let guard = locks.lock("r").ttl(ttl).acquire().await.unwrap();
    let granted = Instant::now();
    ensemble.servers[leader].kill();
    ensemble.leader().await;
    let other = connect(&ensemble.address()).await;
    assert!(other.lock("r").try_acquire().await.is_err());
    assert!(guard.is_valid(), "an election took longer than the ttl: {:?}", granted.elapsed());
    // Renewed by the new leader, it is valid for longer than under the former one.
    let renewed = || guard.is_valid() && Instant::now() + guard.remaining() > granted + ttl;
    eventually("the new leader renews the lock", renewed).await;
    assert!(guard.release().await.unwrap());

    // Without a majority nothing is granted, and nothing stays valid.
    let guard = locks.lock("r").ttl(Duration::from_secs(1)).acquire().await.unwrap();
    ensemble.servers[follower].kill();
    eventually("the lease is lost", || !guard.is_valid()).await;
    assert!(locks.lock("r").wait(Duration::from_millis(500)).acquire().await.is_err());
}

#[tokio::test]
async fn services_that_start_together_with_the_ensemble_connect() {
    let ensemble = ZooKeeperEnsemble::launch();
    let connecting = (0..8).map(|_| {
        // A busy machine takes its time for three servers and an election.
        let builder = LockManager::builder().zookeeper(ensemble.address()).connect_timeout(Duration::from_secs(60));
        tokio::spawn(builder.connect())
    });
    for connected in join_all(connecting).await {
        let locks = connected.unwrap().unwrap_or_else(|error| panic!("{error}"));
        let lock = locks.lock("r").wait(Duration::from_secs(20));
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}
