//! A shop whose stock is in PostgreSQL, through each client that has a claim.

use axum::response::{IntoResponse, Response};
use lock_axum::fence::{self, StaleToken};
use lock_axum::{FencingToken, fence::CREATE_TABLE};
use lock_support::PostgresServer;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{query, query_scalar};
use tokio_postgres::NoTls;

pub(super) const SKU: &str = "stock:42";

/// The isolation levels at which a claim behaves differently. `SERIALIZABLE` behaves as `REPEATABLE READ` does.
pub(super) const ISOLATION_LEVELS: [Isolation; 2] = [Isolation::ReadCommitted, Isolation::RepeatableRead];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Isolation {
    ReadCommitted,
    RepeatableRead,
}

impl Isolation {
    fn set(self) -> &'static str {
        match self {
            Self::ReadCommitted => "SET default_transaction_isolation = 'read committed'",
            Self::RepeatableRead => "SET default_transaction_isolation = 'repeatable read'",
        }
    }
}

/// Why a transaction has written nothing.
#[derive(Debug)]
pub(super) enum Refused {
    Stale(StaleToken),
    /// A serialization failure: the transaction may be run again.
    Conflict,
    /// Another error of the database, with its response.
    Failed(Response),
}

impl Refused {
    pub(super) fn into_response(self) -> Response {
        match self {
            Self::Stale(stale) => stale.into_response(),
            Self::Failed(response) => response,
            Self::Conflict => panic!("a serialization failure"),
        }
    }
}

/// A connection to the shop.
pub(super) trait Client: Sized + Send + 'static {
    const NAME: &str;

    async fn connect_to(server: &PostgresServer, isolation: Isolation) -> Self;

    /// One transaction: reads the stock, and checks that no later writer has claimed it.
    async fn read(&mut self, token: FencingToken) -> Result<i64, Refused>;

    /// One transaction: claims, reads the stock, and sells one of the `read_before` units if there is something to sell.
    fn work(
        &mut self,
        token: FencingToken,
        read_before: Option<i64>,
    ) -> impl Future<Output = Result<i64, Refused>> + Send;
}

impl Client for tokio_postgres::Client {
    const NAME: &str = "tokio-postgres";

    async fn connect_to(server: &PostgresServer, isolation: Isolation) -> Self {
        let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(isolation.set()).await.unwrap();
        client
    }

    async fn read(&mut self, token: FencingToken) -> Result<i64, Refused> {
        use fence::tokio_postgres::{ClaimError, check};
        let tx = self.transaction().await.unwrap();
        let stock: i64 = tx.query_one("SELECT quantity FROM stock", &[]).await.unwrap().get(0);
        check(&tx, SKU, token).await.map(|()| stock).map_err(|error| match error {
            ClaimError::Stale(stale) => Refused::Stale(stale),
            failed @ ClaimError::Database(_) => Refused::Failed(failed.into_response()),
        })
    }

    async fn work(&mut self, token: FencingToken, read_before: Option<i64>) -> Result<i64, Refused> {
        use fence::tokio_postgres::{ClaimError, claim};
        let refused = |error| match error {
            ClaimError::Stale(stale) => Refused::Stale(stale),
            ClaimError::Database(error) if error.code().is_some_and(|code| code.code() == "40001") => Refused::Conflict,
            failed @ ClaimError::Database(_) => Refused::Failed(failed.into_response()),
        };
        let tx = self.transaction().await.unwrap();
        claim(&tx, SKU, token).await.map_err(refused)?;
        let stock: i64 = tx.query_one("SELECT quantity FROM stock", &[]).await.unwrap().get(0);
        if let Some(read) = read_before {
            tx.execute("UPDATE stock SET quantity = $1", &[&(read - 1)]).await.unwrap();
            tx.execute("INSERT INTO orders (token) VALUES ($1)", &[&token.as_i64()]).await.unwrap();
        }
        tx.commit().await.unwrap();
        Ok(stock)
    }
}

/// A pool, because it rolls back what is dropped. A single connection does so only when it is used again.
impl Client for PgPool {
    const NAME: &str = "sqlx";

    async fn connect_to(server: &PostgresServer, isolation: Isolation) -> Self {
        let pool = PgPoolOptions::new().max_connections(1).connect(&server.url()).await.unwrap();
        query(isolation.set()).execute(&pool).await.unwrap();
        pool
    }

    async fn read(&mut self, token: FencingToken) -> Result<i64, Refused> {
        use fence::sqlx::{ClaimError, check};
        let mut tx = self.begin().await.unwrap();
        let stock: i64 = query_scalar("SELECT quantity FROM stock").fetch_one(&mut *tx).await.unwrap();
        check(&mut tx, SKU, token).await.map(|()| stock).map_err(|error| match error {
            ClaimError::Stale(stale) => Refused::Stale(stale),
            failed @ ClaimError::Database(_) => Refused::Failed(failed.into_response()),
        })
    }

    async fn work(&mut self, token: FencingToken, read_before: Option<i64>) -> Result<i64, Refused> {
        use fence::sqlx::{ClaimError, claim};
        let refused = |error| match error {
            ClaimError::Stale(stale) => Refused::Stale(stale),
            ClaimError::Database(sqlx::Error::Database(error)) if error.code().as_deref() == Some("40001") => {
                Refused::Conflict
            }
            failed @ ClaimError::Database(_) => Refused::Failed(failed.into_response()),
        };
        let mut tx = self.begin().await.unwrap();
        claim(&mut tx, SKU, token).await.map_err(refused)?;
        let stock: i64 = query_scalar("SELECT quantity FROM stock").fetch_one(&mut *tx).await.unwrap();
        if let Some(read) = read_before {
            query("UPDATE stock SET quantity = $1").bind(read - 1).execute(&mut *tx).await.unwrap();
            query("INSERT INTO orders (token) VALUES ($1)").bind(token.as_i64()).execute(&mut *tx).await.unwrap();
        }
        tx.commit().await.unwrap();
        Ok(stock)
    }
}

/// A server with a shop that has five units in stock.
pub(super) async fn open() -> PostgresServer {
    let server = PostgresServer::start().await;
    let shop = "CREATE TABLE stock (quantity BIGINT); CREATE TABLE orders (id BIGSERIAL, token BIGINT)";
    server.query(&format!("{CREATE_TABLE}; {shop}; INSERT INTO stock VALUES (5)")).await;
    server
}

/// Forgets all orders and claims: the shop has five units again.
pub(super) async fn reopen(server: &PostgresServer) {
    server.query("TRUNCATE orders, lock_fence; UPDATE stock SET quantity = 5").await;
}

/// The units in stock, and the number of orders.
pub(super) async fn books(server: &PostgresServer) -> String {
    server.query("SELECT quantity, (SELECT count(*) FROM orders) FROM stock").await
}
