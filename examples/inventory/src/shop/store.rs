//! The shop's SQLite database.

use std::{path::Path, sync::Arc, time::Duration};

use lock_axum::fence;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use tokio::{sync::Mutex, task::spawn_blocking};

use super::ShopError;

/// How long a statement waits while another instance writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

// `CHECK (quantity >= 0)` does not prevent overselling: a lost update never goes below zero.
const SCHEMA: &str = "
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

/// A connection to the database. Clones share it.
///
/// Statements run on tokio's blocking threads, one at a time. A statement that has started runs to
/// completion even if its future is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    connection: Arc<Mutex<Connection>>,
}

impl Store {
    /// Opens the file at `path`, or creates it.
    pub(crate) async fn open(path: &Path) -> Result<Self, ShopError> {
        let path = path.to_owned();
        let connection = spawn_blocking(move || -> rusqlite::Result<Connection> {
            let connection = Connection::open(path)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "journal_mode", "wal")?;
            connection.pragma_update(None, "synchronous", "full")?;
            connection.execute_batch(SCHEMA)?;
            connection.execute_batch(fence::CREATE_TABLE)?;
            Ok(connection)
        })
        .await??;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Commits no longer wait for the disk. For files that are temporary.
    pub(crate) async fn skip_disk_sync(&self) -> Result<(), ShopError> {
        self.with_connection(|db| Ok(db.pragma_update(None, "synchronous", "off")?)).await
    }

    /// The units in stock.
    pub(crate) async fn quantity(&self, sku: &str) -> Result<i64, ShopError> {
        let sku = sku.to_owned();
        self.with_connection(move |db| read(db, &sku)).await
    }

    /// Runs `work` in a transaction, and rolls it back if `work` returns an error.
    pub(crate) async fn transaction<T, F>(&self, work: F) -> Result<T, ShopError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, ShopError> + Send + 'static,
    {
        self.with_connection(move |db| {
            // A deferred transaction that turns from reading to writing may fail with SQLITE_BUSY
            // at once, whatever the busy timeout. An immediate one waits at its start.
            let tx = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
            let done = work(&tx)?;
            tx.commit()?;
            Ok(done)
        })
        .await
    }

    /// Runs `work` on a blocking thread.
    pub(crate) async fn with_connection<T, F>(&self, work: F) -> Result<T, ShopError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, ShopError> + Send + 'static,
    {
        // Callers wait here and not on a blocking thread, so that a store occupies one thread at most.
        let connection = Arc::clone(&self.connection).lock_owned().await;
        spawn_blocking(move || work(&connection)).await?
    }
}

/// Reads the units in stock.
pub(crate) fn read(db: &Connection, sku: &str) -> Result<i64, ShopError> {
    db.query_row("SELECT quantity FROM stock WHERE sku = ?", [sku], |row| row.get(0))
        .optional()?
        .ok_or(ShopError::UnknownSku)
}
