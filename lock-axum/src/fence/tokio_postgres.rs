//! Claims in PostgreSQL, through [`::tokio_postgres`]. Needs the feature `tokio-postgres`.

use ::tokio_postgres::Transaction;
use ::tokio_postgres::types::Type;
use axum::response::{IntoResponse, Response};
use lock_core::FencingToken;
use thiserror::Error;

use super::client::{SEEN, failed, refused};
use super::{CHECK, CLAIM, StaleToken};

/// Claims `resource` for the holder of `token`, in the table of [`CREATE_TABLE`](super::CREATE_TABLE).
///
/// Call it first in the transaction that reads and writes, and roll back if it fails. Dropping the transaction does that. A token
/// that has claimed may claim again; work that spans several transactions claims in each of them.
///
/// A claim is one statement and one round trip, and nothing is prepared, so that it also works behind a pooler of connections.
/// It waits for open transactions that have claimed the same resource, for as long as `lock_timeout` allows. Every token fits
/// `BIGINT`.
///
/// # Examples
///
/// ```no_run
/// use lock_axum::Lease;
/// use lock_axum::fence::{self, tokio_postgres::ClaimError};
/// use tokio_postgres::Client;
///
/// async fn sell(db: &mut Client, sku: &str, lease: &Lease) -> Result<i64, ClaimError> {
///     let tx = db.transaction().await?;
///     fence::tokio_postgres::claim(&tx, lease.resource(), lease.token()).await?; // then read, then write
///     let quantity: i64 = tx.query_one("SELECT quantity FROM stock WHERE sku = $1", &[&sku]).await?.get(0);
///     tx.execute("UPDATE stock SET quantity = $1 WHERE sku = $2", &[&(quantity - 1), &sku]).await?;
///     tx.commit().await?;
///     Ok(quantity - 1)
/// }
/// ```
///
/// # Errors
///
/// [`ClaimError::Stale`] if a larger token has claimed the resource. [`ClaimError::Database`] if the statement fails: there is no
/// table `lock_fence`, the wait ended, or the connection broke.
///
/// With `REPEATABLE READ` and `SERIALIZABLE`, it also fails if another transaction has claimed the resource since this one began,
/// even if the token is the newer one. The error has [`SqlState::T_R_SERIALIZATION_FAILURE`](
/// ::tokio_postgres::error::SqlState::T_R_SERIALIZATION_FAILURE), 40001: run the transaction again.
///
/// # Cancel safety
///
/// If the future is dropped, the claim may have been made or not. Roll the transaction back.
pub async fn claim(transaction: &Transaction<'_>, resource: &str, token: FencingToken) -> Result<(), ClaimError> {
    let values = [(&resource as _, Type::TEXT), (&token.as_i64() as _, Type::INT8)];
    if transaction.execute_typed(CLAIM, &values).await? > 0 {
        return Ok(());
    }
    let seen = transaction.query_typed_opt(SEEN, &[(&resource, Type::TEXT)]).await?;
    let seen = seen.map(|row| row.try_get(0)).transpose()?;
    Err(refused("postgres", resource, token, seen).into())
}

/// Checks that no later writer has claimed `resource` than the reader with `token`, and raises nothing.
///
/// Call it in the transaction that reads, **after** what it reads: with `READ COMMITTED`, each statement sees what was committed before
/// it. For a holder that writes, [`claim`].
///
/// # Examples
///
/// ```no_run
/// use lock_axum::Lease;
/// use lock_axum::fence::{self, tokio_postgres::ClaimError};
/// use tokio_postgres::Client;
///
/// async fn price(db: &mut Client, sku: &str, lease: &Lease) -> Result<i64, ClaimError> {
///     let tx = db.transaction().await?;
///     let price = tx.query_one("SELECT price FROM catalog WHERE sku = $1", &[&sku]).await?.try_get(0)?;
///     fence::tokio_postgres::check(&tx, lease.resource(), lease.token()).await?;
///     Ok(price)
/// }
/// ```
///
/// # Errors
///
/// As [`claim`], which waits where this does not.
///
/// # Cancel safety
///
/// Nothing is changed in any case.
pub async fn check(transaction: &Transaction<'_>, resource: &str, token: FencingToken) -> Result<(), ClaimError> {
    let values = [(&resource as _, Type::TEXT), (&token.as_i64() as _, Type::INT8)];
    let seen = transaction.query_typed_opt(CHECK, &values).await?;
    let seen = seen.map(|row| row.try_get(0)).transpose()?;
    if seen.is_none() { Ok(()) } else { Err(refused("postgres", resource, token, seen).into()) }
}

/// Why a claim failed.
///
/// A handler can return it. [`Stale`](Self::Stale) is then answered as [`StaleToken`] is, with 409. [`Database`](Self::Database)
/// is answered with 500 and logged as the event `lock.claim_failed`.
#[derive(Debug, Error)]
pub enum ClaimError {
    /// A later holder of the lock has claimed the resource.
    #[error(transparent)]
    Stale(#[from] StaleToken),
    /// PostgreSQL or the connection to it failed.
    #[error("the database failed")]
    Database(#[from] ::tokio_postgres::Error),
}

impl IntoResponse for ClaimError {
    fn into_response(self) -> Response {
        match self {
            Self::Stale(stale) => stale.into_response(),
            Self::Database(error) => failed(&error),
        }
    }
}
