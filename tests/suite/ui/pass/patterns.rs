//! Patterns of parameters: the resource may use every name that they bind.

use axum::extract::{Path, Query, State};
use axum::routing::post;
use axum::{Json, Router};
use lock_axum::{LockError, LockManager, distributed_lock};
use serde::Deserialize;

#[derive(Clone)]
struct App {
    tenant: &'static str,
}

#[derive(Deserialize)]
struct Order {
    sku: String,
    r#type: u8,
    quantity: (u32, u32),
}

#[distributed_lock(resource = "{sku}")]
async fn mutable(Path(mut sku): Path<String>) -> String {
    sku.push('!');
    sku
}

#[distributed_lock(resource = "{b}:{d}")]
async fn tuples(Path((a, mut b, _)): Path<(u8, u8, u8)>, Query((c, d)): Query<(u8, u8)>) -> String {
    b += a;
    format!("{b}{c}")
}

#[distributed_lock(resource = "{sku}/{kind}/{most}/{tenant}")]
async fn structs(
    State(App { tenant }): State<App>,
    Json(Order { mut sku, r#type: kind, quantity: (_least, most), .. }): Json<Order>,
) -> String {
    sku.push_str(tenant);
    format!("{sku}{kind}{most}")
}

#[distributed_lock(resource = "{type}:{order.quantity.1}-x/{order.0.sku}")]
async fn raw(Path(r#type): Path<u8>, mut order: Json<Order>) -> String {
    order.r#type = r#type;
    order.sku.clone()
}

#[distributed_lock(resource = "{whole.tenant}/{order.type}")]
async fn at_and_ref(State(ref whole @ App { tenant }): State<App>, Json(ref order): Json<Order>) -> String {
    format!("{tenant} {} {}", whole.tenant, order.sku)
}

/// The user's `__resource` and `__lease` do not collide with the macro's.
#[distributed_lock(resource = "{__resource}:{__arg1}:{__lease}")]
async fn hygiene(Path((__resource, __lease)): Path<(u8, u8)>, __arg1: String) -> String {
    let __manager = __resource;
    format!("{__manager} {__lease} {__arg1}")
}

#[distributed_lock(resource = "{sku}:{second}", manager = locks)]
async fn function(
    locks: &LockManager,
    Order { mut sku, .. }: Order,
    (_, second): (u8, u8),
    __manager: u8,
    mut __resource: u8,
) -> Result<u8, LockError> {
    sku.clear();
    __resource += __manager + second;
    Ok(__resource)
}

fn main() {
    let _: Router = Router::new()
        .route("/a/{sku}", post(mutable))
        .route("/b/{a}/{b}/{c}", post(tuples))
        .route("/c", post(structs))
        .route("/d/{type}", post(raw))
        .route("/e", post(at_and_ref))
        .route("/f/{a}/{b}", post(hygiene))
        .with_state(App { tenant: "a" });
    let _ = async |locks: LockManager, order: Order| function(&locks, order, (1, 2), 3, 4).await;
}
