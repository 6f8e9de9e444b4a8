//! A transaction on either database. The SQL is the same for both.

use lock_axum::{Lease, fence};
use rusqlite::{OptionalExtension, TransactionBehavior};

use super::{ShopError, postgres};

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
    Postgres(postgres::Transaction<'a>),
}

/// What a statement is given: text, a number, or perhaps a number.
pub(crate) trait Value: rusqlite::ToSql + postgres::Value {}

impl<T: rusqlite::ToSql + postgres::Value> Value for T {}

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

    /// Claims the resource of `lease` for its holder.
    pub(crate) fn claim(&self, lease: &Lease) -> Result<(), ShopError> {
        match self {
            Self::Sqlite(tx) => Ok(fence::rusqlite::claim(tx, lease)?),
            Self::Postgres(tx) => Ok(tx.claim(lease)??),
        }
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, values: &[&dyn Value]) -> Result<u64, ShopError> {
        match self {
            Self::Sqlite(tx) => {
                let values: Vec<&dyn rusqlite::ToSql> = values.iter().map(|value| *value as _).collect();
                Ok(tx.execute(sql, &values[..])? as u64)
            }
            Self::Postgres(tx) => Ok(tx.execute(sql, &parameters(values))?),
        }
    }

    /// Runs a query for one row of numbers, if there is one.
    pub(crate) fn numbers<const N: usize>(
        &self,
        sql: &str,
        values: &[&dyn Value],
    ) -> Result<Option<[i64; N]>, ShopError> {
        match self {
            Self::Sqlite(tx) => {
                let values: Vec<&dyn rusqlite::ToSql> = values.iter().map(|value| *value as _).collect();
                let row = tx.query_row(sql, &values[..], |row| {
                    let mut numbers = [0; N];
                    for (column, number) in numbers.iter_mut().enumerate() {
                        *number = row.get(column)?;
                    }
                    Ok(numbers)
                });
                Ok(row.optional()?)
            }
            Self::Postgres(tx) => Ok(tx.numbers(sql, &parameters(values))?),
        }
    }

    /// Creates tables with `sql`, unless they exist.
    ///
    /// # Errors
    ///
    /// [`ShopError`] with the SQL if the user may not create them, so that somebody else can.
    pub(crate) fn create(&self, tables: &[&str], sql: &str) -> Result<(), ShopError> {
        match self {
            Self::Sqlite(tx) => Ok(tx.execute_batch(sql)?),
            Self::Postgres(tx) => Ok(tx.create(tables, sql)?),
        }
    }

    pub(super) fn commit(self) -> Result<(), ShopError> {
        match self {
            Self::Sqlite(tx) => Ok(tx.commit()?),
            Self::Postgres(tx) => Ok(tx.commit()?),
        }
    }
}

fn parameters<'a>(values: &[&'a dyn Value]) -> Vec<postgres::Parameter<'a>> {
    values.iter().map(|value| *value as _).collect()
}
