//! Claims in SQLite: resources that refuse the holders whose lock has passed to another.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post as on_post;
use lock_axum::fence::rusqlite::{ClaimError, check, claim, claim_for};
use lock_axum::fence::{self, Claimant, StaleToken};
use lock_axum::{FencingToken, Lease, LockGuard, LockManager, distributed_lock};
use lock_support::Events;
use lock_support::http::{manager, nodes, post, serve};
use metrics::{Unit, with_local_recorder};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use tracing::Level;

const SKU: &str = "stock:42";
/// Of all locks, ever: it fits every integer of a database.
const LARGEST_TOKEN: i64 = (1 << 53) - 1;
const TTL: Duration = Duration::from_secs(1);

/// A shop with five units in stock.
fn shop(path: &Path) -> Connection {
    let db = connect(path);
    db.execute_batch(fence::CREATE_TABLE).unwrap();
    db.execute_batch("CREATE TABLE stock (sku TEXT, quantity BIGINT); INSERT INTO stock VALUES ('42', 5)").unwrap();
    db.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, token BIGINT)").unwrap();
    db
}

fn connect(path: &Path) -> Connection {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(Duration::from_secs(30)).unwrap();
    db
}

fn in_memory() -> Connection {
    shop(Path::new(":memory:"))
}

fn read(db: &Connection) -> i64 {
    db.query_row("SELECT quantity FROM stock", [], |row| row.get(0)).unwrap()
}

fn sell(db: &Connection, read: i64, token: FencingToken) {
    db.execute("UPDATE stock SET quantity = ?", [read - 1]).unwrap();
    db.execute("INSERT INTO orders (token) VALUES (?)", [token.as_i64()]).unwrap();
}

fn orders(db: &Connection) -> i64 {
    db.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
}

fn stale(result: Result<(), ClaimError>) -> StaleToken {
    match result {
        Err(ClaimError::Stale(stale)) => stale,
        other => panic!("{other:?}"),
    }
}

/// Two holders of one lock: the first was paused for longer than its lease, and the second has the lock now.
async fn paused_and_next() -> (LockGuard, LockGuard) {
    let nodes = nodes();
    let paused = manager(&nodes).lock(SKU).ttl(TTL).renew(false).acquire().await.unwrap();
    let next = manager(&nodes).lock(SKU).wait(TTL * 2).acquire().await.unwrap();
    assert!(!paused.is_valid() && next.is_valid());
    (paused, next)
}

/// `count` leases on one resource that have ended, in the order of their holders.
async fn leases(count: usize) -> Vec<Lease> {
    leases_on(&LockManager::in_memory(), SKU, count).await
}

async fn leases_on(locks: &LockManager, resource: &str, count: usize) -> Vec<Lease> {
    let mut leases = Vec::new();
    for _ in 0..count {
        leases.push(locks.lock(resource).run(async |lease: Lease| lease).await.unwrap());
    }
    assert!(leases.is_sorted_by_key(Lease::token));
    leases
}

// promise: claims
#[tokio::test(start_paused = true)]
async fn a_holder_that_resumes_after_its_lease_is_refused_by_the_claim() {
    let (paused, next) = paused_and_next().await;
    let mut db = in_memory();
    // The paused holder had claimed and read when it was paused.
    let tx = db.transaction().unwrap();
    claim(&tx, &paused).unwrap();
    let read_before = read(&tx);
    tx.commit().unwrap();

    let tx = db.transaction().unwrap();
    claim(&tx, &next).unwrap();
    let read_next = read(&tx);
    tx.commit().unwrap();

    // It resumes between the read and the write of the next holder, and again after them.
    for written in [false, true] {
        if written {
            let tx = db.transaction().unwrap();
            claim(&tx, &next).unwrap();
            sell(&tx, read_next, next.token());
            tx.commit().unwrap();
        }
        let tx = db.transaction().unwrap();
        let refused = stale(claim(&tx, &paused));
        assert_eq!((refused.resource(), refused.token()), (SKU, paused.token()));
        assert_eq!(refused.seen(), Some(next.token().get()));
    }
    assert_eq!((read_before, read(&db), orders(&db)), (5, 4, 1));
}

// mutant: claims
#[tokio::test(start_paused = true)]
async fn a_token_that_is_only_checked_by_the_write_sells_a_unit_twice() {
    let (paused, next) = paused_and_next().await;
    let mut db = in_memory();
    let (read_before, read_next) = (read(&db), read(&db));
    // The same schedule: the paused holder resumes between the read and the write of the next one.
    for (guard, read) in [(&paused, read_before), (&next, read_next)] {
        let tx = db.transaction().unwrap();
        claim(&tx, guard).unwrap();
        sell(&tx, read, guard.token());
        tx.commit().unwrap();
    }
    assert_eq!((read(&db), orders(&db)), (4, 2), "two orders, and one unit is gone");
}

