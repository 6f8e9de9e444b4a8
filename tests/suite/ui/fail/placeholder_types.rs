//! rustc reports an error about a placeholder at the template.

use axum::Json;
use axum::extract::Path;
use lock_axum::{LockError, LockManager, distributed_lock};

#[derive(serde::Deserialize)]
struct Order {
    sku: Option<String>,
}

#[distributed_lock(resource = "stock:{order.sku}")]
//                            ^^^^^^^^^^^^^^^^^^^ a placeholder needs a value with `Display`
async fn no_display(Json(order): Json<Order>) {}

#[distributed_lock(resource = "stock:{sku}")]
//                            ^^^^^^^^^^^^^ a placeholder needs a value with `Display`
async fn option(sku: Option<Path<String>>) {}

#[distributed_lock(resource = ["stock:{sku}", "page:{page}"])]
//                                            ^^^^^^^^^^^^^ a placeholder needs a value with `Display`
async fn in_a_set(Path((sku, page)): Path<(String, Option<u32>)>) {}

#[distributed_lock(resource = "stock:{sku}", manager = locks)]
//                            ^^^^^^^^^^^^^ a placeholder needs a value with `Display`
async fn of_a_function(locks: &LockManager, sku: Option<&str>) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(resource = "stock:{order.skuu}")]
//                            ^^^^^^^^^^^^^^^^^^^^ no field `skuu` on type
async fn no_field(Json(order): Json<Order>) {}

impl Order {
    fn warehouse(&self) -> u8 {
        0
    }
}

// rustc's own words, and its help is to call the method; `bad_placeholder.rs` has what follows from that.
#[distributed_lock(resource = "stock:{order.warehouse}")]
//                            ^^^^^^^^^^^^^^^^^^^^^^^^^ attempted to take value of method `warehouse`
async fn method(Json(order): Json<Order>) {}

#[distributed_lock(resource = "stock:{id.0}", manager = locks)]
//                            ^^^^^^^^^^^^^^ no field `0` on type
async fn function(locks: &LockManager, id: String) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = sku.len())]
//                       ^^^^^^^^^ String: From<usize>` is not satisfied
async fn key(Path(sku): Path<String>) {}

fn main() {}
