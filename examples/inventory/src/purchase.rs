//! The ways to sell a unit. Each does what a real handler does: read the stock, take the payment,
//! write stock and order. They differ in what the write can still refuse.

use std::{sync::Arc, time::Duration};

use axum::extract::FromRef;
use lock_axum::FencingToken;
use serde::Serialize;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

use crate::{
    extract::Order,
    pauses::Pauses,
    problem::ShopError,
    store::{Sale, Store},
};

/// What the handlers of one instance share.
#[derive(Debug, Clone)]
pub(crate) struct Shop {
    pub(crate) store: Store,
    /// The lock that works until there is a second instance.
    pub(crate) mutex: Arc<Mutex<()>>,
    payment: Duration,
    pauses: Arc<Pauses>,
}

impl Shop {
    pub(crate) fn new(store: Store, payment: Duration, pauses: Pauses) -> Self {
        Self { store, mutex: Arc::default(), payment, pauses: Arc::new(pauses) }
    }

    /// Calls the payment provider. A real one is asked to *authorise* here and to *capture* after
    /// the write, so that an authorisation whose purchase is refused can be voided.
    async fn pay(&self) {
        let answered = Instant::now() + self.payment;
        // The provider works on while we are stopped. The process that wakes finds the answer
        // there, and goes on to the write without awaiting anything.
        self.pauses.stop_the_world();
        if Instant::now() < answered {
            sleep_until(answered).await;
        }
    }
}

impl FromRef<Shop> for Store {
    fn from_ref(shop: &Shop) -> Self {
        shop.store.clone()
    }
}

/// The answer to a purchase.
#[derive(Debug, Serialize)]
pub(crate) struct Receipt {
    order_id: i64,
    sku: String,
    quantity: u32,
    remaining: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
}

impl Receipt {
    fn new(sale: Sale, sku: &str, order: Order, token: Option<FencingToken>) -> Self {
        Self {
            order_id: sale.order_id,
            sku: sku.to_owned(),
            quantity: order.quantity,
            remaining: sale.remaining,
            token: token.map(FencingToken::get),
        }
    }
}

/// Read, pay, write what was read minus one. Correct if it runs alone, and only then.
pub(crate) async fn naive(shop: &Shop, sku: &str, order: Order) -> Result<Receipt, ShopError> {
    let on_hand = shop.store.quantity(sku).await?;
    let remaining = order.taken_from(on_hand)?;
    shop.pay().await;
    let sale = shop.store.overwrite(sku, remaining, order.quantity).await?;
    Ok(Receipt::new(sale, sku, order, None))
}

/// Read, pay, write unless a newer token has written.
///
/// It looks fenced, and oversells: a holder whose lease ended during its pause writes *after* the
/// new holder read and *before* the new holder writes. The store has seen no newer token yet, takes
/// the write, and then takes the new holder's, which was computed from the same read.
pub(crate) async fn checked_at_write(
    shop: &Shop,
    sku: &str,
    order: Order,
    token: FencingToken,
) -> Result<Receipt, ShopError> {
    let on_hand = shop.store.quantity(sku).await?;
    let remaining = order.taken_from(on_hand)?;
    shop.pay().await;
    let sale = shop.store.overwrite_if_newer(sku, remaining, order.quantity, token).await?;
    Ok(Receipt::new(sale, sku, order, Some(token)))
}

/// Claim and read, pay, claim again and write.
///
/// The first claim shuts out older holders before anything is read; the second finds out whether a
/// newer one has done the same to us meanwhile. Two transactions, as no transaction should stay
/// open during a call to someone else's service; each claims for itself.
pub(crate) async fn claimed(shop: &Shop, sku: &str, order: Order, token: FencingToken) -> Result<Receipt, ShopError> {
    let on_hand = shop.store.claim_and_read(sku, token).await?;
    order.taken_from(on_hand)?;
    shop.pay().await;
    let sale = shop.store.claim_and_sell(sku, order.quantity, token).await?;
    Ok(Receipt::new(sale, sku, order, Some(token)))
}

/// Look, pay, let the database take the unit. No lock: for a decrement of one row there is nothing
/// that a lock could add. The look only spares most buyers a payment that would be voided.
pub(crate) async fn atomic(shop: &Shop, sku: &str, order: Order) -> Result<Receipt, ShopError> {
    let on_hand = shop.store.quantity(sku).await?;
    order.taken_from(on_hand)?;
    shop.pay().await;
    let sale = shop.store.sell(sku, order.quantity).await?;
    Ok(Receipt::new(sale, sku, order, None))
}
