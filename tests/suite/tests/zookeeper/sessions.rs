use std::time::Duration;

use lock_support::{Fate, StalledRuntime, ZooKeeperServer, all_nodes_vote, eventually};
use tokio::time::Instant;

use crate::set::{MAX_TTL, connect};

// promise: zookeeper
#[tokio::test]
async fn a_lease_is_lost_in_time_when_the_server_is_gone_for_longer_than_the_session() {
    let mut server = ZooKeeperServer::start().await;
    let (ours, theirs) = (connect(&server.address()).await, connect(&server.address()).await);
    let guard = ours.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
    let began = Instant::now();
    server.kill();
    guard.lost().await;
    assert!(began.elapsed() < MAX_TTL, "{:?}", began.elapsed());
    // The sessions end, and the managers open new ones.
    tokio::time::sleep(MAX_TTL).await;
    server.start_again().await;
    all_nodes_vote(&theirs).await;
    let next = theirs.lock("r").acquire().await.unwrap();
    assert!(next.token() > guard.token());
    assert!(!guard.release().await.unwrap_or(false));
    assert!(next.is_valid());
    next.release().await.unwrap();
    all_nodes_vote(&ours).await;
    ours.lock("r").acquire().await.unwrap().release().await.unwrap();
}

// promise: zookeeper
#[tokio::test]
async fn a_connection_that_is_lost_for_a_moment_costs_no_lock() {
    let mut server = ZooKeeperServer::start().await;
    let locks = connect(&server.address()).await;
    let guard = locks.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
    server.pause();
    tokio::time::sleep(MAX_TTL / 5).await;
    server.resume();
    let token = guard.token();
    let other = connect(&server.address()).await;
    assert!(other.lock("r").try_acquire().await.is_err());
    assert!(guard.is_valid() && guard.token() == token);
    assert!(guard.release().await.unwrap());
    server.kill();
}

// promise: zookeeper
#[test]
fn the_lock_of_a_process_that_dies_is_free_when_its_session_ends_and_not_before() {
    let runtime = lock_support::on_one_thread();
    let address = runtime.block_on(ZooKeeperServer::shared());
    let began = std::time::Instant::now();
    let (guard, _stalled) = StalledRuntime::after(Fate::Dropped, async {
        let locks = connect(&address).await;
        let guard = locks.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
        // Nobody is to move the session to another runtime: so does a process that is gone.
        std::mem::forget(locks);
        std::mem::ManuallyDrop::new(guard)
    });
    let granted = std::time::Instant::now();
    runtime.block_on(async {
        let locks = connect(&address).await;
        let next = locks.lock("r").acquire().await.unwrap();
        assert!(!guard.is_valid());
        assert!(began.elapsed() >= MAX_TTL && granted.elapsed() < MAX_TTL * 3, "{:?}", granted.elapsed());
        next.release().await.unwrap();
    });
}

// promise: zookeeper
#[test]
fn a_holder_that_was_stopped_for_longer_than_its_session_finds_its_lease_lost() {
    let runtime = lock_support::on_one_thread();
    let address = runtime.block_on(ZooKeeperServer::shared());
    let ((locks, guard), mut stalled) = StalledRuntime::after(Fate::Blocked, async {
        let locks = connect(&address).await;
        let guard = locks.lock("r").ttl(MAX_TTL).acquire().await.unwrap();
        (locks, guard)
    });
    let next = runtime.block_on(async {
        let others = connect(&address).await;
        let next = others.lock("r").acquire().await.unwrap();
        assert!(!guard.is_valid() && next.token() > guard.token());
        (others, next)
    });
    stalled.run_again(Duration::from_millis(300));
    runtime.block_on(async {
        assert!(!guard.is_valid());
        assert!(!guard.release().await.unwrap_or(false));
        let (others, next) = next;
        assert!(next.is_valid(), "what was late took nothing from the successor");
        assert!(next.release().await.unwrap());
        // The manager works on, on this runtime.
        let again = locks.lock("r").acquire().await.unwrap();
        eventually("it is valid", || again.is_valid()).await;
        assert!(others.lock("r").try_acquire().await.is_err());
    });
}
