//! Servers that cannot be nodes: the error says why, and what to do, and nothing is granted.

use std::io;
use std::time::Duration;

use lock_core::masters::Refusal;
use lock_core::{ConfigError, ConnectError, LockError, LockManager, NodeError};
use lock_support::{PostgresServer, RedisServer, accept, eventually_async, free_port};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

async fn error_of(url: &str) -> ConnectError {
    LockManager::builder().postgres([url]).connect().await.unwrap_err()
}

async fn refusal_of(url: &str) -> String {
    match error_of(url).await {
        ConnectError::Config(ConfigError::RefusedNode { refusal, .. }) => refusal.to_string(),
        other => panic!("{other}"),
    }
}

// promise: postgresql
#[tokio::test]
async fn a_user_who_may_not_create_the_tables_is_told_the_sql_for_somebody_who_may() {
    let server = PostgresServer::start().await;
    server.query("CREATE USER app").await;
    let url = server.url_of("app");
    let refusal = refusal_of(&url).await;
    assert!(
        refusal.contains("CREATE UNLOGGED TABLE IF NOT EXISTS locks.lock") && refusal.contains("GRANT USAGE"),
        "{refusal}"
    );
    // What it says, run by the superuser, is all that is needed.
    server.query(lock_core::PostgresNode::SCHEMA).await;
    let refusal = refusal_of(&url).await;
    assert!(refusal.contains("permission") && refusal.contains("GRANT USAGE"), "{refusal}");
    server.query("GRANT USAGE ON SCHEMA locks TO app").await;
    server.query("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA locks TO app").await;
    let locks = LockManager::builder().postgres([&url]).connect().await.unwrap();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
    // Without a permission that only a vote needs.
    server.query("REVOKE UPDATE ON locks.lock FROM app").await;
    let refusal = refusal_of(&url).await;
    assert!(refusal.contains("permission") && refusal.contains("GRANT"), "{refusal}");
}

// promise: postgresql
#[tokio::test]
async fn a_user_who_may_not_create_temporary_functions_is_told_so() {
    let server = PostgresServer::start().await;
    server.query("CREATE USER app; REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC").await;
    server.query("GRANT CREATE ON DATABASE postgres TO app").await;
    let refusal = refusal_of(&server.url_of("app")).await;
    assert!(refusal.contains("GRANT TEMPORARY"), "{refusal}");
}

#[tokio::test]
async fn a_table_that_a_crash_would_not_empty_any_more_is_refused() {
    let server = PostgresServer::start().await;
    let locks = LockManager::builder().postgres([server.url()]).connect().await.unwrap();
    drop(locks);
    server.query("ALTER TABLE locks.run SET LOGGED").await;
    let refusal = refusal_of(&server.url()).await;
    assert!(refusal.contains("ALTER TABLE locks.run SET UNLOGGED"), "{refusal}");
}

#[tokio::test]
async fn a_database_whose_transactions_only_read_by_default_can_be_a_node() {
    let server = PostgresServer::start().await;
    server.query("ALTER DATABASE postgres SET default_transaction_read_only = on").await;
    let locks = LockManager::builder().postgres([server.url()]).connect().await.unwrap();
    assert!(locks.lock("r").acquire().await.unwrap().release().await.unwrap());
}

// promise: postgresql
#[tokio::test]
async fn a_warning_that_may_concern_a_commit_is_the_reason_that_a_vote_failed() {
    let server = PostgresServer::start().await;
    let locks = LockManager::builder().postgres([server.url()]).connect().await.unwrap();
    let warn = "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE WARNING 'something is wrong'; RETURN NULL; END $$;
                CREATE TRIGGER warn AFTER INSERT ON locks.lock FOR EACH ROW EXECUTE FUNCTION public.warn()";
    server.query(warn).await;
    let error = locks.lock("r").try_acquire().await.unwrap_err();
    let LockError::NoQuorum { votes, .. } = &error else { panic!("{error}") };
    assert!(format!("{votes:?}").contains("the server warned: something is wrong"), "{votes:?}");
}

#[tokio::test]
async fn a_schema_with_tables_of_somebody_else_is_refused() {
    let server = PostgresServer::start().await;
    server.query("CREATE SCHEMA locks; CREATE TABLE locks.lock (door text)").await;
    for _ in 0..2 {
        let refusal = refusal_of(&server.url()).await;
        assert!(refusal.contains("not those of this version") && refusal.contains("rename"), "{refusal}");
    }
}

// promise: postgresql
#[tokio::test]
async fn a_standby_is_refused() {
    let primary = PostgresServer::start().await;
    let standby = PostgresServer::standby_of(&primary).await;
    let refusal = refusal_of(&standby.url()).await;
    assert!(refusal.contains("primary"), "{refusal}");
}

// promise: postgresql
#[tokio::test]
async fn a_database_that_is_not_utf8_is_refused() {
    let server = PostgresServer::start().await;
    server.query("UPDATE pg_database SET encoding = pg_char_to_encoding('SQL_ASCII')").await;
    let refusal = refusal_of(&server.url()).await;
    assert!(refusal.contains("got SQL_ASCII") && refusal.contains("ENCODING 'UTF8'"), "{refusal}");
}

