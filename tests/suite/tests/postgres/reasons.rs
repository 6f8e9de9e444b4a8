//! Why a server does not vote, in its own words: for callers, for the health, and in the log.

use std::time::Duration;

use lock_core::{LockError, LockManager, NodeError};
use lock_support::{Events, PostgresServer, eventually_async};
use tokio_postgres::{Client, NoTls};

const LOCK_TIMEOUT: &str = "55P03: canceling statement due to lock timeout";
const TERMINATED: &str = "terminating connection due to administrator command";
const NO_STANDBY: &str = "canceling wait for synchronous replication due to user request";

/// A session of an administrator, in which a transaction is open.
async fn admin(server: &PostgresServer, statement: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("BEGIN; {statement}")).await.unwrap();
    client
}

/// Why the only node did not vote.
async fn failed_vote(locks: &LockManager) -> String {
    let error = locks.lock("r").try_acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    error.votes()[0].to_string()
}

async fn problem(locks: &LockManager) -> Option<NodeError> {
    locks.health().await.nodes.remove(0).problem
}

/// The health names the reason, and so do callers, until the transaction of the administrator ends.
async fn is_told_until_it_ends(locks: &LockManager, blocker: Client, reason: &str) {
    eventually_async("the health names the reason", async || {
        problem(locks).await.is_some_and(|problem| problem.to_string().contains(reason))
    })
    .await;
    eventually_async("a caller gets the reason", async || failed_vote(locks).await.contains(reason)).await;
    blocker.batch_execute("ROLLBACK").await.unwrap();
    eventually_async("nothing is wrong any more", async || problem(locks).await.is_none()).await;
    eventually_async("locks are granted again", async || locks.lock("r").acquire().await.is_ok()).await;
}

#[tokio::test]
async fn a_table_that_an_administrator_locks_is_named_to_callers_and_in_the_health() {
    let server = PostgresServer::start().await;
    let locks = LockManager::builder().postgres([server.url()]).connect().await.unwrap();
    let blocker = admin(&server, "LOCK TABLE locks.lock IN ACCESS EXCLUSIVE MODE").await;
    // Also the first one.
    let vote = failed_vote(&locks).await;
    assert!(vote.contains(LOCK_TIMEOUT) && vote.contains("pg_blocking_pids"), "{vote}");
    is_told_until_it_ends(&locks, blocker, LOCK_TIMEOUT).await;
}

#[tokio::test]
async fn a_caller_that_does_not_wait_for_the_reason_gets_that_of_the_statement_before() {
    let server = PostgresServer::start().await;
    let builder = LockManager::builder().postgres([server.url()]).ttl(Duration::from_secs(1));
    let locks = builder.connect().await.unwrap();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    // The rows that count the tokens.
    let blocker = admin(&server, "SELECT * FROM locks.counter FOR UPDATE").await;
    assert!(failed_vote(&locks).await.contains("no reply in time"));
    is_told_until_it_ends(&locks, blocker, LOCK_TIMEOUT).await;
}

#[tokio::test]
async fn a_table_of_the_record_that_is_locked_is_named_although_no_session_can_be_prepared() {
    let server = PostgresServer::start().await;
    let locks = LockManager::builder().postgres([server.url()]).connect().await.unwrap();
    let blocker = admin(&server, "LOCK TABLE locks.node, locks.run IN ACCESS EXCLUSIVE MODE").await;
    is_told_until_it_ends(&locks, blocker, LOCK_TIMEOUT).await;
}

/// Ends the sessions of ours that are in this state.
async fn terminate(server: &PostgresServer, state: &str) {
    let terminate = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND {state}"
    );
    eventually_async("a session is ended", async || server.query(&terminate).await != "0").await;
}

#[tokio::test]
async fn a_session_that_the_server_ends_while_it_is_idle_is_lost_for_the_reason_that_the_server_gives() {
    let (server, events) = (PostgresServer::start().await, Events::record());
    let locks = LockManager::builder().postgres([server.url()]).connect().await.unwrap();
    terminate(&server, "state = 'idle'").await;
    eventually_async("it is logged", async || !events.named("lock.node_away").is_empty()).await;
    let away = events.named("lock.node_away").remove(0).fields;
    assert!(away.contains(TERMINATED), "{away}");
    eventually_async("it votes again", async || problem(&locks).await.is_none()).await;
}

#[tokio::test]
async fn a_session_that_the_server_ends_in_a_statement_is_lost_for_the_reason_that_the_server_gives() {
    let server = PostgresServer::start().await;
    let locks = LockManager::builder().postgres([server.url()]).connect().await.unwrap();
    let blocker = admin(&server, "LOCK TABLE locks.lock IN ACCESS EXCLUSIVE MODE").await;
    let (vote, ()) = tokio::join!(failed_vote(&locks), terminate(&server, "wait_event_type = 'Lock'"));
    assert!(vote.contains(TERMINATED), "{vote}");
    drop(blocker);
}

#[tokio::test]
async fn a_synchronous_standby_that_is_missing_is_named_to_callers_and_in_the_health() {
    let server = PostgresServer::start().await;
    let locks = LockManager::builder().postgres([server.url()]).connect().await.unwrap();
    server.query("ALTER SYSTEM SET synchronous_standby_names = 'standby'").await;
    server.query("SELECT pg_reload_conf()").await;
    eventually_async("the health names the reason", async || {
        problem(&locks).await.is_some_and(|problem| problem.to_string().contains(NO_STANDBY))
    })
    .await;
    eventually_async("a caller gets the reason", async || failed_vote(&locks).await.contains(NO_STANDBY)).await;
    server.query("ALTER SYSTEM RESET synchronous_standby_names").await;
    server.query("SELECT pg_reload_conf()").await;
    eventually_async("nothing is wrong any more", async || problem(&locks).await.is_none()).await;
}
