//! A shop whose stock is in PostgreSQL, through each client that has a claim.

use axum::response::{IntoResponse, Response};
use lock_axum::Lease;
use lock_axum::fence::{self, CREATE_TABLE, StaleToken};
use lock_support::PostgresServer;
use tokio_postgres::NoTls;

pub(super) const SKU: &str = "stock:42";

/// The isolation levels. `READ UNCOMMITTED` is `READ COMMITTED` in PostgreSQL.
pub(super) const ISOLATION_LEVELS: [Isolation; 3] =
    [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Isolation {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    /// As PostgreSQL calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
            Self::Serializable => "serializable",
        }
    }

    /// Whether a transaction sees nothing that was committed since it began.
    pub(super) fn has_a_snapshot(self) -> bool {
        self != Self::ReadCommitted
    }

    fn set(self) -> String {
        format!("SET default_transaction_isolation = '{}'", self.name())
    }
}

/// Why a transaction has written nothing.
#[derive(Debug)]
pub(super) enum Refused {
    Stale(StaleToken),
    /// A serialization failure: the transaction may be run again.
    Conflict,
    /// A check at this isolation level, at which it could not refuse.
    Isolation(String),
    /// Another error of the database, with its response.
    Failed(Response),
}

impl Refused {
    pub(super) fn into_response(self) -> Response {
        match self {
            Self::Stale(stale) => stale.into_response(),
            Self::Failed(response) => response,
            Self::Conflict | Self::Isolation(_) => panic!("{self:?}"),
        }
    }
}

/// A connection to the shop.
pub(super) trait Client: Sized + Send + 'static {
    const NAME: &str;

    async fn connect_to(server: &PostgresServer, isolation: Isolation) -> Self;

    /// One transaction: reads the stock, waits for what others do `meanwhile`, and checks that no later writer has claimed it.
    async fn read(&mut self, lease: &Lease, meanwhile: impl AsyncFnOnce()) -> Result<i64, Refused>;

    /// One transaction: claims, reads the stock, and sells one of the `read_before` units if there is something to sell.
    fn work(&mut self, lease: &Lease, read_before: Option<i64>) -> impl Future<Output = Result<i64, Refused>> + Send;

    /// One transaction: claims in a savepoint, rolls that back, and sells a unit all the same.
    async fn claim_in_a_savepoint(&mut self, lease: &Lease);
}

impl Client for tokio_postgres::Client {
    const NAME: &str = "tokio-postgres";

    async fn connect_to(server: &PostgresServer, isolation: Isolation) -> Self {
        let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&isolation.set()).await.unwrap();
        client
    }

    async fn read(&mut self, lease: &Lease, meanwhile: impl AsyncFnOnce()) -> Result<i64, Refused> {
        use fence::tokio_postgres::{CheckError, check};
        let tx = self.transaction().await.unwrap();
        let stock: i64 = tx.query_one("SELECT quantity FROM stock", &[]).await.unwrap().get(0);
        meanwhile().await;
        check(&tx, lease).await.map(|()| stock).map_err(|error| match error {
            CheckError::Stale(stale) => Refused::Stale(stale),
            CheckError::Isolation { level } => Refused::Isolation(level),
            failed @ CheckError::Database(_) => Refused::Failed(failed.into_response()),
        })
    }

    async fn work(&mut self, lease: &Lease, read_before: Option<i64>) -> Result<i64, Refused> {
        use fence::tokio_postgres::{ClaimError, claim};
        let refused = |error| match error {
            ClaimError::Stale(stale) => Refused::Stale(stale),
            ClaimError::Database(error) if error.code().is_some_and(|code| code.code() == "40001") => Refused::Conflict,
            failed @ ClaimError::Database(_) => Refused::Failed(failed.into_response()),
        };
        let tx = self.transaction().await.unwrap();
        claim(&tx, lease).await.map_err(refused)?;
        let failed = |error: tokio_postgres::Error| refused(error.into());
        let stock: i64 = tx.query_one("SELECT quantity FROM stock", &[]).await.map_err(failed)?.get(0);
        if let Some(read) = read_before {
            tx.execute("UPDATE stock SET quantity = $1", &[&(read - 1)]).await.map_err(failed)?;
            tx.execute("INSERT INTO orders (token) VALUES ($1)", &[&lease.token().as_i64()]).await.map_err(failed)?;
        }
        tx.commit().await.map_err(failed)?;
        Ok(stock)
    }

    async fn claim_in_a_savepoint(&mut self, lease: &Lease) {
        let mut tx = self.transaction().await.unwrap();
        let savepoint = tx.transaction().await.unwrap();
        fence::tokio_postgres::claim(&savepoint, lease).await.unwrap();
        savepoint.rollback().await.unwrap();
        tx.execute("UPDATE stock SET quantity = quantity - 1", &[]).await.unwrap();
        tx.commit().await.unwrap();
    }
}

