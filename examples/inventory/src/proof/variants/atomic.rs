use crate::shop::{Order, Shop, ShopError};

/// Reads, pays, and lets one SQL statement check and decrement the stock.
///
/// There is no lock, because a lock can add nothing to the decrement of one row. The read only
/// spares buyers who come too late a payment that would have to be voided.
pub(super) async fn purchase(shop: &Shop, sku: &str, order: Order) -> Result<(), ShopError> {
    let in_stock = shop.store.quantity(sku).await?;
    order.take_from(in_stock)?;
    shop.payments.authorize().await;
    let sku = sku.to_owned();
    shop.store
        .transaction(move |tx| {
            let updated = tx.execute(
                "UPDATE stock SET quantity = quantity - $1 WHERE sku = $2 AND quantity >= $1",
                &[&i64::from(order.quantity), &sku],
            )?;
            if updated == 0 {
                return Err(ShopError::SoldOut);
            }
            order.record(tx, &sku, None)?;
            Ok(())
        })
        .await
}
