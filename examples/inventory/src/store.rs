//! The shop's database: what is on stock, what was ordered, and the fence.

use std::{path::Path, sync::Arc, time::Duration};

use lock_axum::FencingToken;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, named_params, params};
use tokio::{sync::Mutex, task::spawn_blocking};

use crate::problem::ShopError;

/// How long a statement waits while another instance writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

// The CHECK is the usual safety net, and no help here: a lost update never goes below zero.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS stock (
        sku      TEXT PRIMARY KEY,
        quantity INTEGER NOT NULL CHECK (quantity >= 0),
        fence    INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE IF NOT EXISTS orders (
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        sku      TEXT NOT NULL REFERENCES stock (sku),
        quantity INTEGER NOT NULL CHECK (quantity > 0),
        token    INTEGER
    ) STRICT;
    CREATE INDEX IF NOT EXISTS orders_by_sku ON orders (sku);
";

/// One instance's connection to the shop's SQLite file. Clones share it.
///
/// Statements run on tokio's blocking threads, one at a time. A call that was begun runs to its end
/// even if the future is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    connection: Arc<Mutex<Connection>>,
}

/// A purchase that was written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sale {
    pub(crate) order_id: i64,
    pub(crate) remaining: i64,
}

/// What was sold of one SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sold {
    pub(crate) orders: i64,
    pub(crate) units: i64,
}

impl Store {
    /// Opens or creates the file at `path`. `durable` waits for the disk at each commit.
    pub(crate) async fn open(path: &Path, durable: bool) -> Result<Self, ShopError> {
        let path = path.to_owned();
        let connection = spawn_blocking(move || -> rusqlite::Result<Connection> {
            let connection = Connection::open(path)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "journal_mode", "wal")?;
            let synchronous = if durable { "full" } else { "off" };
            connection.pragma_update(None, "synchronous", synchronous)?;
            connection.execute_batch(SCHEMA)?;
            Ok(connection)
        })
        .await??;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Puts `quantity` units on stock, unless the SKU is there already.
    pub(crate) async fn seed(&self, sku: &str, quantity: u32) -> Result<(), ShopError> {
        let sku = sku.to_owned();
        self.transaction(move |tx| {
            tx.execute("INSERT OR IGNORE INTO stock (sku, quantity) VALUES (?, ?)", params![sku, quantity])?;
            Ok(())
        })
        .await
    }

    /// The units on stock.
    pub(crate) async fn quantity(&self, sku: &str) -> Result<i64, ShopError> {
        let sku = sku.to_owned();
        self.statement(move |db| read(db, &sku)).await
    }

    /// What was ordered so far.
    pub(crate) async fn sold(&self, sku: &str) -> Result<Sold, ShopError> {
        let sku = sku.to_owned();
        self.statement(move |db| {
            let sold =
                db.query_row("SELECT count(*), coalesce(sum(quantity), 0) FROM orders WHERE sku = ?", [sku], |row| {
                    Ok(Sold { orders: row.get(0)?, units: row.get(1)? })
                })?;
            Ok(sold)
        })
        .await
    }

    /// Writes what the caller computed from an earlier [`quantity`](Self::quantity), and the order.
    pub(crate) async fn overwrite(&self, sku: &str, remaining: i64, quantity: u32) -> Result<Sale, ShopError> {
        let sku = sku.to_owned();
        self.transaction(move |tx| {
            tx.execute("UPDATE stock SET quantity = ? WHERE sku = ?", params![remaining, sku])?;
            insert_order(tx, &sku, quantity, remaining, None)
        })
        .await
    }

    /// The same, if no newer token has *written* yet. That is the trap: a newer holder that has
    /// read, and not yet written, is overlooked.
    pub(crate) async fn overwrite_if_newer(
        &self,
        sku: &str,
        remaining: i64,
        quantity: u32,
        token: FencingToken,
    ) -> Result<Sale, ShopError> {
        let sku = sku.to_owned();
        self.transaction(move |tx| {
            let written = tx.execute(
                "UPDATE stock SET quantity = :remaining, fence = :token
                  WHERE sku = :sku AND fence < :token",
                named_params! { ":remaining": remaining, ":token": token.as_i64(), ":sku": sku },
            )?;
            if written == 0 {
                return Err(ShopError::StaleToken);
            }
            insert_order(tx, &sku, quantity, remaining, Some(token))
        })
        .await
    }

