//! Claims in SQLite, through [`::rusqlite`]. Needs the feature `rusqlite`.

use ::rusqlite::{OptionalExtension as _, Transaction, params};
use lock_core::Lease;

use super::client::{SEEN, may_be_refused, refused};
use super::{CHECK, CLAIM, Claimant};

/// Claims the resource of a lock for the holder of `lease`, in the table of [`CREATE_TABLE`](super::CREATE_TABLE).
///
/// Call it first in the transaction that reads and writes, and roll back if it fails. Dropping the transaction does that. A token
/// that has claimed may claim again; work that spans several transactions claims in each of them.
///
/// A savepoint that is rolled back takes a claim that was made inside it back, too, while the transaction may still write: claim before it.
///
/// A claim is a write. It waits for other transactions that write for as long as the connection's busy timeout. Every token
/// fits SQLite's `INTEGER`.
///
/// # Examples
///
/// ```
/// use lock_axum::fence::{self, rusqlite::ClaimError};
/// use lock_axum::{Lease, LockManager};
/// use rusqlite::{Connection, params};
///
/// fn sell(db: &mut Connection, sku: &str, lease: &Lease) -> Result<i64, ClaimError> {
///     let tx = db.transaction()?;
///     fence::rusqlite::claim(&tx, lease)?; // then read, then write
///     let quantity: i64 = tx.query_row("SELECT quantity FROM stock WHERE sku = ?", [sku], |row| row.get(0))?;
///     tx.execute("UPDATE stock SET quantity = ? WHERE sku = ?", params![quantity - 1, sku])?;
///     tx.commit()?;
///     Ok(quantity - 1)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut db = Connection::open_in_memory()?;
/// db.execute_batch(fence::CREATE_TABLE)?;
/// db.execute_batch("CREATE TABLE stock (sku TEXT, quantity BIGINT); INSERT INTO stock VALUES ('42', 5)")?;
///
/// let locks = LockManager::in_memory();
/// let older = locks.lock("stock:42").run(async |lease| lease).await?;
/// let newer = locks.lock("stock:42").run(async |lease| lease).await?;
/// assert_eq!(sell(&mut db, "42", &newer)?, 4);
/// assert!(matches!(sell(&mut db, "42", &older), Err(ClaimError::Stale(_))));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`ClaimError::Stale`] if a larger token has claimed the resource. [`ClaimError::Database`] if the statement fails: there is no
/// table `lock_fence`, the busy timeout ended, or the transaction has read before something else was written
/// (`SQLITE_BUSY_SNAPSHOT`), which a claim that comes first cannot meet.
pub fn claim(transaction: &Transaction<'_>, lease: &Lease) -> Result<(), ClaimError> {
    claim_for(transaction, &Claimant::of(lease))
}

/// As [`claim`], for work that has no lease.
///
/// # Errors
///
/// As [`claim`].
pub fn claim_for(transaction: &Transaction<'_>, claimant: &Claimant) -> Result<(), ClaimError> {
    may_be_refused("sqlite");
    if transaction.execute(CLAIM, params![claimant.resource(), claimant.token().as_i64()])? > 0 {
        return Ok(());
    }
    let seen = transaction.query_row(SEEN, [claimant.resource()], |row| row.get(0)).optional()?;
    Err(refused("sqlite", claimant.clone(), seen).into())
}

/// Checks that no later writer than the reader with `lease` has claimed its resource, and raises nothing. For a holder that writes,
/// [`claim`].
///
/// With a rollback journal, SQLite's default, call it in the transaction that reads, after what it reads: nobody else commits before that
/// ends. With `journal_mode = WAL`, that transaction sees no claim that was made since its first read, and the check **would not refuse**:
/// call it in another transaction, once that one has ended.
///
/// # Examples
///
/// ```
/// use lock_axum::fence::{self, rusqlite::ClaimError};
/// use lock_axum::LockManager;
/// use rusqlite::Connection;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut db = Connection::open_in_memory()?;
/// db.execute_batch(fence::CREATE_TABLE)?;
///
/// let locks = LockManager::in_memory();
/// let reader = locks.read("catalog").run(async |lease| lease).await?;
/// let writer = locks.lock("catalog").run(async |lease| lease).await?;
/// let tx = db.transaction()?;
/// fence::rusqlite::check(&tx, &reader)?;
/// fence::rusqlite::claim(&tx, &writer)?;
/// let stale = fence::rusqlite::check(&tx, &reader);
/// assert!(matches!(stale, Err(ClaimError::Stale(_))));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// As [`claim`].
pub fn check(transaction: &Transaction<'_>, lease: &Lease) -> Result<(), ClaimError> {
    check_for(transaction, &Claimant::of(lease))
}

/// As [`check`], for work that has no lease.
///
/// # Errors
///
/// As [`check`].
pub fn check_for(transaction: &Transaction<'_>, claimant: &Claimant) -> Result<(), ClaimError> {
    may_be_refused("sqlite");
    let values = params![claimant.resource(), claimant.token().as_i64()];
    let seen: Option<i64> = transaction.query_row(CHECK, values, |row| row.get(0)).optional()?;
    if seen.is_none() { Ok(()) } else { Err(refused("sqlite", claimant.clone(), seen).into()) }
}

super::errors::claim_error!(rusqlite, ::rusqlite::Error, "SQLite failed.");
