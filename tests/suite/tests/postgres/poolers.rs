//! `PgBouncer` in front of a server: for locks, it is refused, and nothing stays in the sessions of other applications. For claims, it is
//! used, and may run each transaction in another session.

use std::time::Duration;

use futures_util::future::join_all;
use lock_axum::fence;
use lock_core::masters::Refusal;
use lock_core::{ConfigError, ConnectError, Lease, LockManager, NodeError};
use lock_support::{PgBouncer, PostgresServer, eventually_async};
use tokio_postgres::NoTls;

use crate::claims::leases;
use crate::shop::open;

const IGNORES_OPTIONS: &str = "ignore_startup_parameters = options";

async fn refusal_of(pooler: &PgBouncer) -> String {
    match LockManager::builder().postgres([pooler.url()]).connect().await.unwrap_err() {
        ConnectError::Config(ConfigError::RefusedNode { refusal: Refusal::Unusable { reason }, .. }) => reason,
        other => panic!("{other}"),
    }
}

/// What another application finds in a session of the pool.
async fn session(pooler: &PgBouncer) -> String {
    let settings = "SELECT string_agg(current_setting(name), ' ') FROM unnest(ARRAY['synchronous_commit', 'search_path',
                      'statement_timeout', 'lock_timeout', 'enable_seqscan', 'plan_cache_mode', 'tcp_user_timeout']) AS name";
    let left = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'lock\\_%' UNION ALL SELECT count(*) FROM pg_prepared_statements
                UNION ALL SELECT count(*) FROM pg_listening_channels() UNION ALL SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    format!("{} {}", pooler.query(settings).await, pooler.query(left).await)
}

const UNTOUCHED: &str = "on \"$user\", public 0 0 on auto 0 0\n0\n0\n0";

// promise: postgresql
#[tokio::test]
async fn a_pooler_is_refused_by_all_services_with_the_remedy_and_its_sessions_are_untouched() {
    let server = PostgresServer::start().await;
    for mode in ["transaction", "session"] {
        for ignored in ["", IGNORES_OPTIONS] {
            // One session, which the next application has.
            let mode = format!("pool_mode = {mode}");
            let pooler =
                PgBouncer::start(&server, &[&mode, "default_pool_size = 1", "server_reset_query =", ignored]).await;
            assert_eq!(session(&pooler).await, UNTOUCHED);
            let refusals = join_all((0..3).map(|_| refusal_of(&pooler))).await;
            for refusal in refusals {
                assert!(
                    refusal.contains("pooler") && refusal.contains("name the address of the PostgreSQL server itself"),
                    "{refusal}"
                );
            }
            assert_eq!(session(&pooler).await, UNTOUCHED, "{mode} {ignored}");
        }
    }
    let tables = "SELECT count(*) FROM pg_namespace WHERE nspname = 'locks'";
    assert_eq!(server.query(tables).await, "0", "nothing was created");
}

// promise: postgresql
#[tokio::test]
async fn a_pool_that_is_too_small_is_named_as_that() {
    let server = PostgresServer::start().await;
    let lines = ["pool_mode = session", "default_pool_size = 1", IGNORES_OPTIONS];
    let pooler = PgBouncer::start(&server, &lines).await;
    let application = tokio::spawn({
        let url = pooler.url();
        async move {
            let (client, wire) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(wire);
            client.batch_execute("SELECT 1").await.unwrap();
            client
        }
    });
    let application = application.await.unwrap();
    let locks = LockManager::builder().postgres([pooler.url()]).connect_lazy().unwrap();
    eventually_async("it is found out", async || {
        let node = locks.health().await.nodes.remove(0);
        matches!(&node.problem, Some(NodeError::Unreachable { reason }) if reason.contains("whose pool is too small"))
    })
    .await;
    drop(application);
}

