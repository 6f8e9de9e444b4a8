//! Trials of work in PostgreSQL, through sqlx and tokio-postgres.

use std::sync::{Arc, Mutex};

use lock_axum::testing::{Outcome, Question, Trial};
use lock_axum::{LockManager, fence};
use lock_support::PostgresServer;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio_postgres::NoTls;

/// How a sale is protected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guard {
    Nothing,
    Row,
    /// A holder that goes on after its loss.
    Lock,
    LockAndClaim,
    /// The stock in one transaction, and the order in the next.
    LockAroundTwoTransactions,
}

impl Guard {
    fn takes_the_lock(self) -> bool {
        !matches!(self, Self::Nothing | Self::Row)
    }
}

const TABLES: &str = "DROP TABLE IF EXISTS trial_stock; CREATE TABLE trial_stock (quantity BIGINT, orders BIGINT); \
    INSERT INTO trial_stock VALUES (100, 0)";
const READ: &str = "SELECT quantity FROM trial_stock";
const READ_AND_LOCK: &str = "SELECT quantity FROM trial_stock FOR UPDATE";
const WRITE: &str = "UPDATE trial_stock SET quantity = $1, orders = orders + 1";
const WRITE_HALF: &str = "UPDATE trial_stock SET quantity = quantity - 1";
const WRITE_THE_OTHER_HALF: &str = "UPDATE trial_stock SET orders = orders + 1";

async fn fresh(server: &PostgresServer) {
    server.query(&format!("{TABLES}; {}; DELETE FROM lock_fence", fence::CREATE_TABLE)).await;
}

async fn adds_up(server: &PostgresServer) -> bool {
    server.query("SELECT quantity + orders FROM trial_stock").await == "100"
}

/// Two sales, each over a connection of its own, which is made before: to connect takes a dozen of steps.
async fn two_sales<C, Connected, Sold>(
    server: &Arc<PostgresServer>,
    questions: &[Question],
    connect: fn(Arc<PostgresServer>) -> Connected,
    sell: impl Fn(LockManager, C) -> Sold + Send + Sync + 'static,
) -> Outcome
where
    C: Send + 'static,
    Connected: Future<Output = C> + Send + 'static,
    Sold: Future + Send + 'static,
    Sold::Output: std::fmt::Debug,
{
    let (states, checks) = (Arc::clone(server), Arc::clone(server));
    Trial::new(move || {
        let server = Arc::clone(&states);
        async move {
            fresh(&server).await;
            let connections = [connect(Arc::clone(&server)).await, connect(server).await];
            Arc::new(Mutex::new(Vec::from(connections)))
        }
    })
    .tasks(2, move |locks, connections| {
        let connection = connections.lock().unwrap().pop().unwrap();
        sell(locks, connection)
    })
    .check(move |_, _| {
        let server = Arc::clone(&checks);
        async move { adds_up(&server).await }
    })
    .only(questions.iter().copied())
    .run()
    .await
}

#[track_caller]
fn finds(question: Question, outcome: &Outcome) {
    assert!(outcome.breaks(question) && outcome.problems.is_empty(), "{outcome}");
}

async fn sell_by_sqlx(
    locks: LockManager,
    pool: PgPool,
    guard: Guard,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let held = if guard.takes_the_lock() { Some(locks.lock("stock").acquire().await?) } else { None };
    if guard == Guard::LockAroundTwoTransactions {
        sqlx::query(WRITE_HALF).execute(&pool).await?;
        tokio::task::yield_now().await;
        sqlx::query(WRITE_THE_OTHER_HALF).execute(&pool).await?;
        return Ok(());
    }
    let mut tx = pool.begin().await?;
    if let Some(held) = held.as_ref().filter(|_| guard == Guard::LockAndClaim) {
        fence::sqlx::claim(&mut tx, held).await?;
    }
    let read = if guard == Guard::Row { READ_AND_LOCK } else { READ };
    let quantity: i64 = sqlx::query_scalar(read).fetch_one(&mut *tx).await?;
    // The payment. Whether the statements above are steps depends on how fast the server answers.
    tokio::task::yield_now().await;
    sqlx::query(WRITE).bind(quantity - 1).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}

async fn by_sqlx(server: &Arc<PostgresServer>, guard: Guard, questions: &[Question]) -> Outcome {
    two_sales(server, questions, pool, move |locks, pool| sell_by_sqlx(locks, pool, guard)).await
}

async fn pool(server: Arc<PostgresServer>) -> PgPool {
    PgPoolOptions::new().max_connections(1).connect(&server.url()).await.unwrap()
}

#[tokio::test]
async fn work_through_sqlx_is_told_apart() {
    let server = Arc::new(PostgresServer::start().await);
    let unguarded = by_sqlx(&server, Guard::Nothing, &[Question::Race]).await;
    // sqlx logs its statements: the place is known.
    assert!(
        unguarded.broken.iter().any(|schedule| schedule.place.as_ref().is_some_and(|at| at.contains(READ))),
        "{unguarded}"
    );
    finds(Question::Race, &unguarded);
    // The other waits for the row: it makes no step until the first has committed.
    by_sqlx(&server, Guard::Row, &[Question::HangUp]).await.assert_holds();
    finds(Question::HangUp, &by_sqlx(&server, Guard::LockAroundTwoTransactions, &[Question::HangUp]).await);
    finds(Question::Lost, &by_sqlx(&server, Guard::Lock, &[Question::Lost]).await);
    by_sqlx(&server, Guard::LockAndClaim, &[Question::HangUp, Question::Lost]).await.assert_holds();
}

async fn sell_by_tokio_postgres(
    locks: LockManager,
    mut client: tokio_postgres::Client,
    guard: Guard,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let held = if guard.takes_the_lock() { Some(locks.lock("stock").acquire().await?) } else { None };
    if guard == Guard::LockAroundTwoTransactions {
        client.execute(WRITE_HALF, &[]).await?;
        tokio::task::yield_now().await;
        client.execute(WRITE_THE_OTHER_HALF, &[]).await?;
        return Ok(());
    }
    let tx = client.transaction().await?;
    if let Some(held) = held.as_ref().filter(|_| guard == Guard::LockAndClaim) {
        fence::tokio_postgres::claim(&tx, held).await?;
    }
    let read = if guard == Guard::Row { READ_AND_LOCK } else { READ };
    let quantity: i64 = tx.query_one(read, &[]).await?.get(0);
    tokio::task::yield_now().await;
    tx.execute(WRITE, &[&(quantity - 1)]).await?;
    tx.commit().await?;
    Ok(())
}

async fn by_tokio_postgres(server: &Arc<PostgresServer>, guard: Guard, questions: &[Question]) -> Outcome {
    two_sales(server, questions, client, move |locks, client| sell_by_tokio_postgres(locks, client, guard)).await
}

async fn client(server: Arc<PostgresServer>) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn work_through_tokio_postgres_is_told_apart() {
    let server = Arc::new(PostgresServer::start().await);
    finds(Question::Race, &by_tokio_postgres(&server, Guard::Nothing, &[Question::Race]).await);
    by_tokio_postgres(&server, Guard::Row, &[Question::HangUp]).await.assert_holds();
    finds(Question::HangUp, &by_tokio_postgres(&server, Guard::LockAroundTwoTransactions, &[Question::HangUp]).await);
    finds(Question::Lost, &by_tokio_postgres(&server, Guard::Lock, &[Question::Lost]).await);
    by_tokio_postgres(&server, Guard::LockAndClaim, &[Question::HangUp, Question::Lost]).await.assert_holds();
}
