//! A purchase: claim and read, pay, claim again and write.

use lock_axum::Lease;
use serde::Serialize;

use super::{Order, Shop, ShopError};

/// The answer to a purchase.
#[derive(Debug, Serialize)]
pub(crate) struct Receipt {
    order_id: i64,
    sku: String,
    quantity: u32,
    remaining: i64,
    token: u64,
}

impl Shop {
    /// Sells `order` to the holder of `lease`.
    ///
    /// The first claim locks out older holders before anything is read. The payment is a call to
    /// another service, during which no transaction should stay open, so the write is a transaction
    /// of its own. It claims again, and fails if a newer holder has claimed in the meantime.
    pub(crate) async fn purchase(&self, sku: &str, order: Order, lease: &Lease) -> Result<Receipt, ShopError> {
        let in_stock = self.store.claim_and_read(sku, lease).await?;
        order.take_from(in_stock)?;
        self.payments.authorize().await;
        let sale = self.store.claim_and_sell(sku, order, lease).await?;
        Ok(Receipt {
            order_id: sale.order_id,
            sku: sku.to_owned(),
            quantity: order.quantity,
            remaining: sale.remaining,
            token: lease.token().get(),
        })
    }
}
