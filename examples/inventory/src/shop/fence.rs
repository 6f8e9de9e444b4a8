//! The fence: transactions that refuse every holder but the newest.
//!
//! Each one claims first, then reads, then writes. The module docs of the shop say why the claim
//! must come before the read.

use lock_axum::FencingToken;
use rusqlite::{Connection, named_params, params};

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
    /// Claims the SKU for `token` and reads the units in stock.
    ///
    /// # Errors
    ///
    /// [`ShopError::StaleToken`] if a newer token has claimed the SKU.
    pub(crate) async fn claim_and_read(&self, sku: &str, token: FencingToken) -> Result<i64, ShopError> {
        let sku = sku.to_owned();
        self.transaction(move |tx| {
            claim(tx, &sku, token)?;
            read(tx, &sku)
        })
        .await
    }

    /// Claims the SKU for `token`, reads the stock again, and writes the new stock and the order.
    ///
    /// # Errors
    ///
    /// [`ShopError::StaleToken`] if a newer token has claimed the SKU, and [`ShopError::SoldOut`] if
    /// too few units are left. Nothing is written then.
    pub(crate) async fn claim_and_sell(&self, sku: &str, order: Order, token: FencingToken) -> Result<Sale, ShopError> {
        let sku = sku.to_owned();
        self.transaction(move |tx| {
            claim(tx, &sku, token)?;
            let remaining = order.take_from(read(tx, &sku)?)?;
            tx.execute("UPDATE stock SET quantity = ? WHERE sku = ?", params![remaining, sku])?;
            tx.execute(
                "INSERT INTO orders (sku, quantity, token) VALUES (?, ?, ?)",
                params![sku, order.quantity, token.as_i64()],
            )?;
            Ok(Sale { order_id: tx.last_insert_rowid(), remaining })
        })
        .await
    }
}

/// Makes `token` the newest that the SKU has seen.
///
/// `<=` and not `<`: a holder claims several times with the same token.
fn claim(db: &Connection, sku: &str, token: FencingToken) -> Result<(), ShopError> {
    let claimed = db.execute(
        "UPDATE stock SET fence = :token WHERE sku = :sku AND fence <= :token",
        named_params! { ":token": token.as_i64(), ":sku": sku },
    )?;
    if claimed == 0 {
        // Either there is no such row, which `read` reports, or its fence is newer.
        read(db, sku)?;
        return Err(ShopError::StaleToken);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lock_axum::LockManager;

    use super::*;

    #[tokio::test]
    async fn a_claim_locks_out_older_tokens() {
        let store = Store::open(Path::new(":memory:")).await.unwrap();
        store.transaction(|tx| Ok(tx.execute("INSERT INTO stock VALUES ('apple', 5, 0)", [])?)).await.unwrap();
        let locks = LockManager::in_memory();
        let older = locks.lock("stock:apple").acquire().await.unwrap().token();
        let newer = locks.lock("stock:apple").acquire().await.unwrap().token();
        let order = Order { quantity: 1 };

        assert_eq!(store.claim_and_read("apple", older).await.unwrap(), 5);
        assert_eq!(store.claim_and_read("apple", newer).await.unwrap(), 5);
        let refused = store.claim_and_sell("apple", order, older).await;
        assert!(matches!(refused, Err(ShopError::StaleToken)), "{refused:?}");
        assert_eq!(store.claim_and_sell("apple", order, newer).await.unwrap().remaining, 4);
    }
}
