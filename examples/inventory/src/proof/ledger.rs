//! The books of a run: the stock at its start, and the orders at its end.

use std::path::Path;

use rusqlite::params;

use crate::shop::{ShopError, Store};

/// What was sold of one SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sold {
    pub(crate) orders: i64,
    pub(crate) units: i64,
}

/// Opens the database of a run. Commits do not wait for the disk, because the file is temporary.
pub(crate) async fn open(path: &Path) -> Result<Store, ShopError> {
    let store = Store::open(path).await?;
    store.skip_disk_sync().await?;
    Ok(store)
}

/// Adds the SKU with `quantity` units in stock, unless it exists.
pub(crate) async fn seed(store: &Store, sku: &str, quantity: u32) -> Result<(), ShopError> {
    let sku = sku.to_owned();
    store
        .transaction(move |tx| {
            tx.execute("INSERT OR IGNORE INTO stock (sku, quantity) VALUES (?, ?)", params![sku, quantity])?;
            Ok(())
        })
        .await
}

/// Adds up the orders for the SKU.
pub(crate) async fn sold(store: &Store, sku: &str) -> Result<Sold, ShopError> {
    let sku = sku.to_owned();
    store
        .with_connection(move |db| {
            let sum = "SELECT count(*), coalesce(sum(quantity), 0) FROM orders WHERE sku = ?";
            Ok(db.query_row(sum, [sku], |row| Ok(Sold { orders: row.get(0)?, units: row.get(1)? }))?)
        })
        .await
}
