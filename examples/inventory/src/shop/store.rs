//! The shop's database, as its handlers use it.

use std::sync::Arc;

use tokio::{runtime::Handle, sync::Mutex, task::spawn_blocking};

use super::{Database, ShopError, Tx, database::Connection, transaction::Access};

/// A connection to the database. Clones share it.
///
/// Transactions run on tokio's blocking threads, one at a time. One that has started runs to completion even if its future is
/// dropped.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    connection: Arc<Mutex<Connection>>,
}

impl Store {
    /// Opens the database, and creates its tables if they are missing.
    pub(crate) async fn open(database: &Database) -> Result<Self, ShopError> {
        let (database, runtime) = (database.clone(), Handle::current());
        let connection = spawn_blocking(|| Connection::open(database, runtime)).await??;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Commits no longer wait for the disk. For files that are temporary.
    pub(crate) async fn skip_disk_sync(&self) -> Result<(), ShopError> {
        self.with_connection(|connection| connection.skip_disk_sync()).await
    }

    /// The units in stock.
    pub(crate) async fn quantity(&self, sku: &str) -> Result<i64, ShopError> {
        let sku = sku.to_owned();
        self.read(move |tx| read(tx, &sku)).await
    }

    /// Runs `work` in a transaction, and rolls it back if `work` returns an error.
    pub(crate) async fn transaction<T, F>(&self, work: F) -> Result<T, ShopError>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T, ShopError> + Send + 'static,
    {
        self.run(Access::Write, work).await
    }

    /// Runs `work` in a transaction that writes nothing.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, ShopError>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T, ShopError> + Send + 'static,
    {
        self.run(Access::Read, work).await
    }

    async fn run<T, F>(&self, access: Access, work: F) -> Result<T, ShopError>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T, ShopError> + Send + 'static,
    {
        self.with_connection(move |connection| {
            let tx = connection.begin(access)?;
            let done = work(&tx)?;
            tx.commit()?;
            Ok(done)
        })
        .await
    }

    /// Runs `work` on a blocking thread.
    async fn with_connection<T, F>(&self, work: F) -> Result<T, ShopError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, ShopError> + Send + 'static,
    {
        // Callers wait here and not on a blocking thread, so that a store occupies one thread at most.
        let mut connection = Arc::clone(&self.connection).lock_owned().await;
        spawn_blocking(move || work(&mut connection)).await?
    }
}

/// Reads the units in stock.
pub(crate) fn read(tx: &Tx<'_>, sku: &str) -> Result<i64, ShopError> {
    let [quantity] = tx.numbers("SELECT quantity FROM stock WHERE sku = $1", &[&sku])?.ok_or(ShopError::UnknownSku)?;
    Ok(quantity)
}