    /// Claims the SKU for `token`, then reads the units on stock, in one transaction. From then on
    /// older tokens are refused.
    pub(crate) async fn claim_and_read(&self, sku: &str, token: FencingToken) -> Result<i64, ShopError> {
        let sku = sku.to_owned();
        self.transaction(move |tx| {
            claim(tx, &sku, token)?;
            read(tx, &sku)
        })
        .await
    }

    /// Claims again, reads again and writes, in one transaction.
    pub(crate) async fn claim_and_sell(
        &self,
        sku: &str,
        quantity: u32,
        token: FencingToken,
    ) -> Result<Sale, ShopError> {
        let sku = sku.to_owned();
        self.transaction(move |tx| {
            claim(tx, &sku, token)?;
            let remaining = read(tx, &sku)? - i64::from(quantity);
            if remaining < 0 {
                return Err(ShopError::SoldOut);
            }
            tx.execute("UPDATE stock SET quantity = ? WHERE sku = ?", params![remaining, sku])?;
            insert_order(tx, &sku, quantity, remaining, Some(token))
        })
        .await
    }

    /// Takes the units in one statement that cannot take what is not there.
    pub(crate) async fn sell(&self, sku: &str, quantity: u32) -> Result<Sale, ShopError> {
        let sku = sku.to_owned();
        self.transaction(move |tx| {
            let remaining = tx
                .query_row(
                    "UPDATE stock SET quantity = quantity - :quantity
                      WHERE sku = :sku AND quantity >= :quantity
                  RETURNING quantity",
                    named_params! { ":quantity": quantity, ":sku": sku },
                    |row| row.get(0),
                )
                .optional()?
                .ok_or(ShopError::SoldOut)?;
            insert_order(tx, &sku, quantity, remaining, None)
        })
        .await
    }

    /// Runs `work` in a transaction of its own; an error rolls it back.
    async fn transaction<T, F>(&self, work: F) -> Result<T, ShopError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, ShopError> + Send + 'static,
    {
        self.statement(move |db| {
            // Immediate: a transaction that turned from reader into writer could fail half-way
            // with SQLITE_BUSY, which the busy timeout does not cover.
            let tx = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
            let done = work(&tx)?;
            tx.commit()?;
            Ok(done)
        })
        .await
    }

    async fn statement<T, F>(&self, work: F) -> Result<T, ShopError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, ShopError> + Send + 'static,
    {
        // Waiting for the connection here, not on the blocking thread, keeps one thread busy
        // instead of one for each caller.
        let connection = Arc::clone(&self.connection).lock_owned().await;
        spawn_blocking(move || work(&connection)).await?
    }
}

/// `<=`, so that the holder of a token may claim again with it.
fn claim(db: &Connection, sku: &str, token: FencingToken) -> Result<(), ShopError> {
    let claimed = db.execute(
        "UPDATE stock SET fence = :token WHERE sku = :sku AND fence <= :token",
        named_params! { ":token": token.as_i64(), ":sku": sku },
    )?;
    if claimed == 0 {
        read(db, sku)?;
        return Err(ShopError::StaleToken);
    }
    Ok(())
}

fn read(db: &Connection, sku: &str) -> Result<i64, ShopError> {
    db.query_row("SELECT quantity FROM stock WHERE sku = ?", [sku], |row| row.get(0))
        .optional()?
        .ok_or(ShopError::UnknownSku)
}

fn insert_order(
    db: &Connection,
    sku: &str,
    quantity: u32,
    remaining: i64,
    token: Option<FencingToken>,
) -> Result<Sale, ShopError> {
    db.execute(
        "INSERT INTO orders (sku, quantity, token) VALUES (?, ?, ?)",
        params![sku, quantity, token.map(FencingToken::as_i64)],
    )?;
    Ok(Sale { order_id: db.last_insert_rowid(), remaining })
}
