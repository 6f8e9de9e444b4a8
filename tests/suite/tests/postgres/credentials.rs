//! Passwords of roles that change.

use std::convert::Infallible;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{Credentials, LockManager, LockManagerBuilder, NodeError};
use lock_support::{Load, PostgresServer, alone, eventually_async};
use tokio::time::sleep;

/// A server whose role `app` has to say its password.
async fn start() -> PostgresServer {
    let server = PostgresServer::start().await;
    server.query("CREATE ROLE app LOGIN; GRANT CREATE ON DATABASE postgres TO app").await;
    server.set_authentication("host all postgres all trust\nhost all all all scram-sha-256").await;
    server
}

async fn set_password(server: &PostgresServer, password: &str) {
    server.query(&format!("ALTER ROLE app PASSWORD '{password}'")).await;
}

/// Ends all sessions of the role. Returns how many there were.
async fn end_sessions(server: &PostgresServer) -> u32 {
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'app'";
    server.query(end).await.parse().unwrap()
}

fn builder(servers: &[PostgresServer], password: &Arc<Mutex<String>>) -> LockManagerBuilder {
    let (urls, password) = (servers.iter().map(|server| server.url_of("").replace("//@", "//")), Arc::clone(password));
    let credentials = move || Credentials::new("app", password.lock().unwrap().clone());
    LockManager::builder().postgres(urls).credentials(move || ready(Ok::<_, Infallible>(credentials())))
}

// promise: minority-faults
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acquisition_fails_while_the_password_of_the_role_changes_every_two_seconds() {
    let _alone = alone().await;
    let (servers, password) = (join_all([start(), start(), start()]).await, Arc::new(Mutex::new("first".to_owned())));
    join_all(servers.iter().map(|server| set_password(server, "first"))).await;
    let locks = builder(&servers, &password).connect().await.unwrap();
    let load = Load::start(&locks, 16);
    for change in 0..3 {
        sleep(Duration::from_secs(2)).await;
        let next = format!("password-{change}");
        password.lock().unwrap().clone_from(&next);
        for server in &servers {
            set_password(server, &next).await;
            // It may be connecting again just then. The others keep their connections until it has.
            eventually_async("sessions have ended", async || end_sessions(server).await > 0).await;
            eventually_async("all vote again", async || locks.health().await.nodes.iter().all(|node| node.admitted))
                .await;
        }
    }
    let done = load.stop().await;
    assert!(done.failed.is_empty(), "{:?}", done.failed);
    assert!(done.granted > 100, "{}", done.granted);
}

// promise: health
#[tokio::test]
async fn a_refused_password_is_named_and_tried_again() {
    let (server, password) = (start().await, Arc::new(Mutex::new("the-0ld-one".to_owned())));
    set_password(&server, "the-new-0ne").await;
    let locks = builder(std::slice::from_ref(&server), &password).connect_lazy().unwrap();
    eventually_async("health says so", async || {
        let problem = locks.health().await.nodes.remove(0).problem;
        let Some(NodeError::Credentials { reason }) = problem else { return false };
        assert!(!reason.contains("the-0ld-one"));
        reason.contains("password authentication failed")
    })
    .await;
    password.lock().unwrap().replace_range(.., "the-new-0ne");
    eventually_async("the lock is acquired", async || locks.lock("r").acquire().await.is_ok()).await;
}
