//! The handlers of an instance, which follow the switches.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::{Path, Request, State},
    handler::Handler,
    response::Response,
    routing::post,
};
use lock_axum::{Lease, LockManager, distributed_lock};
use serde_json::{Value, json};

use super::{
    board::Board,
    switches::{Protection, Switches},
    visit::Visit,
};
use crate::{
    proof::overwrite,
    shop::{KnownSku, Order, Receipt, Shop, ShopError, router},
};

/// What the handlers of one instance share, besides the shop.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub(crate) instance: usize,
    pub(crate) switches: Arc<Switches>,
    pub(crate) board: Arc<Board>,
}

/// The shop's routes, with a purchase that follows the switches.
pub(crate) fn routes(shop: Shop, locks: &LockManager, desk: Desk) -> Router {
    Router::new()
        .route("/stock/{sku}/deduct", post(purchase))
        .layer(Extension(locks.clone()))
        .layer(Extension(desk))
        .with_state(shop.clone())
        .fallback_service(router(shop, locks))
}

async fn purchase(
    Extension(desk): Extension<Desk>,
    State(shop): State<Shop>,
    Path(sku): Path<String>,
    mut request: Request,
) -> Response {
    let visit = Arc::new(Visit::new(desk.board, desk.instance, format!("stock:{sku}")));
    request.extensions_mut().insert(Arc::clone(&visit));
    let response = match desk.switches.protection() {
        Protection::Nothing => unlocked.call(request, shop).await,
        Protection::Lock => locked.call(request, shop).await,
        Protection::LockAndFence => fenced.call(request, shop).await,
    };
    visit.answered(response.status());
    response
}

// The TTL is short, so that nobody has to wait long to see a lease end. `on_lost = "continue"` lets a
// holder that outlived its lease go on to its write, and learn what the database says.

#[distributed_lock(resource = "stock:{sku}", ttl = "1s", wait = "2s", on_lost = "continue")]
async fn fenced(
    KnownSku(sku): KnownSku,
    State(shop): State<Shop>,
    Extension(visit): Extension<Arc<Visit>>,
    lease: Lease,
    order: Order,
) -> Result<Json<Receipt>, ShopError> {
    let hold = visit.granted(lease.clone());
    let outcome = shop.purchase(&sku, order, &lease).await;
    hold.fenced(&outcome);
    visit.sold(&outcome);
    outcome.map(Json)
}

#[distributed_lock(resource = "stock:{sku}", ttl = "1s", wait = "2s", on_lost = "continue")]
async fn locked(
    KnownSku(sku): KnownSku,
    State(shop): State<Shop>,
    Extension(visit): Extension<Arc<Visit>>,
    lease: Lease,
    order: Order,
) -> Result<Json<Value>, ShopError> {
    let _hold = visit.granted(lease);
    overwrite(&shop, &visit, &sku, order).await
}

async fn unlocked(
    KnownSku(sku): KnownSku,
    State(shop): State<Shop>,
    Extension(visit): Extension<Arc<Visit>>,
    order: Order,
) -> Result<Json<Value>, ShopError> {
    let _hold = visit.unlocked();
    overwrite(&shop, &visit, &sku, order).await
}

async fn overwrite(shop: &Shop, visit: &Visit, sku: &str, order: Order) -> Result<Json<Value>, ShopError> {
    let outcome = overwrite::purchase(shop, sku, order).await;
    visit.sold(&outcome);
    outcome.map(|()| Json(json!({ "sku": sku, "quantity": order.quantity })))
}
