//! Claims in PostgreSQL, through tokio-postgres and both versions of sqlx: resources that refuse the holders whose lock has passed to another.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use futures_util::future::join_all;
use lock_axum::limits::MIN_TTL;
use lock_axum::{FencingToken, Lease, LockGuard, LockManager, fence};
use lock_support::http::{manager, nodes};
use lock_support::{Events, PostgresServer, eventually_async};
use metrics::set_default_local_recorder;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use sqlx::PgPool;
use sqlx_0_9::PgPool as PgPool09;
use tokio_postgres::NoTls;

use crate::shop::{Client, ISOLATION_LEVELS, Isolation, Refused, SKU, books, open, reopen};

type TokioPostgres = tokio_postgres::Client;

/// Two holders of one lock: the first was paused for longer than its lease, and the second has the lock now.
async fn paused_and_next() -> (LockGuard, LockGuard) {
    let nodes = nodes();
    let paused = manager(&nodes).lock(SKU).ttl(MIN_TTL).renew(false).acquire().await.unwrap();
    let next = manager(&nodes).lock(SKU).wait(Duration::from_secs(30)).acquire().await.unwrap();
    assert!(!paused.is_valid() && next.is_valid());
    (paused, next)
}

/// `count` leases on one resource that have ended, in the order of their holders.
pub(crate) async fn leases(count: usize) -> Vec<Lease> {
    let locks = LockManager::in_memory();
    let mut leases = Vec::new();
    for _ in 0..count {
        leases.push(locks.lock(SKU).run(async |lease: Lease| lease).await.unwrap());
    }
    leases
}

fn stale(result: Result<i64, Refused>) -> (FencingToken, Option<u64>) {
    match result {
        Err(Refused::Stale(stale)) => (stale.token(), stale.seen()),
        other => panic!("{other:?}"),
    }
}

/// Waits until as many statements wait for another transaction.
async fn are_waiting(server: &PostgresServer, count: usize) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    eventually_async("a claim waits", async || server.query(waiting).await == count.to_string()).await;
}

// promise: claims
#[tokio::test]
async fn a_holder_that_resumes_after_its_lease_is_refused_by_the_claim() {
    async fn race<C: Client>(server: &PostgresServer, isolation: Isolation) {
        reopen(server).await;
        let case = (C::NAME, isolation);
        let (paused, next) = paused_and_next().await;
        let (mut late, mut in_time) = (C::connect_to(server, isolation).await, C::connect_to(server, isolation).await);
        let refused = (paused.token(), Some(next.token().get()));
        // The paused holder had claimed and read when it was paused.
        let read_before = late.work(&paused, None).await.unwrap();
        let read_next = in_time.work(&next, None).await.unwrap();
        assert_eq!((read_before, read_next), (5, 5), "{case:?}");
        // It resumes between the read and the write of the next holder, and again after them.
        assert_eq!(stale(late.work(&paused, Some(read_before)).await), refused, "{case:?}");
        assert_eq!(books(server).await, "5|0", "{case:?}");
        in_time.work(&next, Some(read_next)).await.unwrap();
        assert_eq!(stale(late.work(&paused, Some(read_before)).await), refused, "{case:?}");
        assert_eq!(books(server).await, "4|1", "{case:?}");
    }
    let server = open().await;
    for isolation in ISOLATION_LEVELS {
        race::<TokioPostgres>(&server, isolation).await;
        race::<PgPool>(&server, isolation).await;
        race::<PgPool09>(&server, isolation).await;
    }
}

