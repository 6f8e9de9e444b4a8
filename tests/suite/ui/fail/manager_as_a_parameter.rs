//! axum cannot extract the lock manager, so a function that takes it is no handler, unless it takes it as one.

use axum::extract::Path;
use lock_axum::{LockManager, distributed_lock};

#[distributed_lock(resource = "stock:{sku}")]
async fn deduct(locks: LockManager, sku: String) -> Result<(), lock_axum::LockError> {
    //                 ^^^^^^^^^^^ axum cannot extract a `LockManager`: add `manager = locks` to the attribute if this is not a handler; a handler takes `Extension<LockManager>`, or nothing if it does not use it
    Ok(())
}

#[distributed_lock(resource = "stock:{sku}", state)]
async fn with_state(Path(sku): Path<String>, mut manager: lock_axum::LockManager) {
    //                                                    ^^^^^^^^^^^^^^^^^^^^^^ axum cannot extract a `LockManager`: add `manager = manager` to the attribute if this is not a handler; a handler takes `State<LockManager>`, or
}

#[distributed_lock(resource = "stock")]
async fn unnamed(_: LockManager) {}
//                  ^^^^^^^^^^^ axum cannot extract a `LockManager`: add `manager = …` to the attribute

fn main() {}