#[tokio::test]
async fn a_pooler_that_takes_no_more_clients_says_so_itself() {
    let server = PostgresServer::start().await;
    let pooler = PgBouncer::start(&server, &["max_client_conn = 1", IGNORES_OPTIONS]).await;
    let (client, wire) = tokio_postgres::connect(&pooler.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(wire);
    let builder = LockManager::builder().postgres([pooler.url()]).connect_timeout(Duration::from_secs(2));
    let error = builder.connect().await.unwrap_err();
    assert!(error.to_string().contains("max_client_conn"), "{error}");
    drop(client);
}

// promise: postgresql
#[tokio::test]
async fn a_service_that_is_idle_is_not_ended_by_timeouts_for_idle_sessions() {
    let server = PostgresServer::start().await;
    server.query("CREATE USER app; GRANT CREATE ON DATABASE postgres TO app").await;
    for setting in ["idle_session_timeout", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"]
    {
        server.query(&format!("ALTER ROLE app SET {setting} = '300ms'")).await;
    }
    let locks = LockManager::builder().postgres([server.url_of("app")]).connect().await.unwrap();
    let held = locks.lock("r").acquire().await.unwrap();
    // Another process waits, so that there are sessions of both kinds.
    let others = LockManager::builder().postgres([server.url_of("app")]).connect().await.unwrap();
    let wait = others.lock("r").wait(Duration::from_millis(200)).acquire().await;
    assert!(wait.is_err());
    let processes = "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE usename = 'app'";
    let before = server.query(processes).await;
    // Nothing to wait for: nothing is to happen.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.query(processes).await, before);
    assert!(held.release().await.unwrap());
}

/// A service with one connection to a pooler, which prepares no statement of its own.
trait Service: Sized {
    const NAME: &str;

    async fn connect_to(pooler: &PgBouncer) -> Self;

    /// One transaction. Returns whether the claim was accepted.
    async fn claim(&mut self, lease: &Lease) -> bool;

    /// One transaction. Returns whether the reader may read.
    async fn check(&mut self, lease: &Lease) -> bool;
}

impl Service for tokio_postgres::Client {
    const NAME: &str = "tokio-postgres";

    async fn connect_to(pooler: &PgBouncer) -> Self {
        let (client, wire) = tokio_postgres::connect(&pooler.url(), NoTls).await.unwrap();
        tokio::spawn(wire);
        client
    }

    async fn claim(&mut self, lease: &Lease) -> bool {
        use fence::tokio_postgres::{ClaimError, claim};
        let tx = self.transaction().await.unwrap();
        let claimed = claim(&tx, lease).await;
        assert!(matches!(claimed, Ok(()) | Err(ClaimError::Stale(_))), "{claimed:?}");
        tx.commit().await.unwrap();
        claimed.is_ok()
    }

    async fn check(&mut self, lease: &Lease) -> bool {
        use fence::tokio_postgres::{CheckError, check};
        let checked = check(&self.transaction().await.unwrap(), lease).await;
        assert!(matches!(checked, Ok(()) | Err(CheckError::Stale(_))), "{checked:?}");
        checked.is_ok()
    }
}

macro_rules! sqlx_service {
    ($sqlx:ident) => {
        impl Service for $sqlx::PgPool {
            const NAME: &str = stringify!($sqlx);

            async fn connect_to(pooler: &PgBouncer) -> Self {
                $sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(&pooler.url()).await.unwrap()
            }

            async fn claim(&mut self, lease: &Lease) -> bool {
                use fence::$sqlx::{ClaimError, claim};
                let mut tx = self.begin().await.unwrap();
                let claimed = claim(&mut tx, lease).await;
                assert!(matches!(claimed, Ok(()) | Err(ClaimError::Stale(_))), "{claimed:?}");
                tx.commit().await.unwrap();
                claimed.is_ok()
            }

            async fn check(&mut self, lease: &Lease) -> bool {
                use fence::$sqlx::{CheckError, check};
                let checked = check(&mut self.begin().await.unwrap(), lease).await;
                assert!(matches!(checked, Ok(()) | Err(CheckError::Stale(_))), "{checked:?}");
                checked.is_ok()
            }
        }
    };
}

sqlx_service!(sqlx);
sqlx_service!(sqlx_0_9);

/// Statements that were prepared by name would be others in another session, or none: those of the other services of the pool.
// promise: claims
#[tokio::test]
async fn a_claim_is_made_in_whatever_session_a_pooler_runs_its_transaction() {
    async fn run<S: Service>(server: &PostgresServer, pooler: &PgBouncer) {
        server.query("TRUNCATE lock_fence").await;
        let (leases, name) = (leases(3).await, S::NAME);
        let (mut writer, mut reader) = (S::connect_to(pooler).await, S::connect_to(pooler).await);
        let (mut one, mut other) =
            (tokio_postgres::Client::connect_to(pooler).await, tokio_postgres::Client::connect_to(pooler).await);
        // What both sessions of the pool are busy with. The services have the one that is not.
        let (busy, also_busy) = (one.transaction().await.unwrap(), other.transaction().await.unwrap());
        busy.rollback().await.unwrap();
        assert!(writer.claim(&leases[0]).await, "{name}");
        let busy = one.transaction().await.unwrap();
        also_busy.rollback().await.unwrap();
        assert!(reader.check(&leases[1]).await, "{name}");
        assert!(writer.claim(&leases[2]).await, "{name}");
        let claimed = server.query("SELECT token FROM lock_fence").await;
        assert_eq!(claimed, leases[2].token().to_string(), "{name}: what was accepted counts");
        assert!(!reader.claim(&leases[1]).await && !writer.check(&leases[1]).await, "{name}");
        drop(busy);
    }
    let server = open().await;
    let ignored = "ignore_startup_parameters = extra_float_digits";
    let pooler = PgBouncer::start(&server, &["pool_mode = transaction", "default_pool_size = 2", ignored]).await;
    run::<tokio_postgres::Client>(&server, &pooler).await;
    run::<sqlx::PgPool>(&server, &pooler).await;
    run::<sqlx_0_9::PgPool>(&server, &pooler).await;
}