// promise: claims
#[tokio::test]
async fn a_claim_that_waits_for_a_newer_one_writes_nothing() {
    async fn race<C: Client>(server: &PostgresServer, isolation: Isolation) {
        reopen(server).await;
        let case = (C::NAME, isolation);
        let leases = leases(2).await;
        let (mut late, mut newer) = (C::connect_to(server, isolation).await, open_claim(server, &leases[1]).await);
        let lease = leases[0].clone();
        let waiting = tokio::spawn(async move { (late.work(&lease, Some(5)).await, late) });
        are_waiting(server, 1).await;
        newer.commit().await;
        let (result, mut late) = waiting.await.unwrap();
        match isolation {
            Isolation::ReadCommitted => {
                assert_eq!(stale(result), (leases[0].token(), Some(leases[1].token().get())), "{case:?}");
            }
            _ => assert!(matches!(result, Err(Refused::Conflict)), "{case:?}: {result:?}"),
        }
        assert_eq!(stale(late.work(&leases[0], Some(5)).await).1, Some(leases[1].token().get()), "{case:?}");
        assert_eq!(books(server).await, "5|0", "{case:?}");
    }
    let server = open().await;
    for isolation in ISOLATION_LEVELS {
        race::<TokioPostgres>(&server, isolation).await;
        race::<PgPool>(&server, isolation).await;
        race::<PgPool09>(&server, isolation).await;
    }
}

// promise: claims
#[tokio::test]
async fn a_claim_that_waits_for_an_older_one_is_accepted_at_once_or_when_it_is_repeated() {
    async fn race<C: Client>(server: &PostgresServer, isolation: Isolation) {
        reopen(server).await;
        let case = (C::NAME, isolation);
        let leases = leases(2).await;
        let (mut next, mut older) = (C::connect_to(server, isolation).await, open_claim(server, &leases[0]).await);
        let lease = leases[1].clone();
        let waiting = tokio::spawn(async move { (next.work(&lease, None).await, next) });
        are_waiting(server, 1).await;
        // The older holder was paused in its transaction. It may go on, because the newer one has read nothing yet.
        older.sell().await;
        older.commit().await;
        let (result, mut next) = waiting.await.unwrap();
        match isolation {
            Isolation::ReadCommitted => assert_eq!(result.unwrap(), 4, "{case:?}"),
            _ => assert!(matches!(result, Err(Refused::Conflict)), "{case:?}: {result:?}"),
        }
        assert_eq!(next.work(&leases[1], Some(4)).await.unwrap(), 4, "{case:?}");
        assert_eq!(books(server).await, "3|1", "{case:?}");
    }
    let server = open().await;
    for isolation in ISOLATION_LEVELS {
        race::<TokioPostgres>(&server, isolation).await;
        race::<PgPool>(&server, isolation).await;
        race::<PgPool09>(&server, isolation).await;
    }
}

#[tokio::test]
async fn a_reader_is_refused_by_a_later_writer_and_by_no_earlier_one() {
    async fn run<C: Client>(server: &PostgresServer, isolation: Isolation) {
        reopen(server).await;
        let case = (C::NAME, isolation);
        let leases = leases(3).await;
        let (mut reader, mut writer) = (C::connect_to(server, isolation).await, C::connect_to(server, isolation).await);
        let accepted = |result: Result<i64, Refused>| match result {
            Ok(stock) if !isolation.has_a_snapshot() => stock,
            // It cannot tell, and says so.
            Err(Refused::Isolation(level)) if isolation.has_a_snapshot() && level == isolation.name() => -1,
            other => panic!("{case:?}: {other:?}"),
        };
        let (none, four) = if isolation.has_a_snapshot() { (-1, -1) } else { (5, 4) };
        assert_eq!(accepted(reader.read(&leases[1], async || {}).await), none, "{case:?}: nobody has claimed");
        writer.work(&leases[0], Some(5)).await.unwrap();
        assert_eq!(accepted(reader.read(&leases[1], async || {}).await), four, "{case:?}: who claimed came before");
        assert_eq!(writer.work(&leases[0], None).await.unwrap(), 4, "{case:?}: a reader shuts nobody out");
        writer.work(&leases[2], Some(4)).await.unwrap();
        let refused = (leases[1].token(), Some(leases[2].token().get()));
        assert_eq!(stale(reader.read(&leases[1], async || {}).await), refused, "{case:?}");
    }
    let server = open().await;
    for isolation in ISOLATION_LEVELS {
        run::<TokioPostgres>(&server, isolation).await;
        run::<PgPool>(&server, isolation).await;
        run::<PgPool09>(&server, isolation).await;
    }
}

