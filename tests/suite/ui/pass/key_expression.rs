//! All bindings are in scope in `key = expr`, and none has to be used.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use lock_axum::{Lease, LockError, LockManager, distributed_lock};

#[derive(Clone)]
struct Shops {
    region: String,
}

impl Shops {
    fn resource(&self, sku: &str) -> String {
        format!("{}:{sku}", self.region)
    }
}

#[distributed_lock(key = format!("stock:{sku}"))]
async fn captured(Path((mut sku, quantity)): Path<(String, u8)>, lease: Lease) -> String {
    sku.push('!');
    format!("{quantity} {:?} {sku}", lease.token())
}

#[distributed_lock(key = shops.resource(sku))]
async fn method_call(State(shops): State<Shops>, Path(sku): Path<String>, Json(_): Json<u8>) -> String {
    drop(shops);
    sku
}

#[distributed_lock(key = sku)]
async fn binding(Path(sku): Path<String>) -> String {
    sku
}

#[distributed_lock(key = "stock")]
async fn text() {}

#[distributed_lock(key = if sku.is_empty() { "none".to_owned() } else { sku.to_lowercase() }, ttl = "1s")]
async fn branches(Path(sku): Path<String>) {}

#[distributed_lock(key = format!("{}:{}", a.max(b), a.min(b)), manager = locks)]
async fn function(locks: LockManager, a: u32, b: u32) -> Result<u32, LockError> {
    Ok(a - b)
}

fn main() {
    let _: Router = Router::new()
        .route("/a/{sku}/{quantity}", post(captured))
        .route("/b/{sku}", post(method_call))
        .route("/c/{sku}", post(binding))
        .route("/d", post(text))
        .route("/e/{sku}", post(branches))
        .with_state(Shops { region: String::new() });
    let _ = async |locks: LockManager| function(locks, 2, 1).await;
}
