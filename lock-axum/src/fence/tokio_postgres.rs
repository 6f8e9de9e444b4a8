//! Claims in PostgreSQL, through [`::tokio_postgres`]. Needs the feature `tokio-postgres`.

use ::tokio_postgres::Transaction;
use ::tokio_postgres::types::Type;
use lock_core::Lease;

use super::client::{CHECK_AND_LEVEL, SEEN, has_a_snapshot, may_be_refused, refused};
use super::{CLAIM, Claimant};

/// Claims the resource of a lock for the holder of `lease`, in the table of [`CREATE_TABLE`](super::CREATE_TABLE).
///
/// Call it first in the transaction that reads and writes, and roll back if it fails. Dropping the transaction does that. A token
/// that has claimed may claim again; work that spans several transactions claims in each of them.
///
/// Claim in the transaction itself, and not in one that is nested in it: that is a savepoint, and if it is rolled back, the claim is lost
/// with it, while what is written outside of it is committed.
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
///     fence::tokio_postgres::claim(&tx, lease).await?; // then read, then write
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
pub async fn claim(transaction: &Transaction<'_>, lease: &Lease) -> Result<(), ClaimError> {
    claim_for(transaction, &Claimant::of(lease)).await
}

/// As [`claim`], for work that has no lease.
///
/// # Errors
///
/// As [`claim`].
///
/// # Cancel safety
///
/// As [`claim`].
pub async fn claim_for(transaction: &Transaction<'_>, claimant: &Claimant) -> Result<(), ClaimError> {
    may_be_refused("postgres");
    let resource = claimant.resource();
    let values = [(&resource as _, Type::TEXT), (&claimant.token().as_i64() as _, Type::INT8)];
    if transaction.execute_typed(CLAIM, &values).await? > 0 {
        return Ok(());
    }
    let seen = transaction.query_typed_opt(SEEN, &[(&resource, Type::TEXT)]).await?;
    let seen = seen.map(|row| row.try_get(0)).transpose()?;
    Err(refused("postgres", claimant.clone(), seen).into())
}

/// Checks that no later writer than the reader with `lease` has claimed its resource, and raises nothing. For a holder that writes,
/// [`claim`].
///
/// Call it in the transaction that reads, **after** what it reads: with `READ COMMITTED`, each statement sees what was committed before
/// it. With `REPEATABLE READ` and `SERIALIZABLE`, a transaction sees no claim that was made since it began: call it in a transaction of
/// its own with `READ COMMITTED`, once that one has ended.
///
/// # Examples
///
/// ```no_run
/// use lock_axum::Lease;
/// use lock_axum::fence::{self, tokio_postgres::CheckError};
/// use tokio_postgres::Client;
///
/// async fn price(db: &mut Client, sku: &str, lease: &Lease) -> Result<i64, CheckError> {
///     let tx = db.transaction().await?;
///     let price = tx.query_one("SELECT price FROM catalog WHERE sku = $1", &[&sku]).await?.try_get(0)?;
///     fence::tokio_postgres::check(&tx, lease).await?;
///     Ok(price)
/// }
/// ```
///
/// # Errors
///
/// [`CheckError::Stale`] if a larger token has claimed the resource, and [`CheckError::Database`] if the statement fails. [`CheckError::Isolation`] if the transaction's level is `REPEATABLE READ` or
/// `SERIALIZABLE`, and it sees no later claim.
///
/// # Cancel safety
///
/// Nothing is changed in any case.
pub async fn check(transaction: &Transaction<'_>, lease: &Lease) -> Result<(), CheckError> {
    check_for(transaction, &Claimant::of(lease)).await
}

/// As [`check`], for work that has no lease.
///
/// # Errors
///
/// As [`check`].
///
/// # Cancel safety
///
/// As [`check`].
pub async fn check_for(transaction: &Transaction<'_>, claimant: &Claimant) -> Result<(), CheckError> {
    may_be_refused("postgres");
    let resource = claimant.resource();
    let values = [(&resource as _, Type::TEXT), (&claimant.token().as_i64() as _, Type::INT8)];
    // It has one row, always.
    let row = transaction.query_typed_opt(CHECK_AND_LEVEL, &values).await?;
    let (level, seen) = match row {
        Some(row) => (row.try_get::<_, String>(0)?, row.try_get(1)?),
        None => (String::new(), None),
    };
    if seen.is_some() {
        return Err(refused("postgres", claimant.clone(), seen).into());
    }
    if has_a_snapshot(&level) { Err(CheckError::Isolation { level }) } else { Ok(()) }
}

super::errors::claim_error!(tokio_postgres, ::tokio_postgres::Error, "PostgreSQL or the connection to it failed.");
super::errors::check_error!(tokio_postgres, ::tokio_postgres::Error);