// promise: claims
#[tokio::test]
async fn a_reader_that_is_overtaken_before_it_checks_is_never_told_that_it_may_read() {
    async fn run<C: Client>(server: &PostgresServer, isolation: Isolation) {
        reopen(server).await;
        let case = (C::NAME, isolation);
        let leases = leases(2).await;
        let (mut reader, mut writer) = (C::connect_to(server, isolation).await, C::connect_to(server, isolation).await);
        let overtake = async || {
            writer.work(&leases[1], Some(5)).await.unwrap();
        };
        let overtaken = reader.read(&leases[0], overtake).await;
        match isolation {
            Isolation::ReadCommitted => assert_eq!(stale(overtaken).1, Some(leases[1].token().get()), "{case:?}"),
            _ => assert!(matches!(overtaken, Err(Refused::Isolation(_))), "{case:?}: {overtaken:?}"),
        }
        // What the error advises: a transaction of its own.
        let mut other = C::connect_to(server, Isolation::ReadCommitted).await;
        assert_eq!(stale(other.read(&leases[0], async || {}).await).1, Some(leases[1].token().get()), "{case:?}");
    }
    let server = open().await;
    for isolation in ISOLATION_LEVELS {
        run::<TokioPostgres>(&server, isolation).await;
        run::<PgPool>(&server, isolation).await;
        run::<PgPool09>(&server, isolation).await;
    }
}

/// As the documentation says of it.
// promise: claims
#[tokio::test]
async fn a_claim_in_a_savepoint_that_is_rolled_back_is_lost() {
    async fn run<C: Client>(server: &PostgresServer) {
        reopen(server).await;
        let leases = leases(2).await;
        let mut client = C::connect_to(server, Isolation::ReadCommitted).await;
        client.claim_in_a_savepoint(&leases[1]).await;
        assert_eq!(books(server).await, "4|0", "{}: what is outside of it is committed", C::NAME);
        assert_eq!(client.work(&leases[0], None).await.unwrap(), 4, "{}: the older one is not refused", C::NAME);
    }
    let server = open().await;
    run::<TokioPostgres>(&server).await;
    run::<PgPool>(&server).await;
    run::<PgPool09>(&server).await;
}

// promise: claims
#[tokio::test]
async fn claims_of_several_connections_at_once_are_accepted_in_order() {
    /// Claims with each of these leases, again after each serialization failure, and returns how many were refused.
    async fn claim_all<C: Client>(mut client: C, leases: Vec<Lease>) -> usize {
        let mut refused = 0;
        for lease in leases {
            let result = loop {
                match client.work(&lease, Some(5)).await {
                    Err(Refused::Conflict) => {}
                    result => break result,
                }
            };
            if result.is_err() {
                stale(result);
                refused += 1;
            }
        }
        refused
    }
    let (server, all) = (open().await, leases(90).await);
    // Nine connections with every ninth token each, so that each is often overtaken.
    let share = |first| all.iter().skip(first).step_by(9).cloned().collect::<Vec<_>>();
    let mut claiming = Vec::new();
    for (number, isolation) in ISOLATION_LEVELS.into_iter().enumerate() {
        let one = TokioPostgres::connect_to(&server, isolation).await;
        claiming.push(tokio::spawn(claim_all(one, share(3 * number))));
        let other = PgPool::connect_to(&server, isolation).await;
        claiming.push(tokio::spawn(claim_all(other, share(3 * number + 1))));
        let newer = PgPool09::connect_to(&server, isolation).await;
        claiming.push(tokio::spawn(claim_all(newer, share(3 * number + 2))));
    }
    let refused: usize = join_all(claiming).await.into_iter().map(Result::unwrap).sum();
    let accepted = server.query("SELECT token FROM orders ORDER BY id").await;
    let accepted: Vec<u64> = accepted.lines().map(|token| token.parse().unwrap()).collect();
    assert!(accepted.is_sorted(), "{accepted:?}");
    assert_eq!(accepted.len() + refused, all.len());
    assert_eq!(accepted.last(), all.last().map(|lease| lease.token().get()).as_ref());
}

