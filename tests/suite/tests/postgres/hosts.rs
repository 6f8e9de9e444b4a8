//! What hosts of PostgreSQL do: they deny functions, limit connections, set timeouts for a role, and exchange passwords.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{ConfigError, ConnectError, LockManager, NodeError, PostgresNode};
use lock_support::{Events, PostgresServer, eventually_async};
use tokio::net::TcpStream;
use tokio_postgres::{Client, Config, NoTls};

/// Why the only master of a manager is not used.
async fn problem(locks: &LockManager) -> Option<NodeError> {
    locks.health().await.nodes.remove(0).problem
}

/// A session of another application.
async fn session(url: &str) -> Client {
    let (client, wire) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(wire);
    client.batch_execute("SELECT 1").await.unwrap();
    client
}

// promise: postgresql
#[tokio::test]
async fn a_user_whose_host_denies_what_reads_the_log_and_the_control_file_has_locks() {
    let server = PostgresServer::start().await;
    server.query("CREATE USER app; GRANT CREATE ON DATABASE postgres TO app").await;
    // Every function about the log, the control file, replication, files and backups.
    let denied = "DO $$ DECLARE f regprocedure; BEGIN
        FOR f IN SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace
          AND p.proname ~ '^pg_(current_wal|last_wal|last_xact|wal|walfile|switch_wal|control|create_restore|backup|stop_|start_|replication|logical|ls_|read_|stat_file|get_wal|create_.*slot|drop_.*slot)'
        LOOP EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f); END LOOP; END $$";
    server.query(denied).await;
    let allowed = "SELECT has_function_privilege('app', 'pg_current_wal_insert_lsn()', 'EXECUTE')
                     OR has_function_privilege('app', 'pg_control_system()', 'EXECUTE')";
    assert_eq!(server.query(allowed).await, "f");
    let locks = LockManager::builder().postgres([server.url_of("app")]).connect().await.unwrap();
    let by_others = LockManager::builder().postgres([server.url()]).connect().await.unwrap();
    let guard = locks.lock("r").acquire().await.unwrap();
    assert!(by_others.lock("r").try_acquire().await.is_err());
    assert!(guard.release().await.unwrap());
    // One who may call them has the same name for the same memory.
    assert!(by_others.lock("r").acquire().await.unwrap().release().await.unwrap());
    assert!(problem(&locks).await.is_none() && problem(&by_others).await.is_none());
}

/// Fails with this reason while another application has the last connection, and works once that is closed.
async fn waits_for_room(url: &str, last: Client, reason: &str) {
    let builder = || LockManager::builder().postgres([url]).connect_timeout(Duration::from_secs(1));
    let error = builder().connect().await.unwrap_err();
    assert!(matches!(error, ConnectError::NoQuorum { .. }), "{error}");
    assert!(error.to_string().contains(reason), "{error}");
    let locks = builder().connect_lazy().unwrap();
    eventually_async("the limit is named", async || {
        matches!(problem(&locks).await, Some(NodeError::Unreachable { reason: found }) if found.contains(reason))
    })
    .await;
    drop(last);
    eventually_async("there is room", async || locks.lock("r").acquire().await.is_ok()).await;
}

// promise: postgresql, distinct-errors
#[tokio::test]
async fn a_role_without_a_connection_left_is_told_which_limit_that_is_and_connects_once_there_is_room() {
    let server = PostgresServer::start().await;
    server.query("CREATE USER app CONNECTION LIMIT 1; GRANT CREATE ON DATABASE postgres TO app").await;
    let last = session(&server.url_of("app")).await;
    waits_for_room(&server.url_of("app"), last, "ALTER ROLE .. CONNECTION LIMIT").await;
}

// promise: postgresql, distinct-errors
#[tokio::test]
async fn a_server_without_a_connection_left_is_told_which_limit_that_is_and_is_used_once_there_is_room() {
    let server =
        PostgresServer::start_with(&["-c", "max_connections=5", "-c", "superuser_reserved_connections=2"]).await;
    server.query("CREATE USER app; GRANT CREATE ON DATABASE postgres TO app").await;
    let (_first, _second) = (session(&server.url_of("app")).await, session(&server.url_of("app")).await);
    let last = session(&server.url_of("app")).await;
    waits_for_room(&server.url_of("app"), last, "max_connections").await;
}

#[tokio::test]
async fn a_waiter_without_a_second_connection_polls() {
    let server = PostgresServer::start().await;
    server.query("CREATE USER app CONNECTION LIMIT 2; GRANT CREATE ON DATABASE postgres TO app").await;
    let connect = || LockManager::builder().postgres([server.url_of("app")]).wait(Duration::from_secs(20)).connect();
    let (ours, theirs) = (connect().await.unwrap(), connect().await.unwrap());
    let held = ours.lock("r").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { theirs.lock("r").acquire().await });
    eventually_async("it waits", async || server.query("SELECT count(*) FROM locks.waiter").await == "1").await;
    assert!(held.release().await.unwrap());
    assert!(waiter.await.unwrap().is_ok());
}

// promise: postgresql
#[tokio::test]
async fn backslashes_that_a_role_takes_for_escapes_disturb_no_permit() {
    let (server, events) = (PostgresServer::start().await, Events::record());
    server.query("CREATE USER app; GRANT CREATE ON DATABASE postgres TO app").await;
    server.query("ALTER ROLE app SET standard_conforming_strings = off").await;
    let locks = LockManager::builder().postgres([server.url_of("app")]).connect().await.unwrap();
    let _held = locks.permits("export", 1).acquire().await.unwrap();
    assert!(locks.permits("export", 1).wait(Duration::from_millis(100)).acquire().await.is_err());
    assert_eq!(events.named("lock.node_away").len(), 0, "the session goes on");
}

