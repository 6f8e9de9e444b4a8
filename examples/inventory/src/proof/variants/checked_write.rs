use lock_axum::Lease;

use crate::shop::{Order, Shop, ShopError};

/// Reads, pays, and overwrites the stock unless a newer token has written.
///
/// This is the trap. A holder whose lease expired during its pause may write after the next holder
/// has read and before that holder writes. No newer token has written at that moment, so the store
/// accepts the write. It then accepts the next holder's write too, which was computed from a read
/// that is out of date.
pub(super) async fn purchase(shop: &Shop, sku: &str, order: Order, lease: &Lease) -> Result<(), ShopError> {
    let in_stock = shop.store.quantity(sku).await?;
    let remaining = order.take_from(in_stock)?;
    shop.payments.authorize().await;
    let (sku, lease) = (sku.to_owned(), lease.clone());
    shop.store
        .transaction(move |tx| {
            tx.claim(&lease)?;
            tx.execute("UPDATE stock SET quantity = $1 WHERE sku = $2", &[&remaining, &sku])?;
            order.record(tx, &sku, Some(lease.token()))?;
            Ok(())
        })
        .await
}
