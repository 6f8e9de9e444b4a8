//! The handlers.

use axum::{
    Json,
    extract::{Path, State},
};
use lock_axum::{Lease, distributed_lock};
use serde_json::{Value, json};

use super::{Order, Receipt, Shop, ShopError, known_sku::KnownSku};

/// `POST /stock/{sku}/deduct` with `{"quantity":1}`: sells units, one request per SKU at a time.
///
/// The lock makes concurrent buyers of a SKU wait for each other. It cannot stop a handler that is
/// still running when its lease expires. The store can refuse the writes of that handler, which is
/// why every transaction gets the lease, with its fencing token.
#[distributed_lock(resource = "stock:{sku}", ttl = "10s", wait = "2s")]
pub(crate) async fn deduct(
    KnownSku(sku): KnownSku,
    State(shop): State<Shop>,
    lease: Lease,
    order: Order,
) -> Result<Json<Receipt>, ShopError> {
    shop.purchase(&sku, order, &lease).await.map(Json)
}

/// `GET /stock/{sku}`: the units in stock. It needs no lock, because nothing is written from this read.
pub(crate) async fn stock(Path(sku): Path<String>, State(shop): State<Shop>) -> Result<Json<Value>, ShopError> {
    let quantity = shop.store.quantity(&sku).await?;
    Ok(Json(json!({ "sku": sku, "quantity": quantity })))
}
