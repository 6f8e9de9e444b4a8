//! The handler of each mode. Buyers look only at the status, so most of them answer with an empty body.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::{Path, State},
    routing::{MethodRouter, post},
};
use lock_axum::{Lease, LockManager, distributed_lock};
use tokio::sync::Mutex;

use super::{atomic, checked_write, overwrite};
use crate::{
    proof::Mode,
    shop::{Order, Receipt, Shop, ShopError},
};

/// The routes of an instance in `mode`.
pub(crate) fn router(mode: Mode, shop: Shop, locks: &LockManager) -> Router {
    Router::new().route("/stock/{sku}/deduct", deduct(mode)).layer(Extension(locks.clone())).with_state(shop)
}

/// The handler of `POST /stock/{sku}/deduct` in `mode`.
fn deduct(mode: Mode) -> MethodRouter<Shop> {
    match mode {
        Mode::NoLock => post(no_lock),
        Mode::LocalMutex => post(local_mutex).layer(Extension(LocalMutex::default())),
        Mode::DistributedLock => post(locked),
        Mode::Pause => post(paused),
        Mode::PauseFenceAtWrite => post(paused_fence_at_write),
        Mode::PauseFenceClaimed => post(paused_fence_claimed),
        Mode::AtomicSql => post(atomic_sql),
    }
}

async fn no_lock(Path(sku): Path<String>, State(shop): State<Shop>, order: Order) -> Result<(), ShopError> {
    overwrite::purchase(&shop, &sku, order).await
}

/// The lock that suffices until there is a second instance.
type LocalMutex = Arc<Mutex<()>>;

async fn local_mutex(
    Path(sku): Path<String>,
    State(shop): State<Shop>,
    Extension(mutex): Extension<LocalMutex>,
    order: Order,
) -> Result<(), ShopError> {
    let _held = mutex.lock().await;
    overwrite::purchase(&shop, &sku, order).await
}

#[distributed_lock(resource = "stock:{sku}", ttl = "10s", wait = "2s")]
async fn locked(Path(sku): Path<String>, State(shop): State<Shop>, order: Order) -> Result<(), ShopError> {
    overwrite::purchase(&shop, &sku, order).await
}

// The next three handlers have the TTL of `pauses::TTL`, and pause for longer than that.
//
// `on_lost = "continue"` changes what the buyer learns, not what happens to the stock. A handler can
// be cancelled only at an await, and the one that wakes from its pause hands its write to the
// database before it reaches one. If it continues, it sees that the fence refused the write, and
// answers 409 `stale-fencing-token`: nothing was sold, try again. A cancelled handler would answer 500
// `lock-lost`, after which the buyer does not know. Success under a lost lease becomes `lock-lost`
// with either setting.

#[distributed_lock(resource = "stock:{sku}", ttl = "300ms", wait = "2s", on_lost = "continue")]
async fn paused(Path(sku): Path<String>, State(shop): State<Shop>, order: Order) -> Result<(), ShopError> {
    overwrite::purchase(&shop, &sku, order).await
}

#[distributed_lock(resource = "stock:{sku}", ttl = "300ms", wait = "2s", on_lost = "continue")]
async fn paused_fence_at_write(
    Path(sku): Path<String>,
    State(shop): State<Shop>,
    lease: Lease,
    order: Order,
) -> Result<(), ShopError> {
    checked_write::purchase(&shop, &sku, order, &lease).await
}

#[distributed_lock(resource = "stock:{sku}", ttl = "300ms", wait = "2s", on_lost = "continue")]
async fn paused_fence_claimed(
    Path(sku): Path<String>,
    State(shop): State<Shop>,
    lease: Lease,
    order: Order,
) -> Result<Json<Receipt>, ShopError> {
    shop.purchase(&sku, order, &lease).await.map(Json)
}

async fn atomic_sql(Path(sku): Path<String>, State(shop): State<Shop>, order: Order) -> Result<(), ShopError> {
    atomic::purchase(&shop, &sku, order).await
}
