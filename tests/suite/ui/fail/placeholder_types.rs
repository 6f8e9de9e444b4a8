//! rustc reports an error about a placeholder at the template.

use axum::Json;
use axum::extract::Path;
use lock_axum::{LockError, LockManager, distributed_lock};

#[derive(serde::Deserialize)]
struct Order {
    sku: Option<String>,
}

#[distributed_lock(resource = "stock:{order.sku}")]
//                            ^^^^^^^^^^^^^^^^^^^ doesn't implement
async fn no_display(Json(order): Json<Order>) {}

#[distributed_lock(resource = "stock:{order.skuu}")]
//                            ^^^^^^^^^^^^^^^^^^^^ no field `skuu` on type
async fn no_field(Json(order): Json<Order>) {}

#[distributed_lock(resource = "stock:{id.0}", manager = locks)]
//                            ^^^^^^^^^^^^^^ no field `0` on type
async fn function(locks: &LockManager, id: String) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = sku.len())]
//                       ^^^^^^^^^ String: From<usize>` is not satisfied
async fn key(Path(sku): Path<String>) {}

fn main() {}
