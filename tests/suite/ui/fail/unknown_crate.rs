use axum::extract::{Path, Request};
use lock_axum::{Lease, LockError, LockManager, distributed_lock};

#[distributed_lock(resource = "stock:{sku}", on_lost = "cancel", crate = ::platform)]
//                                                                         ^^^^^^^^ platform
async fn handler(Path(sku): Path<String>, lease: Lease, request: Request) {}

#[distributed_lock(resource = "stock", crate = ::platform, manager = locks)]
//                                               ^^^^^^^^ platform
async fn function(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
