//! Claims in PostgreSQL, through [`::sqlx`]. Needs the feature `sqlx`.

use ::sqlx::{Postgres, Transaction, query, query_scalar};
use axum::response::{IntoResponse, Response};
use lock_core::FencingToken;
use thiserror::Error;

use super::client::{SEEN, failed, refused};
use super::{CHECK, CLAIM, StaleToken};

/// Claims `resource` for the holder of `token`, in the table of [`CREATE_TABLE`](super::CREATE_TABLE).
///
/// Call it first in the transaction that reads and writes, and roll back if it fails. Dropping a transaction of a pool does that;
/// dropping one of a single connection does it only when the connection is used again, and other claims wait until then. A token
/// that has claimed may claim again; work that spans several transactions claims in each of them.
///
/// A claim is one statement. It waits for open transactions that have claimed the same resource, for as long as `lock_timeout`
/// allows. Every token fits `BIGINT`.
///
/// # Examples
///
/// ```no_run
/// use lock_axum::Lease;
/// use lock_axum::fence::{self, sqlx::ClaimError};
/// use sqlx::{PgPool, query, query_scalar};
///
/// async fn sell(db: &PgPool, sku: &str, lease: &Lease) -> Result<i64, ClaimError> {
///     let mut tx = db.begin().await?;
///     fence::sqlx::claim(&mut tx, lease.resource(), lease.token()).await?; // then read, then write
///     let read = query_scalar("SELECT quantity FROM stock WHERE sku = $1").bind(sku);
///     let quantity: i64 = read.fetch_one(&mut *tx).await?;
///     let write = query("UPDATE stock SET quantity = $1 WHERE sku = $2").bind(quantity - 1).bind(sku);
///     write.execute(&mut *tx).await?;
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
/// even if the token is the newer one. The [`code`](::sqlx::error::DatabaseError::code) of the error is 40001: run the transaction
/// again.
///
/// # Cancel safety
///
/// If the future is dropped, the claim may have been made or not. Roll the transaction back.
pub async fn claim(
    transaction: &mut Transaction<'_, Postgres>,
    resource: &str,
    token: FencingToken,
) -> Result<(), ClaimError> {
    let claimed = query(CLAIM).bind(resource).bind(token.as_i64()).execute(&mut **transaction).await?;
    if claimed.rows_affected() > 0 {
        return Ok(());
    }
    let seen = query_scalar(SEEN).bind(resource).fetch_optional(&mut **transaction).await?;
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
/// use lock_axum::fence::{self, sqlx::ClaimError};
/// use sqlx::{PgPool, query_scalar};
///
/// async fn price(db: &PgPool, sku: &str, lease: &Lease) -> Result<i64, ClaimError> {
///     let mut tx = db.begin().await?;
///     let read = query_scalar("SELECT price FROM catalog WHERE sku = $1").bind(sku);
///     let price = read.fetch_one(&mut *tx).await?;
///     fence::sqlx::check(&mut tx, lease.resource(), lease.token()).await?;
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
pub async fn check(
    transaction: &mut Transaction<'_, Postgres>,
    resource: &str,
    token: FencingToken,
) -> Result<(), ClaimError> {
    let seen = query_scalar(CHECK).bind(resource).bind(token.as_i64()).fetch_optional(&mut **transaction).await?;
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
    Database(#[from] ::sqlx::Error),
}

impl IntoResponse for ClaimError {
    fn into_response(self) -> Response {
        match self {
            Self::Stale(stale) => stale.into_response(),
            Self::Database(error) => failed(&error),
        }
    }
}
