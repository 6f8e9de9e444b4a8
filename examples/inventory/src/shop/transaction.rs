//! A transaction on either database. The SQL is the same for both.

use lock_axum::{Lease, fence};
use rusqlite::{OptionalExtension, TransactionBehavior};
use tokio::runtime::Handle;
use tokio_postgres::Client;

use super::ShopError;

/// What a transaction is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A transaction, which is rolled back unless it is committed. Its methods block: they run on a blocking thread, also if they
/// wait for PostgreSQL.
pub(crate) enum Tx<'a> {
    Sqlite(rusqlite::Transaction<'a>),
    Postgres(tokio_postgres::Transaction<'a>, &'a Handle),
}

/// What a statement is given: text, a number, or perhaps a number.
pub(crate) trait Value: rusqlite::ToSql + tokio_postgres::types::ToSql + Sync {}

impl<T: rusqlite::ToSql + tokio_postgres::types::ToSql + Sync> Value for T {}

impl<'a> Tx<'a> {
    pub(super) fn on_sqlite(connection: &'a rusqlite::Connection, access: Access) -> Result<Self, ShopError> {
        let behavior = match access {
            Access::Read => TransactionBehavior::Deferred,
            // A deferred transaction that turns from reading to writing may fail with SQLITE_BUSY
            // at once, whatever the busy timeout. An immediate one waits at its start.
            Access::Write => TransactionBehavior::Immediate,
        };
        Ok(Self::Sqlite(rusqlite::Transaction::new_unchecked(connection, behavior)?))
    }

    pub(super) fn on_postgres(client: &'a mut Client, runtime: &'a Handle) -> Result<Self, ShopError> {
        Ok(Self::Postgres(runtime.block_on(client.transaction())?, runtime))
    }

    /// Claims the resource of `lease` for its holder.
    pub(crate) fn claim(&self, lease: &Lease) -> Result<(), ShopError> {
        match self {
            Self::Sqlite(tx) => Ok(fence::rusqlite::claim(tx, lease)?),
            Self::Postgres(tx, runtime) => Ok(runtime.block_on(fence::tokio_postgres::claim(tx, lease))?),
        }
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, values: &[&dyn Value]) -> Result<u64, ShopError> {
        match self {
            Self::Sqlite(tx) => {
                let values: Vec<&dyn rusqlite::ToSql> = values.iter().map(|value| *value as _).collect();
                Ok(tx.execute(sql, &values[..])? as u64)
            }
            Self::Postgres(tx, runtime) => {
                let values: Vec<_> = values.iter().map(|value| *value as _).collect();
                runtime.block_on(tx.execute(sql, &values)).map_err(|error| ShopError::of_statement(error, sql))
            }
        }
    }

    /// Runs a query for one row of numbers, if there is one.
    pub(crate) fn numbers<const N: usize>(
        &self,
        sql: &str,
        values: &[&dyn Value],
    ) -> Result<Option<[i64; N]>, ShopError> {
        let mut numbers = [0; N];
        match self {
            Self::Sqlite(tx) => {
                let values: Vec<&dyn rusqlite::ToSql> = values.iter().map(|value| *value as _).collect();
                let row = tx.query_row(sql, &values[..], |row| {
                    for (column, number) in numbers.iter_mut().enumerate() {
                        *number = row.get(column)?;
                    }
                    Ok(numbers)
                });
                Ok(row.optional()?)
            }
            Self::Postgres(tx, runtime) => {
                let values: Vec<_> = values.iter().map(|value| *value as _).collect();
                let row = runtime.block_on(tx.query_opt(sql, &values));
                let Some(row) = row.map_err(|error| ShopError::of_statement(error, sql))? else { return Ok(None) };
                for (column, number) in numbers.iter_mut().enumerate() {
                    *number = row.try_get(column)?;
                }
                Ok(Some(numbers))
            }
        }
    }

    /// Creates tables with `sql`, unless they exist.
    ///
    /// # Errors
    ///
    /// [`ShopError::Forbidden`] with the SQL if the user may not create them, so that somebody else can.
    pub(crate) fn create(&self, tables: &[&str], sql: &str) -> Result<(), ShopError> {
        match self {
            Self::Sqlite(tx) => Ok(tx.execute_batch(sql)?),
            Self::Postgres(tx, runtime) => {
                // Instances start at the same time, and `IF NOT EXISTS` does not wait for another's table.
                self.execute("SELECT pg_advisory_xact_lock(hashtext('inventory'))", &[])?;
                for table in tables {
                    // Even `IF NOT EXISTS` needs the right to create.
                    if self.numbers("SELECT count(to_regclass($1))", &[table])? != Some([1]) {
                        let created = runtime.block_on(tx.batch_execute(sql));
                        return created.map_err(|error| ShopError::of_statement(error, sql));
                    }
                }
                Ok(())
            }
        }
    }

    pub(super) fn commit(self) -> Result<(), ShopError> {
        match self {
            Self::Sqlite(tx) => Ok(tx.commit()?),
            Self::Postgres(tx, runtime) => Ok(runtime.block_on(tx.commit())?),
        }
    }
}
