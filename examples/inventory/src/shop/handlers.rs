//! The handlers.

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
};
use lock_axum::{Lease, LockManager, distributed_lock};
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

/// `GET /health`: 200 if the lock masters have a quorum, otherwise 503.
pub(crate) async fn health(Extension(locks): Extension<LockManager>) -> (StatusCode, Json<Value>) {
    let health = locks.health().await;
    let status = if health.quorum { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({ "quorum": health.quorum, "masters": health.nodes.len() });
    (status, Json(body))
}
