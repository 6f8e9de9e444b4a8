//! The books of a run: the stock at its start, and the orders at its end.

use crate::shop::{ShopError, Store};

/// What was sold of one SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sold {
    pub(crate) orders: i64,
    pub(crate) units: i64,
}

/// Adds the SKU with `quantity` units in stock, unless it exists.
pub(crate) async fn seed(store: &Store, sku: &str, quantity: u32) -> Result<(), ShopError> {
    let sku = sku.to_owned();
    store
        .transaction(move |tx| {
            let insert = "INSERT INTO stock (sku, quantity) VALUES ($1, $2) ON CONFLICT DO NOTHING";
            tx.execute(insert, &[&sku, &i64::from(quantity)])?;
            Ok(())
        })
        .await
}

/// Adds up the orders for the SKU.
pub(crate) async fn sold(store: &Store, sku: &str) -> Result<Sold, ShopError> {
    let sku = sku.to_owned();
    store
        .read(move |tx| {
            // The sum of many numbers is of a larger type in PostgreSQL.
            let sum = "SELECT count(*), CAST(coalesce(sum(quantity), 0) AS BIGINT) FROM orders WHERE sku = $1";
            let [orders, units] = tx.numbers(sum, &[&sku])?.unwrap_or_default();
            Ok(Sold { orders, units })
        })
        .await
}
