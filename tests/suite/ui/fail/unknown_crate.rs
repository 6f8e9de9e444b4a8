use axum::Router;
use axum::extract::{Path, Request};
use axum::routing::post;
use lock_axum::{Lease, LockError, LockManager, distributed_lock};

#[distributed_lock(resource = "stock:{sku}", on_lost = "cancel", crate = ::platform)]
//                                                                         ^^^^^^^^ platform
async fn handler(Path(sku): Path<String>, lease: Lease, request: Request) {}

#[distributed_lock(resource = "stock", crate = ::platform)]
//                                               ^^^^^^^^ platform
async fn reads(lease: Lease, body: String) -> String {
    body
}

#[distributed_lock(resource = "stock", crate = ::platform, manager = locks)]
//                                               ^^^^^^^^ platform
async fn function(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _: Router = Router::new().route("/{sku}", post(handler).put(reads));
    let _ = async |locks: LockManager| function(&locks).await;
}
