//! A manager that is made for one call excludes no other.

use lock_axum::{LockError, LockManager, distributed_lock};

#[distributed_lock(resource = "stock:{sku}", manager = LockManager::in_memory())]
//                                                     ^^^^^^^^^^^^^^^^^^^^^^ `manager` must outlive the call, as in `manager = self.locks`
async fn in_memory(sku: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(resource = "stock:{sku}", manager = &lock_axum::LockManager::builder().connect_lazy().unwrap())]
//                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ `manager` must outlive the call
async fn built(sku: &str) -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = async || in_memory("42").await.and(built("42").await);
}