/// The clients of sqlx, whose versions have other types. A pool, because it rolls back what is dropped: a single connection does so only
/// when it is used again.
macro_rules! sqlx_client {
    ($sqlx:ident) => {
        impl Client for $sqlx::PgPool {
            const NAME: &str = stringify!($sqlx);

            async fn connect_to(server: &PostgresServer, isolation: Isolation) -> Self {
                let options = $sqlx::postgres::PgPoolOptions::new().max_connections(1);
                let pool = options.connect(&server.url()).await.unwrap();
                let set = "SELECT set_config('default_transaction_isolation', $1, false)";
                $sqlx::query(set).bind(isolation.name()).execute(&pool).await.unwrap();
                pool
            }

            async fn read(&mut self, lease: &Lease, meanwhile: impl AsyncFnOnce()) -> Result<i64, Refused> {
                use fence::$sqlx::{CheckError, check};
                let mut tx = self.begin().await.unwrap();
                let stock = $sqlx::query_scalar("SELECT quantity FROM stock").fetch_one(&mut *tx).await.unwrap();
                meanwhile().await;
                check(&mut tx, lease).await.map(|()| stock).map_err(|error| match error {
                    CheckError::Stale(stale) => Refused::Stale(stale),
                    CheckError::Isolation { level } => Refused::Isolation(level),
                    failed @ CheckError::Database(_) => Refused::Failed(failed.into_response()),
                })
            }

            async fn work(&mut self, lease: &Lease, read_before: Option<i64>) -> Result<i64, Refused> {
                use fence::$sqlx::{ClaimError, claim};
                let refused = |error| match error {
                    ClaimError::Stale(stale) => Refused::Stale(stale),
                    ClaimError::Database($sqlx::Error::Database(error)) if error.code().as_deref() == Some("40001") => {
                        Refused::Conflict
                    }
                    failed @ ClaimError::Database(_) => Refused::Failed(failed.into_response()),
                };
                let mut tx = self.begin().await.unwrap();
                claim(&mut tx, lease).await.map_err(refused)?;
                let failed = |error: $sqlx::Error| refused(error.into());
                let stock = $sqlx::query_scalar("SELECT quantity FROM stock");
                let stock = stock.fetch_one(&mut *tx).await.map_err(failed)?;
                if let Some(read) = read_before {
                    let sell = $sqlx::query("UPDATE stock SET quantity = $1").bind(read - 1);
                    sell.execute(&mut *tx).await.map_err(failed)?;
                    let order = $sqlx::query("INSERT INTO orders (token) VALUES ($1)").bind(lease.token().as_i64());
                    order.execute(&mut *tx).await.map_err(failed)?;
                }
                tx.commit().await.map_err(failed)?;
                Ok(stock)
            }

            async fn claim_in_a_savepoint(&mut self, lease: &Lease) {
                use $sqlx::Acquire as _;
                let mut tx = self.begin().await.unwrap();
                let mut savepoint = tx.begin().await.unwrap();
                fence::$sqlx::claim(&mut savepoint, lease).await.unwrap();
                savepoint.rollback().await.unwrap();
                $sqlx::query("UPDATE stock SET quantity = quantity - 1").execute(&mut *tx).await.unwrap();
                tx.commit().await.unwrap();
            }
        }
    };
}

sqlx_client!(sqlx);
sqlx_client!(sqlx_0_9);

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
