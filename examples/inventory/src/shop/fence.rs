//! The fence: transactions that refuse every holder but the newest.
//!
//! Each one claims first, then reads, then writes. The module docs of the shop say why the claim
//! must come before the read. A refused claim is an error, so the transaction is rolled back.

use lock_axum::Lease;

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
            tx.claim(&lease)?;
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
            tx.claim(&lease)?;
            let remaining = order.take_from(read(tx, &sku)?)?;
            tx.execute("UPDATE stock SET quantity = $1 WHERE sku = $2", &[&remaining, &sku])?;
            let order_id = order.record(tx, &sku, Some(lease.token()))?;
            Ok(Sale { order_id, remaining })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use lock_axum::LockManager;

    use super::*;
    use crate::shop::Database;

    #[tokio::test]
    async fn a_claim_locks_out_older_tokens() {
        let store = Store::open(&Database::Sqlite(":memory:".into())).await.unwrap();
        store.transaction(|tx| tx.execute("INSERT INTO stock VALUES ('apple', 5)", &[])).await.unwrap();
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