// promise: postgresql
#[tokio::test]
async fn timeouts_that_a_role_has_do_not_end_what_locks_do() {
    let server = PostgresServer::start().await;
    server.query("CREATE USER app; GRANT CREATE ON DATABASE postgres TO app").await;
    for setting in ["statement_timeout", "lock_timeout"] {
        server.query(&format!("ALTER ROLE app SET {setting} = '1ms'")).await;
    }
    let locks = LockManager::builder().postgres([server.url_of("app")]).connect().await.unwrap();
    for _ in 0..20 {
        assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    }
}

#[test]
fn a_url_of_another_protocol_is_refused_with_what_is_expected_and_without_its_password() {
    for url in [
        "redis://app:s3cret@db/0",
        "mysql://app:s3cret@db/shop",
        "http://app:s3cret@db",
        "jdbc:postgresql://app:s3cret@db/shop",
    ] {
        let error = LockManager::builder().postgres([url]).connect_lazy().unwrap_err();
        assert!(matches!(error, ConfigError::InvalidUrl(_)), "{error:?}");
        assert!(error.to_string().contains("postgres://"), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A factory that logs in with the present password of the user `app`, and counts its calls.
struct Rotating {
    server: u16,
    password: Mutex<String>,
    calls: AtomicUsize,
}

impl Rotating {
    fn dial(self: &Arc<Self>) -> impl Future<Output = Result<(Config, TcpStream), BoxError>> + Send + use<> {
        let this = Arc::clone(self);
        async move {
            this.calls.fetch_add(1, Ordering::Relaxed);
            let password = this.password.lock().unwrap().clone();
            if password.is_empty() {
                return Err("no token could be had".into());
            }
            let stream = TcpStream::connect(("127.0.0.1", this.server)).await?;
            let mut config = Config::new();
            config.user("app").password(password).dbname("postgres");
            Ok((config, stream))
        }
    }

    fn node(self: &Arc<Self>) -> PostgresNode {
        let this = Arc::clone(self);
        PostgresNode::from_factory("shop", move || this.dial())
    }
}

// promise: postgresql
#[tokio::test]
async fn a_factory_is_called_for_every_connection_and_can_log_in_with_another_password_each_time() {
    let server = PostgresServer::start().await;
    server.query("CREATE USER app PASSWORD 'first'; GRANT CREATE ON DATABASE postgres TO app").await;
    server.set_authentication("host all app 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust").await;
    let rotating =
        Arc::new(Rotating { server: server.port(), password: Mutex::new("first".into()), calls: AtomicUsize::new(0) });
    let locks = LockManager::builder().nodes([rotating.node()]).connect().await.unwrap();
    assert_eq!(locks.health().await.nodes[0].name, "shop");
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'app'";
    for password in ["second", "third"] {
        let calls = rotating.calls.load(Ordering::Relaxed);
        server.query(&format!("ALTER USER app PASSWORD '{password}'")).await;
        password.clone_into(&mut rotating.password.lock().unwrap());
        server.query(ended).await;
        eventually_async("it logged in again", async || locks.lock("r").acquire().await.is_ok()).await;
        assert!(rotating.calls.load(Ordering::Relaxed) > calls);
    }
    // What goes wrong in it is what is said.
    rotating.password.lock().unwrap().clear();
    server.query(ended).await;
    eventually_async("the reason is told", async || {
        matches!(problem(&locks).await, Some(NodeError::Unreachable { reason }) if reason.contains("no token could be had"))
    })
    .await;
}

// promise: postgresql
#[tokio::test]
async fn what_waits_on_the_server_is_cancelled_over_a_connection_of_the_factory() {
    let server = PostgresServer::start().await;
    server.query("CREATE USER app PASSWORD 'first'; GRANT CREATE ON DATABASE postgres TO app").await;
    let rotating =
        Arc::new(Rotating { server: server.port(), password: Mutex::new("first".into()), calls: AtomicUsize::new(0) });
    let of_factory = Arc::clone(&rotating);
    let builder = LockManager::builder().postgres_factory("shop", move || of_factory.dial());
    let locks = builder.ttl(Duration::from_secs(1)).connect().await.unwrap();
    server.query("ALTER SYSTEM SET synchronous_standby_names = 'standby'").await;
    server.query("SELECT pg_reload_conf()").await;
    let waiting = async || server.query("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").await;
    eventually_async("a grant waits for the standby", async || {
        _ = locks.lock("r").try_acquire().await;
        waiting().await == "1"
    })
    .await;
    locks.shutdown(Duration::from_millis(100)).await;
    eventually_async("nothing waits on the server", async || waiting().await == "0").await;
}

// promise: postgresql
#[tokio::test]
async fn a_factory_that_panics_is_a_node_that_cannot_be_reached() {
    async fn late() -> Result<(Config, TcpStream), BoxError> {
        panic!("later")
    }
    fn at_once() -> std::future::Ready<Result<(Config, TcpStream), BoxError>> {
        panic!("at once")
    }
    for builder in [
        LockManager::builder().postgres_factory("shop", late),
        LockManager::builder().postgres_factory("shop", at_once),
    ] {
        let locks = builder.connect_lazy().unwrap();
        eventually_async("the reason is told", async || {
            matches!(problem(&locks).await, Some(NodeError::Unreachable { reason }) if reason.contains("the factory of connections panicked"))
        })
        .await;
    }
}