// promise: claims
#[tokio::test]
async fn accepted_tokens_never_decrease_and_equal_ones_claim_again() {
    let locks = LockManager::in_memory();
    let leases = [leases_on(&locks, "stock:1", 6).await, leases_on(&locks, "stock:2", 6).await];
    // Each step: which holder claims which resource, and whether its transaction commits.
    let steps = prop::collection::vec((0..2_usize, 0..6_usize, any::<bool>()), 1..40);
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&steps, |steps| {
        let (mut db, mut seen): (_, [Option<FencingToken>; 2]) = (in_memory(), [None; 2]);
        for (resource, holder, commits) in steps {
            let lease = &leases[resource][holder];
            let token = lease.token();
            let tx = db.transaction().unwrap();
            let claimed = claim(&tx, lease);
            match seen[resource] {
                Some(largest) if token < largest => prop_assert_eq!(stale(claimed).seen(), Some(largest.get())),
                _ => prop_assert!(claimed.is_ok(), "{claimed:?}"),
            }
            if commits {
                tx.commit().unwrap();
                seen[resource] = seen[resource].max(Some(token));
            }
        }
        Ok(())
    });
    result.unwrap();
}

// promise: claims
#[tokio::test]
async fn claims_of_several_connections_at_once_are_accepted_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop");
    let db = shop(&file);
    let leases = leases(60).await;
    // Three connections with every third token each, so that each is often overtaken.
    let refused: usize = thread::scope(|scope| {
        let claiming = (0..3).map(|first| {
            let (file, leases) = (&file, &leases);
            scope.spawn(move || {
                let mut db = connect(file);
                let claims = leases.iter().skip(first).step_by(3).map(|lease| {
                    let tx = db.transaction().unwrap();
                    match claim(&tx, lease) {
                        Ok(()) => {
                            let order = "INSERT INTO orders (token) VALUES (?)";
                            tx.execute(order, [lease.token().as_i64()]).unwrap();
                            tx.commit().unwrap();
                            0
                        }
                        refused => {
                            stale(refused);
                            1
                        }
                    }
                });
                claims.sum::<usize>()
            })
        });
        let claiming: Vec<_> = claiming.collect();
        claiming.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let mut query = db.prepare("SELECT token FROM orders ORDER BY id").unwrap();
    let accepted: Vec<i64> = query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(accepted.is_sorted(), "{accepted:?}");
    assert_eq!(accepted.len() + refused, leases.len());
    assert_eq!(accepted.last(), leases.last().map(|lease| lease.token().as_i64()).as_ref());
}

#[tokio::test]
async fn a_transaction_that_read_too_early_is_refused_rather_than_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = shop(&folder.path().join("shop"));
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    let mut other = connect(&folder.path().join("shop"));
    let leases = leases(2).await;

    let early = Transaction::new_unchecked(&db, TransactionBehavior::Deferred).unwrap();
    read(&early);
    let tx = other.transaction().unwrap();
    claim(&tx, &leases[0]).unwrap();
    tx.commit().unwrap();
    let result = claim(&early, &leases[1]);
    assert!(matches!(result, Err(ClaimError::Database(_))), "{result:?}");
    drop(early);

    let tx = db.transaction().unwrap();
    claim(&tx, &leases[1]).unwrap();
}

/// With a rollback journal, nobody commits beside a transaction that reads. With a write-ahead log, somebody does, and the transaction
/// does not see it: the check belongs into another one, as the documentation says.
// promise: claims
#[tokio::test]
async fn a_reader_is_refused_by_a_check_in_a_transaction_of_its_own_whatever_the_journal() {
    for journal in ["delete", "wal"] {
        let folder = tempfile::tempdir().unwrap();
        let mut db = shop(&folder.path().join("shop"));
        db.pragma_update(None, "journal_mode", journal).unwrap();
        let mut writer = Connection::open(folder.path().join("shop")).unwrap();
        writer.busy_timeout(Duration::ZERO).unwrap();
        let leases = leases(2).await;
        let mut commits_a_claim = || {
            let tx = writer.transaction().unwrap();
            claim(&tx, &leases[1]).and_then(|()| Ok(tx.commit()?)).is_ok()
        };

        let reading = db.transaction().unwrap();
        read(&reading);
        let committed = commits_a_claim();
        assert_eq!(committed, journal == "wal", "{journal}: beside a reader");
        let checked = check(&reading, &leases[0]);
        assert!(checked.is_ok(), "{journal}: as of its first read, no later writer has claimed: {checked:?}");
        drop(reading);

        assert!(committed || commits_a_claim());
        let own = db.transaction().unwrap();
        assert_eq!(stale(check(&own, &leases[0])).seen(), Some(leases[1].token().get()), "{journal}");
    }
}

// promise: claims
#[tokio::test]
async fn a_claimant_that_was_stored_claims_for_the_holder_that_it_was_made_of() {
    let (mut db, leases) = (in_memory(), leases(2).await);
    let [old, new] = [0, 1].map(|holder| {
        let stored = serde_json::to_string(&Claimant::of(&leases[holder])).unwrap();
        serde_json::from_str::<Claimant>(&stored).unwrap()
    });
    let tx = db.transaction().unwrap();
    claim_for(&tx, &new).unwrap();
    let refused = stale(claim_for(&tx, &old));
    assert_eq!((refused.resource(), refused.token()), (SKU, leases[0].token()));
    stale(claim(&tx, &leases[0]));
    claim(&tx, &leases[1]).unwrap();
    for forged in [r#"{"resource":"stock:42","token":0}"#, r#"{"token":7}"#] {
        assert!(serde_json::from_str::<Claimant>(forged).is_err(), "{forged}");
    }
}

