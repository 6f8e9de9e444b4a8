//! Which ways to stop a server lose its memory, and which do not.

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{Evict, Keyspace, LockKeys};
use lock_core::{LockError, LockGuard, LockManager, LockNode as _, NodeError, PostgresNode, Vote};
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

// promise: postgresql
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

// promise: postgresql
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

// promise: postgresql
#[tokio::test]
async fn a_server_that_was_stopped_at_once_sits_out_a_quarantine() {
    let mut server = PostgresServer::start().await;
    let (ours, theirs) = (connect(&server.url(), TTL).await, connect(&server.url(), TTL).await);
    let held = ours.lock("r").renew(false).acquire().await.unwrap();
    server.shut_down_immediately().await;
    server.start_again().await;
    assert!(after(&theirs, &held).await.was_in_quarantine);
}

// promise: postgresql
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

/// What somebody does to the tables of the ledger while a lock is held: other services notice before they grant it.
async fn is_noticed(what: &str) {
    let server = PostgresServer::start().await;
    let (ours, theirs) = (connect(&server.url(), TTL).await, connect(&server.url(), TTL).await);
    // Both have used the tables, so that the server has plans for them.
    for locks in [&ours, &theirs] {
        assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    }
    let held = ours.lock("r").renew(false).acquire().await.unwrap();
    server.query(what).await;
    let after = after(&theirs, &held).await;
    assert!(after.was_in_quarantine, "{what}");
}

// promise: postgresql
#[tokio::test]
async fn a_ledger_whose_locks_were_truncated_is_noticed_before_the_next_grant() {
    is_noticed("TRUNCATE locks.lock").await;
}

// promise: postgresql
#[tokio::test]
async fn a_ledger_of_which_a_table_was_dropped_and_created_is_noticed_before_the_next_grant() {
    is_noticed(&format!("DROP TABLE locks.lock; {}", lock_core::PostgresNode::SCHEMA)).await;
}

// promise: postgresql
#[tokio::test]
async fn a_ledger_that_lost_fences_readers_or_tombstones_is_noticed() {
    for table in ["fence", "reader", "evicted"] {
        is_noticed(&format!("TRUNCATE locks.{table}")).await;
    }
}

// promise: quarantine, postgresql
#[tokio::test]
async fn a_ledger_whose_record_was_restored_is_noticed() {
    is_noticed("CREATE TABLE backup AS TABLE locks.node; TRUNCATE locks.node; INSERT INTO locks.node TABLE backup")
        .await;
}

// promise: forced-release, postgresql
#[tokio::test]
async fn an_eviction_from_a_ledger_that_lost_its_locks_does_not_count() {
    let server = PostgresServer::start().await;
    let locks = connect(&server.url(), TTL).await;
    let held = locks.lock("r").renew(false).acquire().await.unwrap();
    let (node, keyspace) = (PostgresNode::from_url(&server.url()).unwrap(), Arc::new(Keyspace::new("lock:")));
    let epoch = node.inspect(&keyspace).await.unwrap().record.get().unwrap().epoch.unwrap();
    server.query("TRUNCATE locks.lock").await;
    let (keys, token) = (LockKeys::new(&keyspace, "r"), held.token().get() + 1_000);
    let evicted = node.evict(Evict { keys, epoch, holders: Vec::new(), token, barred_for: TTL }).await;
    assert_eq!(evicted, Err(NodeError::Unadmitted));
}

#[tokio::test]
async fn a_table_that_was_dropped_and_is_created_later_is_noticed() {
    let server = PostgresServer::start().await;
    let (ours, theirs) = (connect(&server.url(), TTL).await, connect(&server.url(), TTL).await);
    assert!(theirs.lock("r").acquire().await.unwrap().release().await.unwrap());
    let held = ours.lock("r").renew(false).acquire().await.unwrap();
    server.query("DROP TABLE locks.lock").await;
    let error = theirs.lock("r").try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    server.query(lock_core::PostgresNode::SCHEMA).await;
    after(&theirs, &held).await;
}

// promise: postgresql
#[tokio::test]
async fn rows_that_only_decide_who_is_next_may_be_truncated() {
    let server = PostgresServer::start().await;
    let (ours, theirs) = (connect(&server.url(), LONG).await, connect(&server.url(), LONG).await);
    let held = ours.lock("r").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { theirs.lock("r").acquire().await });
    eventually_async("it waits", async || server.query("SELECT count(*) FROM locks.waiter").await == "1").await;
    server.query("TRUNCATE locks.queue, locks.waiter, locks.reservation, locks.heard").await;
    assert!(held.is_valid() && held.release().await.unwrap());
    assert!(waiter.await.unwrap().is_ok());
}

// promise: postgresql
#[tokio::test]
async fn a_copy_of_the_files_of_a_server_that_was_stopped_in_order_is_one_that_forgot() {
    let mut server = PostgresServer::start().await;
    let (ours, theirs) = (connect(&server.url(), LONG).await, connect(&server.url(), LONG).await);
    server.shut_down().await;
    let copy = server.copy_files();
    server.start_again().await;
    for locks in [&ours, &theirs] {
        eventually_async("it votes again", async || locks.health().await.quorum).await;
    }
    let run_id = server.query("SELECT run_id FROM locks.node").await;
    let held = ours.lock("r").renew(false).acquire().await.unwrap();
    // The services work on, so that the log is longer than what they write when they connect again; and they have seen it.
    for n in 0..100 {
        theirs.lock(format!("other:{n}")).acquire().await.unwrap().release().await.unwrap();
    }
    for locks in [&ours, &theirs] {
        assert!(locks.health().await.quorum);
    }
    server.shut_down().await;
    server.put_back(&copy);
    server.start_again().await;
    let after = after(&theirs, &held).await;
    assert!(after.was_in_quarantine);
    assert_eq!(server.query("SELECT run_id FROM locks.node").await, run_id, "nothing in it shows that it forgot");
}
