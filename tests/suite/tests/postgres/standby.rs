//! A primary that waits for a synchronous standby: here for one that there is not.

use std::time::Duration;

use lock_core::{LockError, LockManager, NodeError, Vote};
use lock_support::{PostgresServer, eventually_async};

async fn has_standby(server: &PostgresServer, setting: &str) {
    server.query(setting).await;
    server.query("SELECT pg_reload_conf()").await;
}

/// Why a lock is not granted. The server reads its settings a moment later, and grants until then.
async fn refused(locks: LockManager) -> LockError {
    loop {
        match locks.lock("r").try_acquire().await {
            Ok(guard) => assert!(guard.release().await.unwrap()),
            Err(error) => return error,
        }
    }
}

// promise: postgresql
#[tokio::test]
async fn a_grant_that_no_synchronous_standby_has_is_no_vote() {
    let server = PostgresServer::start().await;
    let locks = LockManager::builder().postgres([server.url()]).connect().await.unwrap();
    let before = locks.lock("r").try_acquire().await.unwrap();
    let token = before.token();
    // Neither this release nor any other waits for a standby.
    has_standby(&server, "ALTER SYSTEM SET synchronous_standby_names = 'standby'").await;
    assert!(before.release().await.unwrap());

    let attempt = tokio::spawn(refused(locks.clone()));
    eventually_async("the grant waits for the standby, and the wait is cancelled", async || {
        // The server warns, and then commits: PostgreSQL takes that for a success.
        server
            .query("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            .await
            .parse::<u32>()
            .is_ok_and(|cancelled| cancelled > 0)
    })
    .await;
    let error = attempt.await.unwrap();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    let vote = &error.votes()[0].vote;
    assert!(matches!(vote, Vote::Failed(NodeError::ConnectionLost { .. } | NodeError::Unreachable { .. })), "{vote:?}");

    has_standby(&server, "ALTER SYSTEM RESET synchronous_standby_names").await;
    eventually_async("the lock is released and granted again", async || {
        locks.lock("r").try_acquire().await.is_ok_and(|guard| guard.token() > token)
    })
    .await;
}

// promise: postgresql
#[tokio::test]
async fn a_grant_that_waits_for_a_standby_is_cancelled_when_its_connection_is_given_up() {
    let server = PostgresServer::start().await;
    let locks = LockManager::builder().postgres([server.url()]).ttl(Duration::from_secs(1)).connect().await.unwrap();
    has_standby(&server, "ALTER SYSTEM SET synchronous_standby_names = 'standby'").await;
    let waiting = async || {
        server.query("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").await.parse::<u32>().unwrap()
    };
    let attempt = tokio::spawn(refused(locks.clone()));
    eventually_async("the grant waits for the standby", async || waiting().await == 1).await;
    attempt.await.unwrap();
    // It gives the connection up, as a connection that stalls for seconds is.
    locks.shutdown(Duration::from_millis(100)).await;
    eventually_async("nothing waits on the server", async || waiting().await == 0).await;
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'";
    eventually_async("nothing is locked on the server", async || server.query(held).await == "0").await;
}