#[distributed_lock(resource = "stock:42")]
async fn claim_for_nothing(State(db): State<Arc<Mutex<Connection>>>, lease: Lease) -> Result<(), ClaimError> {
    let mut db = db.lock().unwrap();
    claim(&db.transaction()?, &lease)
}

#[tokio::test]
async fn a_handler_answers_a_stale_token_with_409_and_a_failing_database_with_500() {
    let (db, locks) = (Arc::new(Mutex::new(in_memory())), LockManager::in_memory());
    let app = Router::new().route("/", on_post(claim_for_nothing)).with_state(Arc::clone(&db));
    let address = serve(app, &locks).await;
    assert_eq!(post(address, "/").await.status, StatusCode::OK);

    db.lock().unwrap().execute(fence::CLAIM, params![SKU, LARGEST_TOKEN]).unwrap();
    let refused = post(address, "/").await;
    assert_eq!((refused.status, refused.kind().as_str()), (StatusCode::CONFLICT, "stale-fencing-token"));
    assert!(!refused.text().contains("42"), "the response does not contain the resource: {}", refused.text());

    db.lock().unwrap().execute_batch("DROP TABLE lock_fence").unwrap();
    let failed = post(address, "/").await;
    assert_eq!((failed.status, failed.kind().as_str()), (StatusCode::INTERNAL_SERVER_ERROR, "blank"));
}

#[tokio::test]
async fn a_refused_claim_is_one_event_and_says_what_to_do() {
    let leases = leases(2).await;
    let (mut db, events) = (in_memory(), Events::record());
    let tx = db.transaction().unwrap();
    claim(&tx, &leases[1]).unwrap();
    let refused = stale(claim(&tx, &leases[0]));
    let [event] = &events.named("lock.stale_token")[..] else { panic!("{:?}", events.named("lock.stale_token")) };
    assert_eq!(event.level, Level::WARN);
    let logged = &event.fields;
    for field in
        ["sink=\"sqlite\"".to_owned(), format!("token={}", leases[0].token()), format!("seen={}", leases[1].token())]
    {
        assert!(logged.contains(&field), "{logged}");
    }
    assert!(!logged.contains(SKU), "a claim does not know whether names are redacted: {logged}");
    assert_eq!(
        refused.to_string(),
        format!(
            "token {} of \"stock:42\" is stale: a later holder of the lock has claimed it with token {}; roll back, and \
             acquire the lock again to retry",
            leases[0].token(),
            leases[1].token()
        )
    );
}

#[tokio::test]
async fn a_refused_claim_is_counted_by_its_sink() {
    let leases = leases(2).await;
    let recorder = DebuggingRecorder::new();
    let mut db = in_memory();
    with_local_recorder(&recorder, || {
        let tx = db.transaction().unwrap();
        claim(&tx, &leases[1]).unwrap();
        for _ in 0..2 {
            stale(claim(&tx, &leases[0]));
        }
        _ = StaleToken::report("invoices", &leases[0], None);
    });
    let series = recorder.snapshotter().snapshot().into_vec().into_iter().map(|(key, unit, description, value)| {
        assert!(unit == Some(Unit::Count) && description.is_some(), "{key:?}");
        let labels: Vec<_> =
            key.key().labels().map(|label| (label.key().to_owned(), label.value().to_owned())).collect();
        assert_eq!(key.key().name(), "lock_fence_rejections_total");
        (labels, value)
    });
    let by = |sink: &str, count| (vec![("sink".to_owned(), sink.to_owned())], DebugValue::Counter(count));
    let mut series: Vec<_> = series.collect();
    series.sort_by(|(one, _), (other, _)| one.cmp(other));
    assert_eq!(series, [by("invoices", 1), by("sqlite", 2)]);
}

/// Prometheus does not see the first refusal otherwise.
#[tokio::test]
async fn the_count_of_refused_claims_begins_at_zero() {
    let (leases, recorder, mut db) = (leases(1).await, DebuggingRecorder::new(), in_memory());
    with_local_recorder(&recorder, || claim(&db.transaction().unwrap(), &leases[0]).unwrap());
    let values: Vec<_> = recorder.snapshotter().snapshot().into_vec().into_iter().map(|(.., value)| value).collect();
    assert_eq!(values, [DebugValue::Counter(0)]);
}

#[tokio::test]
async fn the_largest_token_fits_the_table() {
    let db = in_memory();
    db.execute(fence::CLAIM, params![SKU, LARGEST_TOKEN]).unwrap();
    assert_eq!(db.execute(fence::CLAIM, params![SKU, LARGEST_TOKEN]).unwrap(), 1);
    assert_eq!(db.execute(fence::CLAIM, params![SKU, LARGEST_TOKEN - 1]).unwrap(), 0);
}
