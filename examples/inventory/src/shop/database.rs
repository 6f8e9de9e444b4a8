//! Where the stock is, and a connection to it.

use std::{path::PathBuf, str::FromStr, time::Duration};

use lock_axum::fence;
use tokio::runtime::Handle;

use super::{
    ShopError, postgres,
    transaction::{Access, Tx},
};

/// How long a statement waits while another instance writes to the SQLite file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

// `CHECK (quantity >= 0)` does not prevent overselling: a lost update never goes below zero.
const SQLITE_SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS stock (
        sku      TEXT PRIMARY KEY,
        quantity INTEGER NOT NULL CHECK (quantity >= 0)
    ) STRICT;
    CREATE TABLE IF NOT EXISTS orders (
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        sku      TEXT NOT NULL REFERENCES stock (sku),
        quantity INTEGER NOT NULL CHECK (quantity > 0),
        token    INTEGER
    ) STRICT;
    CREATE INDEX IF NOT EXISTS orders_by_sku ON orders (sku);
";
/// Where the stock is: written as the path of a file, or as `postgres://user@host/database`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Database {
    /// A SQLite file. It is created if it does not exist.
    Sqlite(PathBuf),
    /// A database of a PostgreSQL server, in which the shop creates its tables.
    Postgres(postgres::Address),
}

impl FromStr for Database {
    type Err = <postgres::Address as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Ok(Self::Sqlite(text.into()));
        }
        Ok(Self::Postgres(text.parse()?))
    }
}

/// A connection to the database. Its methods block.
#[derive(Debug)]
pub(super) enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres(postgres::Connection),
}

impl Connection {
    pub(super) fn open(database: Database, runtime: Handle) -> Result<Self, ShopError> {
        match database {
            Database::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path)?;
                connection.busy_timeout(BUSY_TIMEOUT)?;
                connection.pragma_update(None, "journal_mode", "wal")?;
                connection.pragma_update(None, "synchronous", "full")?;
                connection.execute_batch(SQLITE_SCHEMA)?;
                connection.execute_batch(fence::CREATE_TABLE)?;
                Ok(Self::Sqlite(connection))
            }
            Database::Postgres(address) => Ok(Self::Postgres(postgres::Connection::open(address, runtime)?)),
        }
    }

    /// Commits no longer wait for the disk. For files that are temporary, and so not for PostgreSQL.
    pub(super) fn skip_disk_sync(&self) -> Result<(), ShopError> {
        match self {
            Self::Sqlite(connection) => Ok(connection.pragma_update(None, "synchronous", "off")?),
            Self::Postgres(_) => Ok(()),
        }
    }

    pub(super) fn begin(&mut self, access: Access) -> Result<Tx<'_>, ShopError> {
        match self {
            Self::Sqlite(connection) => Tx::on_sqlite(connection, access),
            Self::Postgres(connection) => Ok(Tx::Postgres(connection.begin()?)),
        }
    }
}
