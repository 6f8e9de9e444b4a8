//! A primary that waits for a synchronous standby: here for one that there is not.

use std::sync::Arc;
use std::time::Duration;

use lock_core::node::{Keyspace, Kind, LockKeys, Operation, OwnerId, Reply, ReplySender, Request, WaiterId};
use lock_core::{LockError, LockManager, LockNode as _, NodeError, PostgresNode, Vote};
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
    // Less than what waits for a standby, for what others do.
    server.query("ALTER ROLE CURRENT_USER SET synchronous_commit = local").await;
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

// promise: postgresql
#[tokio::test]
async fn a_vote_for_a_lock_that_its_owner_has_already_waits_for_the_standby() {
    let (owner, ttl, kind) = (OwnerId::from_bits(1), Duration::from_secs(60), Kind::Write);
    let acquire = || Operation::Acquire { owner, ttl, hint: 0, tokens: 1, since: None, kind };
    let replace = || Operation::Replace { owner, ttl, token: 1, kind };
    for operation in [&acquire as &(dyn Fn() -> Operation + Sync), &replace] {
        let server = PostgresServer::start().await;
        // Writes the record.
        let locks = LockManager::builder().postgres([server.url()]).connect().await.unwrap();
        let (node, keyspace) = (PostgresNode::from_url(&server.url()).unwrap(), Arc::new(Keyspace::new("lock:")));
        let epoch = node.inspect(&keyspace).await.unwrap().record.get().unwrap().epoch.unwrap();
        let submit = |operation| {
            let (keys, waiter) = (LockKeys::new(&keyspace, "r"), WaiterId::from_bits(1));
            let (reply_to, reply) = ReplySender::channel();
            node.submit(Request { keys, epoch, waiter, polls: false, operation }, reply_to);
            reply
        };
        assert!(matches!(submit(acquire()).await, Ok(Reply::Granted { .. })));
        has_standby(&server, "ALTER SYSTEM SET synchronous_standby_names = 'standby'").await;
        eventually_async("the vote waits for the standby", async || {
            drop(submit(operation()));
            server.query("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").await == "1"
        })
        .await;
        drop(locks);
    }
}

// promise: postgresql, distinct-errors
#[tokio::test]
async fn a_user_who_may_not_log_for_standbys_is_told_which_permission_that_takes() {
    let server = PostgresServer::start().await;
    server.query("CREATE USER app; GRANT CREATE ON DATABASE postgres TO app").await;
    server
        .query(
            "DO $$ DECLARE f regprocedure; BEGIN
               FOR f IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.proname = 'pg_logical_emit_message'
               LOOP EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f); END LOOP; END $$",
        )
        .await;
    // It is needed for standbys alone.
    let locks = LockManager::builder().postgres([server.url_of("app")]).connect().await.unwrap();
    assert!(locks.lock("r").try_acquire().await.unwrap().release().await.unwrap());
    has_standby(&server, "ALTER SYSTEM SET synchronous_standby_names = 'standby'").await;
    // A client that is connected is told by a vote, and one that connects at once.
    let error = refused(locks).await.to_string();
    assert!(error.contains("GRANT EXECUTE ON FUNCTION pg_logical_emit_message"), "{error}");
    let builder = LockManager::builder().postgres([server.url_of("app")]).connect_timeout(Duration::from_secs(5));
    let error = builder.connect().await.unwrap_err().to_string();
    assert!(error.contains("GRANT EXECUTE ON FUNCTION pg_logical_emit_message"), "{error}");
}
