use lock_axum::FencingToken;
use rusqlite::named_params;

use super::orders;
use crate::shop::{Order, Shop, ShopError};

/// Reads, pays, and overwrites the stock unless the same or a newer token has written.
///
/// This is the trap. A holder whose lease expired during its pause may write after the next holder
/// has read and before that holder writes. No newer token has written at that moment, so the store
/// accepts the write. It then accepts the next holder's write too, which was computed from a read
/// that is out of date.
pub(super) async fn purchase(shop: &Shop, sku: &str, order: Order, token: FencingToken) -> Result<(), ShopError> {
    let in_stock = shop.store.quantity(sku).await?;
    let remaining = order.take_from(in_stock)?;
    shop.payments.authorize().await;
    let sku = sku.to_owned();
    shop.store
        .transaction(move |tx| {
            let written = tx.execute(
                "UPDATE stock SET quantity = :remaining, fence = :token
                  WHERE sku = :sku AND fence < :token",
                named_params! { ":remaining": remaining, ":token": token.as_i64(), ":sku": sku },
            )?;
            if written == 0 {
                return Err(ShopError::StaleToken);
            }
            orders::insert(tx, &sku, order, Some(token))
        })
        .await
}
