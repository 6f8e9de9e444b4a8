//! Which ways to stop a server lose its memory, and which do not.

use std::time::Duration;

use lock_core::{LockError, LockGuard, LockManager, NodeError, Vote};
use lock_support::{PostgresServer, eventually_async};

const TTL: Duration = Duration::from_secs(1);
/// Longer than a server takes to start again.
const LONG: Duration = Duration::from_secs(5);

async fn connect(url: &str, ttl: Duration) -> LockManager {
    let builder = LockManager::builder().postgres([url]).ttl(ttl).max_ttl(ttl).wait(Duration::from_secs(20));
    builder.connect().await.unwrap()
}

/// What became of a lock over a fault of its server.
struct Aftermath {
    /// Whether the node said that it is in quarantine, before anybody else had the lock.
    was_in_quarantine: bool,
    next: LockGuard,
}

/// The lock is held while the server goes. Nobody else has it before the holder's time is over.
async fn after(locks: &LockManager, held: &LockGuard) -> Aftermath {
    let mut was_in_quarantine = false;
    let quarantined = |vote: &Vote| matches!(vote, Vote::Failed(NodeError::Quarantined { .. }));
    loop {
        match locks.lock("r").try_acquire().await {
            Ok(next) => {
                assert!(!held.is_valid(), "two holders");
                assert!(next.token() > held.token());
                return Aftermath { was_in_quarantine, next };
            }
            Err(LockError::NoQuorum { votes, .. }) => {
                was_in_quarantine |= votes.iter().any(|vote| quarantined(&vote.vote));
            }
            Err(LockError::Contended { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_server_that_was_stopped_in_order_keeps_its_locks() {
    let mut server = PostgresServer::start().await;
    let (ours, theirs) = (connect(&server.url(), LONG).await, connect(&server.url(), LONG).await);
    let held = ours.lock("r").acquire().await.unwrap();
    let record = "SELECT run_id, member, epoch FROM locks.node";
    let before = server.query(record).await;
    server.restart().await;
    for locks in [&ours, &theirs] {
        eventually_async("it votes again", async || locks.health().await.quorum).await;
    }
    assert!(held.is_valid() && held.remaining() < LONG, "{:?}", held.remaining());
    assert!(matches!(theirs.lock("r").try_acquire().await, Err(LockError::Contended { .. })));
    assert!(held.release().await.unwrap(), "it was still ours");
    assert!(theirs.lock("r").try_acquire().await.is_ok());
    assert_eq!(server.query(record).await, before, "it is the same memory");
}

#[tokio::test]
async fn a_server_that_was_killed_sits_out_a_quarantine() {
    let mut server = PostgresServer::start().await;
    let (ours, theirs) = (connect(&server.url(), TTL).await, connect(&server.url(), TTL).await);
    let held = ours.lock("r").renew(false).acquire().await.unwrap();
    server.kill();
    server.start_again().await;
    let after = after(&theirs, &held).await;
    assert!(after.was_in_quarantine);
    drop(after.next);
}

#[tokio::test]
async fn a_server_that_was_stopped_at_once_sits_out_a_quarantine() {
    let mut server = PostgresServer::start().await;
    let (ours, theirs) = (connect(&server.url(), TTL).await, connect(&server.url(), TTL).await);
    let held = ours.lock("r").renew(false).acquire().await.unwrap();
    server.shut_down_immediately().await;
    server.start_again().await;
    assert!(after(&theirs, &held).await.was_in_quarantine);
}

#[tokio::test]
async fn a_standby_that_was_promoted_is_one_that_forgot() {
    let mut primary = PostgresServer::start().await;
    let locks = connect(&primary.url(), TTL).await;
    let held = locks.lock("r").renew(false).acquire().await.unwrap();
    let standby = PostgresServer::standby_of(&primary).await;
    let record = "SELECT run_id, member FROM locks.node";
    eventually_async("the standby has the record", async || standby.query(record).await == primary.query(record).await)
        .await;
    primary.kill();
    assert_eq!(standby.query("SELECT pg_promote()").await, "t");
    // Under its own address: as behind a name that leads to the primary of the time.
    let theirs = LockManager::builder().postgres([standby.url()]).ttl(TTL).max_ttl(TTL).connect_lazy().unwrap();
    let after = after(&theirs, &held).await;
    assert!(after.was_in_quarantine);
}
