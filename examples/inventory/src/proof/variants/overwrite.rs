use crate::shop::{Order, Shop, ShopError};

/// Reads, pays, and overwrites the stock with a number computed from that read.
///
/// Correct only if nothing else writes between the read and the write.
pub(crate) async fn purchase(shop: &Shop, sku: &str, order: Order) -> Result<(), ShopError> {
    let in_stock = shop.store.quantity(sku).await?;
    let remaining = order.take_from(in_stock)?;
    shop.payments.authorize().await;
    let sku = sku.to_owned();
    shop.store
        .transaction(move |tx| {
            tx.execute("UPDATE stock SET quantity = $1 WHERE sku = $2", &[&remaining, &sku])?;
            order.record(tx, &sku, None)?;
            Ok(())
        })
        .await
}
