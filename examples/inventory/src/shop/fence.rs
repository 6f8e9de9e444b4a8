//! The fence: transactions that refuse every holder but the newest.
//!
//! Each one claims first, then reads, then writes. The module docs of the shop say why the claim
//! must come before the read. A refused claim is an error, so the transaction is rolled back.

use lock_axum::{Lease, fence::rusqlite::claim};
use rusqlite::params;

use super::{
    Order, ShopError,
    store::{Store, read},
};

/// A purchase that has been written.
#[derive(Debug)]
pub(crate) struct Sale {
    pub(crate) order_id: i64,
    pub(crate) remaining: i64,
}

impl Store {
    /// Claims the SKU for the holder of `lease` and reads the units in stock.
    ///
    /// # Errors
    ///
    /// [`ShopError::StaleToken`] if a later holder has claimed the SKU.
    pub(crate) async fn claim_and_read(&self, sku: &str, lease: &Lease) -> Result<i64, ShopError> {
        let (sku, lease) = (sku.to_owned(), lease.clone());
        self.transaction(move |tx| {
            claim(tx, lease.resource(), lease.token())?;
            read(tx, &sku)
        })
        .await
    }

    /// Claims the SKU for the holder of `lease`, reads the stock again, and writes the new stock and the order.
    ///
    /// # Errors
    ///
    /// [`ShopError::StaleToken`] if a later holder has claimed the SKU, and [`ShopError::SoldOut`] if
    /// too few units are left. Nothing is written then.
    pub(crate) async fn claim_and_sell(&self, sku: &str, order: Order, lease: &Lease) -> Result<Sale, ShopError> {
        let (sku, lease) = (sku.to_owned(), lease.clone());
        self.transaction(move |tx| {
            claim(tx, lease.resource(), lease.token())?;
            let remaining = order.take_from(read(tx, &sku)?)?;
            tx.execute("UPDATE stock SET quantity = ? WHERE sku = ?", params![remaining, sku])?;
            tx.execute(
                "INSERT INTO orders (sku, quantity, token) VALUES (?, ?, ?)",
                params![sku, order.quantity, lease.token().as_i64()],
            )?;
            Ok(Sale { order_id: tx.last_insert_rowid(), remaining })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lock_axum::LockManager;

    use super::*;

    #[tokio::test]
    async fn a_claim_locks_out_older_tokens() {
        let store = Store::open(Path::new(":memory:")).await.unwrap();
        store.transaction(|tx| Ok(tx.execute("INSERT INTO stock VALUES ('apple', 5)", [])?)).await.unwrap();
        let locks = LockManager::in_memory();
        let older = locks.lock("stock:apple").acquire().await.unwrap().lease();
        let newer = locks.lock("stock:apple").acquire().await.unwrap().lease();
        let order = Order { quantity: 1 };

        assert_eq!(store.claim_and_read("apple", &older).await.unwrap(), 5);
        assert_eq!(store.claim_and_read("apple", &newer).await.unwrap(), 5);
        let refused = store.claim_and_sell("apple", order, &older).await;
        assert!(matches!(refused, Err(ShopError::StaleToken(_))), "{refused:?}");
        assert_eq!(store.claim_and_sell("apple", order, &newer).await.unwrap().remaining, 4);
    }
}
