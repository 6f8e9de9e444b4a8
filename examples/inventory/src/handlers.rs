//! The handlers: one for each mode, and that of the service.

use axum::{
    Json,
    extract::{Path, State},
    routing::{MethodRouter, post},
};
use lock_axum::{FencingToken, distributed_lock};

use crate::{
    Mode,
    extract::{KnownSku, Order},
    problem::ShopError,
    purchase::{self, Receipt, Shop},
};

type Answer = Result<Json<Receipt>, ShopError>;

/// The handler of `POST /stock/{sku}/deduct` in this mode.
pub(crate) fn deduct(mode: Mode) -> MethodRouter<Shop> {
    match mode {
        Mode::NoLock => post(no_lock),
        Mode::LocalMutex => post(local_mutex),
        Mode::DistributedLock => post(locked),
        Mode::Pause => post(paused),
        Mode::PauseFenceAtWrite => post(paused_fence_at_write),
        Mode::PauseFenceClaimed => post(paused_fence_claimed),
        Mode::AtomicSql => post(atomic_sql),
    }
}

/// The handler that a service would have: lock and claimed fence.
pub(crate) fn deduct_fenced() -> MethodRouter<Shop> {
    post(fenced)
}

#[distributed_lock(resource = "stock:{sku}", ttl = "10s", wait = "2s")]
async fn fenced(KnownSku(sku): KnownSku, State(shop): State<Shop>, token: FencingToken, order: Order) -> Answer {
    purchase::claimed(&shop, &sku, order, token).await.map(Json)
}

async fn no_lock(Path(sku): Path<String>, State(shop): State<Shop>, order: Order) -> Answer {
    purchase::naive(&shop, &sku, order).await.map(Json)
}

async fn local_mutex(Path(sku): Path<String>, State(shop): State<Shop>, order: Order) -> Answer {
    let _alone_in_this_process = shop.mutex.lock().await;
    purchase::naive(&shop, &sku, order).await.map(Json)
}

#[distributed_lock(resource = "stock:{sku}", ttl = "10s", wait = "2s")]
async fn locked(Path(sku): Path<String>, State(shop): State<Shop>, order: Order) -> Answer {
    purchase::naive(&shop, &sku, order).await.map(Json)
}

// The three below hold locks with the TTL of `pauses::TTL`, and pause for longer.
//
// `on_lost = "continue"`, because a cancelled handler would change what the buyer is told, not what
// happens to the stock: cancelling takes effect at an await, and the process that wakes from its
// pause has handed its write to the database before it reaches one. Going on lets the handler see
// whether the fence refused the write, and answer 409 instead of 500: nothing was sold, try again.
// A 2xx of a lost lease is replaced by 500 `lock-lost` either way.

#[distributed_lock(resource = "stock:{sku}", ttl = "300ms", wait = "2s", on_lost = "continue")]
async fn paused(Path(sku): Path<String>, State(shop): State<Shop>, order: Order) -> Answer {
    purchase::naive(&shop, &sku, order).await.map(Json)
}

#[distributed_lock(resource = "stock:{sku}", ttl = "300ms", wait = "2s", on_lost = "continue")]
async fn paused_fence_at_write(
    Path(sku): Path<String>,
    State(shop): State<Shop>,
    token: FencingToken,
    order: Order,
) -> Answer {
    purchase::checked_at_write(&shop, &sku, order, token).await.map(Json)
}

#[distributed_lock(resource = "stock:{sku}", ttl = "300ms", wait = "2s", on_lost = "continue")]
async fn paused_fence_claimed(
    Path(sku): Path<String>,
    State(shop): State<Shop>,
    token: FencingToken,
    order: Order,
) -> Answer {
    purchase::claimed(&shop, &sku, order, token).await.map(Json)
}

async fn atomic_sql(Path(sku): Path<String>, State(shop): State<Shop>, order: Order) -> Answer {
    purchase::atomic(&shop, &sku, order).await.map(Json)
}