// promise: postgresql
#[tokio::test]
async fn a_wrong_password_a_missing_one_and_a_missing_database_are_told_apart_and_never_shown() {
    let server = PostgresServer::start().await;
    server.query("CREATE USER app PASSWORD 'right'").await;
    server.set_authentication("host all app 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust").await;
    let url = |login: &str, database: &str| format!("postgres://{login}@127.0.0.1:{}/{database}", server.port());
    for login in ["app:s3cret", "app"] {
        let error = error_of(&url(login, "postgres")).await;
        assert!(
            matches!(&error, ConnectError::Config(ConfigError::RefusedNode { refusal: Refusal::Login { .. }, .. })),
            "{error:?}"
        );
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
    let refusal = refusal_of(&url("app:right", "nowhere")).await;
    assert!(refusal.contains("create the database"), "{refusal}");
}

// promise: postgresql
#[tokio::test]
async fn nobody_at_the_address_is_no_quorum() {
    let builder = LockManager::builder().postgres([format!("postgres://app@127.0.0.1:{}/db", free_port())]);
    let error = builder.connect_timeout(Duration::from_secs(1)).connect().await.unwrap_err();
    let ConnectError::NoQuorum { unreachable, .. } = &error else { panic!("{error}") };
    assert!(
        matches!(&unreachable[0].1, NodeError::Unreachable { reason } if reason == "connection refused"),
        "{error}"
    );
}

// promise: postgresql
#[tokio::test]
async fn a_redis_server_at_the_address_is_named_as_no_postgresql_server() {
    for arguments in [&[][..], &["--requirepass", "secret"]] {
        let redis = RedisServer::start_with(arguments).await;
        let url = format!("postgres://app:s3cret@127.0.0.1:{}/db", redis.port());
        let locks = LockManager::builder().postgres([url]).connect_lazy().unwrap();
        eventually_async("it is found out", async || {
            let node = locks.health().await.nodes.remove(0);
            matches!(&node.problem, Some(NodeError::Refused(Refusal::Unusable { reason })) if reason.contains("not a PostgreSQL server"))
        })
        .await;
    }
}

#[test]
fn a_password_with_an_at_sign_is_refused_with_how_to_write_it() {
    let error = lock_core::PostgresNode::from_url("postgres://app:s3c@ret@db/shop").unwrap_err();
    assert!(error.reason.contains("%40") && !format!("{error:?}").contains("ret"), "{error:?}");
    let node = lock_core::PostgresNode::from_url("postgres://app:s3c%40ret@db/shop").unwrap();
    assert_eq!(lock_core::LockNode::name(&node), "db:5432/shop");
}

/// Behind a pooler, each transaction may reach another session. This one leads to one session at first, and to a second one when it
/// is told to.
struct Pooler {
    port: u16,
    switch: watch::Sender<usize>,
}

impl Pooler {
    async fn start(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (port, switch) = (listener.local_addr().unwrap().port(), watch::Sender::new(0));
        let sessions = switch.subscribe();
        tokio::spawn(accept(listener, move |client| {
            let sessions = sessions.clone();
            async move { _ = pool(client, server, sessions).await }
        }));
        Self { port, switch }
    }
}

async fn pool(mut client: TcpStream, server: u16, session: watch::Receiver<usize>) -> io::Result<()> {
    let length = client.read_u32().await?;
    let mut login = vec![0; length as usize - 4];
    client.read_exact(&mut login).await?;
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let mut session = TcpStream::connect(("127.0.0.1", server)).await?;
        session.write_u32(length).await?;
        session.write_all(&login).await?;
        sessions.push(session);
    }
    // What the second one says when it is ready is not for the client.
    let mut greeting = Vec::new();
    while !greeting.ends_with(b"Z\0\0\0\x05I") {
        sessions[1].read_buf(&mut greeting).await?;
    }
    let (mut request, mut reply) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let number = *session.borrow();
        tokio::select! {
            size = client.read(&mut request) => match size? {
                0 => return Ok(()),
                size => {
                    let number = *session.borrow();
                    sessions[number].write_all(&request[..size]).await?;
                }
            },
            size = sessions[number].read(&mut reply) => match size? {
                0 => return Ok(()),
                size => client.write_all(&reply[..size]).await?,
            },
        }
    }
}

// promise: postgresql
#[tokio::test]
async fn behind_a_pooler_nothing_is_granted() {
    let server = PostgresServer::start().await;
    let pooler = Pooler::start(server.port()).await;
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", pooler.port);
    let locks = LockManager::builder().postgres([url]).connect().await.unwrap();
    drop(locks.lock("first").acquire().await.unwrap());
    let held = "SELECT count(*) FROM locks.lock WHERE expires > clock_timestamp()";
    eventually_async("the lock is released", async || server.query(held).await == "0").await;
    // The next transaction has another session.
    pooler.switch.send_replace(1);
    let error = locks.lock("second").try_acquire().await.unwrap_err();
    let LockError::NoQuorum { votes, .. } = &error else { panic!("{error}") };
    assert!(format!("{votes:?}").contains("name the address of the PostgreSQL server itself"), "{votes:?}");
    assert_eq!(server.query(held).await, "0");
}