#[tokio::test]
async fn a_refused_claim_is_one_event_and_is_counted_by_its_sink() {
    async fn refuse<C: Client>(server: &PostgresServer) {
        reopen(server).await;
        let (leases, events, recorder) = (leases(2).await, Events::record(), DebuggingRecorder::new());
        let _recording = set_default_local_recorder(&recorder);
        let mut client = C::connect_to(server, Isolation::ReadCommitted).await;
        client.work(&leases[1], None).await.unwrap();
        stale(client.work(&leases[0], None).await);
        let logged: Vec<_> = events.named("lock.stale_token").into_iter().map(|event| event.fields).collect();
        let [logged] = &logged[..] else { panic!("{}: {logged:?}", C::NAME) };
        for field in [
            "sink=\"postgres\"".to_owned(),
            format!("token={}", leases[0].token()),
            format!("seen={}", leases[1].token()),
        ] {
            assert!(logged.contains(&field), "{}: {logged}", C::NAME);
        }
        let [(key, _, _, value)] = &recorder.snapshotter().snapshot().into_vec()[..] else { panic!("one series") };
        let labels: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
        assert_eq!((key.key().name(), &labels[..]), ("lock_fence_rejections_total", &[("sink", "postgres")][..]));
        assert_eq!(*value, DebugValue::Counter(1), "{}", C::NAME);
    }
    let server = open().await;
    refuse::<TokioPostgres>(&server).await;
    refuse::<PgPool>(&server).await;
    refuse::<PgPool09>(&server).await;
}

#[tokio::test]
async fn a_stale_token_is_answered_with_409_and_a_failing_database_with_500() {
    async fn refuse<C: Client>(server: &PostgresServer) {
        let leases = leases(2).await;
        let mut client = C::connect_to(server, Isolation::ReadCommitted).await;
        client.work(&leases[1], None).await.unwrap();
        let status = async |client: &mut C| client.work(&leases[0], None).await.unwrap_err().into_response().status();
        assert_eq!(status(&mut client).await, StatusCode::CONFLICT, "{}", C::NAME);
        server.query("ALTER TABLE lock_fence RENAME TO elsewhere").await;
        assert_eq!(status(&mut client).await, StatusCode::INTERNAL_SERVER_ERROR, "{}", C::NAME);
        server.query("ALTER TABLE elsewhere RENAME TO lock_fence").await;
    }
    let server = open().await;
    refuse::<TokioPostgres>(&server).await;
    refuse::<PgPool>(&server).await;
    refuse::<PgPool09>(&server).await;
}

/// A holder that has claimed, in a transaction that is still open.
struct OpenClaim(tokio_postgres::Client);

async fn open_claim(server: &PostgresServer, lease: &Lease) -> OpenClaim {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(
        client.execute(lock_axum::fence::CLAIM, &[&lease.resource(), &lease.token().as_i64()]).await.unwrap(),
        1
    );
    OpenClaim(client)
}

impl OpenClaim {
    async fn sell(&mut self) {
        self.0.batch_execute("UPDATE stock SET quantity = quantity - 1").await.unwrap();
    }

    async fn commit(&mut self) {
        self.0.batch_execute("COMMIT").await.unwrap();
    }
}

/// With a range, `cargo update` in a service would exchange the version under the types that it passes.
// promise: claims
#[test]
fn each_feature_of_sqlx_is_for_one_version() {
    let workspace = include_str!("../../../../Cargo.toml");
    for one in [r#"sqlx = { version = "0.8","#, r#"sqlx_0_9 = { package = "sqlx", version = "0.9","#] {
        assert_eq!(workspace.lines().filter(|line| line.starts_with(one)).count(), 1, "{one}");
    }
}

// promise: claims
#[test]
fn a_check_that_cannot_refuse_is_answered_with_500_and_logged() {
    let events = Events::record();
    let level = "serializable".to_owned();
    let answers = [
        fence::tokio_postgres::CheckError::Isolation { level: level.clone() }.into_response(),
        fence::sqlx::CheckError::Isolation { level: level.clone() }.into_response(),
        fence::sqlx_0_9::CheckError::Isolation { level }.into_response(),
    ];
    assert!(answers.iter().all(|answer| answer.status() == StatusCode::INTERNAL_SERVER_ERROR), "{answers:?}");
    assert_eq!(events.named("lock.claim_failed").len(), answers.len());
}
