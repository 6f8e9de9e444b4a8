//! A client that hangs up, and a lock that is lost, while the work is in a file of SQLite, on blocking threads: these go on when the request is dropped.
//! The same with PostgreSQL is in `postgres/trials.rs`.

use std::sync::Arc;
use std::time::Duration;

use lock_axum::fence::{self, rusqlite::ClaimError};
use lock_axum::testing::{Outcome, Question, Trial, step};
use lock_axum::{Lease, LockError, LockManager};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::task::{spawn_blocking, yield_now};

/// How a sale is protected, beside its lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sale {
    /// The stock in one transaction, and the order in the next.
    InTwoTransactions,
    /// It goes on although its lock is lost.
    WithoutClaim,
    Claimed,
}

#[derive(Clone)]
struct Shop(Arc<tempfile::TempDir>);

impl Shop {
    fn open() -> Self {
        let shop = Self(Arc::new(tempfile::tempdir().unwrap()));
        let tables = "PRAGMA synchronous = OFF; CREATE TABLE stock (quantity, orders); INSERT INTO stock VALUES (9, 0)";
        let db = shop.connect();
        db.execute_batch(tables).unwrap();
        db.execute_batch(fence::CREATE_TABLE).unwrap();
        shop
    }

    fn connect(&self) -> Connection {
        let db = Connection::open(self.0.path().join("shop.sqlite")).unwrap();
        db.busy_timeout(Duration::from_secs(5)).unwrap();
        db
    }

    async fn transaction<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, ClaimError> + Send + 'static,
    ) -> Result<T, ClaimError> {
        let shop = self.clone();
        let work = spawn_blocking(move || {
            let mut db = shop.connect();
            let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&tx)?;
            tx.commit()?;
            Ok(done)
        });
        let done = work.await.unwrap();
        // A blocking thread may be done before its result is asked for: then the request makes no step for it.
        yield_now().await;
        done
    }

    async fn adds_up(self) -> bool {
        let sum = "SELECT quantity + orders FROM stock";
        self.connect().query_row(sum, [], |row| row.get::<_, i64>(0)).unwrap() == 9
    }
}

fn read(tx: &Transaction<'_>) -> Result<i64, ClaimError> {
    Ok(tx.query_row("SELECT quantity FROM stock", [], |row| row.get(0))?)
}

fn write(tx: &Transaction<'_>, quantity: i64) -> Result<(), ClaimError> {
    tx.execute("UPDATE stock SET quantity = ?, orders = orders + 1", [quantity])?;
    Ok(())
}

async fn sell(locks: LockManager, shop: Shop, sale: Sale) -> bool {
    let lock = locks.lock("stock");
    match sale {
        Sale::InTwoTransactions => has_sold(lock.run(async |_| in_two_transactions(&shop).await).await),
        Sale::WithoutClaim => {
            let Ok(_guard) = lock.acquire().await else { return false };
            let Ok(quantity) = shop.transaction(read).await else { return false };
            step("the payment").await;
            shop.transaction(move |tx| write(tx, quantity - 1)).await.is_ok()
        }
        Sale::Claimed => has_sold(lock.run(async |lease| claimed(&shop, lease).await).await),
    }
}

fn has_sold(sold: Result<Result<(), ClaimError>, LockError>) -> bool {
    sold.is_ok_and(|sold| sold.is_ok())
}

async fn in_two_transactions(shop: &Shop) -> Result<(), ClaimError> {
    shop.transaction(|tx| Ok(tx.execute("UPDATE stock SET quantity = quantity - 1", [])?)).await?;
    shop.transaction(|tx| Ok(tx.execute("UPDATE stock SET orders = orders + 1", [])?)).await.map(drop)
}

async fn claimed(shop: &Shop, lease: Lease) -> Result<(), ClaimError> {
    let first = lease.clone();
    shop.transaction(move |tx| fence::rusqlite::claim(tx, &first)).await?;
    step("the payment").await;
    let sell = move |tx: &Transaction<'_>| {
        fence::rusqlite::claim(tx, &lease)?;
        let quantity = read(tx)?;
        write(tx, quantity - 1)
    };
    shop.transaction(sell).await
}

async fn two_sales(sale: Sale, questions: &[Question]) -> Outcome {
    let trial = Trial::new(|| async { Shop::open() }).tasks(2, move |locks, shop| sell(locks, shop, sale));
    trial.check(|shop, _| shop.adds_up()).only(questions.iter().copied()).run().await
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_half_a_sale_in_two_transactions_of_sqlite() {
    let outcome = two_sales(Sale::InTwoTransactions, &[Question::HangUp]).await;
    assert!(outcome.breaks(Question::HangUp) && outcome.problems.is_empty(), "{outcome}");
}

#[tokio::test]
async fn a_holder_that_goes_on_after_its_loss_overwrites_in_sqlite_without_a_claim() {
    let outcome = two_sales(Sale::WithoutClaim, &[Question::Lost]).await;
    assert!(outcome.breaks(Question::Lost) && outcome.problems.is_empty(), "{outcome}");
    // Either may be the first whose loss breaks it: their transactions are on other threads.
    assert!(outcome.to_string().contains(" went on without its lock, and succeeded"), "{outcome}");
}

#[tokio::test]
async fn neither_finds_fault_with_a_sale_that_claims_in_sqlite() {
    two_sales(Sale::Claimed, &[Question::HangUp, Question::Lost]).await.assert_holds();
}
