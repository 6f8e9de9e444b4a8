//! Where trials run: both runtimes, paused clocks, databases in files, other services, channels and timers.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Extension, Router};
use lock_axum::testing::{Outcome, Question, Trial, post as request};
use lock_axum::{FencingToken, LockManager, distributed_lock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use crate::stores::{Db, Stale};

type Answer = Result<(), StatusCode>;

fn stale(_: Stale) -> StatusCode {
    StatusCode::CONFLICT
}

/// Reads, does something else that takes time, and writes.
async fn unguarded(State(db): State<Db>) {
    let stock = db.stock().await;
    sleep(Duration::from_millis(2)).await;
    db.sell(stock - 1).await;
}

#[distributed_lock(resource = "stock:42")]
async fn guarded(State(db): State<Db>, token: FencingToken) -> Answer {
    let stock = db.claim_and_read(token).await.map_err(stale)?;
    sleep(Duration::from_millis(2)).await;
    db.claim_and_sell(token, stock - 1).await.map_err(stale)
}

fn app(locks: LockManager, db: Db) -> Router {
    let routes = Router::new().route("/unguarded", post(unguarded)).route("/guarded", post(guarded));
    routes.layer(Extension(locks)).with_state(db)
}

fn trial(path: &'static str) -> Trial<Db> {
    let trial = Trial::new(|| async { Db::default() }).service(app).check(|db, _| db.adds_up());
    trial.request(move || request(path)).request(move || request(path))
}

async fn both_are_told_apart() {
    let outcome = trial("/unguarded").run().await;
    assert!(outcome.breaks(Question::Race) && outcome.problems.is_empty(), "{outcome}");
    trial("/guarded").run().await.assert_holds();
}

#[tokio::test]
async fn on_one_thread() {
    both_are_told_apart().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_several_threads() {
    // The future can be spawned.
    tokio::spawn(both_are_told_apart()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_a_paused_clock() {
    both_are_told_apart().await;
}

#[tokio::test]
async fn the_same_trial_finds_the_same() {
    let told = async || trial("/unguarded").run().await.to_string();
    let first = told().await;
    for _ in 0..3 {
        assert_eq!(told().await, first);
    }
}

#[tokio::test]
async fn a_file_of_sqlite_that_two_connections_write() {
    async fn sell(directory: std::sync::Arc<tempfile::TempDir>, behavior: rusqlite::TransactionBehavior) -> bool {
        let work = move || {
            let mut db = rusqlite::Connection::open(directory.path().join("shop.sqlite"))?;
            db.busy_timeout(Duration::from_secs(1))?;
            let tx = db.transaction_with_behavior(behavior)?;
            let stock: i64 = tx.query_row("SELECT quantity FROM stock", [], |row| row.get(0))?;
            tx.execute("UPDATE stock SET quantity = ?, orders = orders + 1", [stock - 1])?;
            tx.commit()
        };
        tokio::task::spawn_blocking(work).await.unwrap().is_ok()
    }
    let state = || async {
        let directory = tempfile::tempdir().unwrap();
        let db = rusqlite::Connection::open(directory.path().join("shop.sqlite")).unwrap();
        db.execute_batch(
            "PRAGMA synchronous = OFF; CREATE TABLE stock (quantity, orders); INSERT INTO stock VALUES (9, 0)",
        )
        .unwrap();
        std::sync::Arc::new(directory)
    };
    let outcome = Trial::new(state)
        .tasks(2, |_, directory| sell(directory, rusqlite::TransactionBehavior::Immediate))
        .check(|directory, _| async move {
            let db = rusqlite::Connection::open(directory.path().join("shop.sqlite")).unwrap();
            db.query_row("SELECT quantity + orders FROM stock", [], |row| row.get::<_, i64>(0)).unwrap() == 9
        })
        .run()
        .await;
    outcome.assert_holds();
}

/// A payment service that answers after a moment.
async fn payment_service() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(
        axum::serve(listener, Router::new().route("/", post(|| sleep(Duration::from_millis(1))))).into_future(),
    );
    address
}

#[tokio::test]
async fn a_handler_that_asks_another_service_over_http() {
    async fn pay(service: std::net::SocketAddr) {
        let mut stream = TcpStream::connect(service).await.unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\nhost: pay\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    async fn buy(locks: LockManager, db: Db, service: std::net::SocketAddr, is_guarded: bool) -> bool {
        let guard = if is_guarded { Some(locks.lock("stock:42").acquire().await.unwrap()) } else { None };
        let stock = match &guard {
            Some(guard) => db.claim_and_read(guard.token()).await,
            None => Ok(db.stock().await),
        };
        let Ok(stock) = stock else { return false };
        pay(service).await;
        match &guard {
            Some(guard) => db.claim_and_sell(guard.token(), stock - 1).await.is_ok(),
            None => {
                db.sell(stock - 1).await;
                true
            }
        }
    }
    let service = payment_service().await;
    let outcome = async |is_guarded| -> Outcome {
        let trial =
            Trial::new(|| async { Db::default() }).tasks(2, move |locks, db| buy(locks, db, service, is_guarded));
        trial.check(|db, _| db.adds_up()).run().await
    };
    let found = outcome(false).await;
    assert!(found.breaks(Question::Race) && found.problems.is_empty(), "{found}");
    outcome(true).await.assert_holds();
}

#[tokio::test]
async fn an_actor_behind_a_channel() {
    type Sale = oneshot::Sender<i64>;
    fn actor() -> mpsc::Sender<Sale> {
        let (sender, mut sales) = mpsc::channel::<Sale>(4);
        tokio::spawn(async move {
            let mut stock = 100;
            while let Some(sale) = sales.recv().await {
                sleep(Duration::from_millis(1)).await;
                stock -= 1;
                _ = sale.send(stock);
            }
        });
        sender
    }
    let outcome = Trial::new(|| async { actor() })
        .tasks(2, |_, actor| async move {
            let (sale, stock) = oneshot::channel();
            actor.send(sale).await.unwrap();
            stock.await.unwrap()
        })
        .check(|_, answers| async move { answers[0].is_hung_up() || answers[0].text() != answers[1].text() })
        .run()
        .await;
    outcome.assert_holds();
}
