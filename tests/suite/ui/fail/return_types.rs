//! rustc reports a wrong type at the code that the user wrote.

use axum::extract::State;
use lock_axum::{Lease, LockError, LockManager, distributed_lock};

struct NoResponse;

#[distributed_lock(resource = "stock")]
async fn handle() -> NoResponse {
//                   ^^^^^^^^^^ IntoResponse
    NoResponse
}

#[distributed_lock(resource = "stock")]
async fn body() -> String {
    42
  //^^ mismatched types
}

mod cars {
    pub struct Lease;
}

#[distributed_lock(resource = "stock")]
async fn another_lease(_: cars::Lease, lease: Lease) {}
//                        ^^^^ mismatched types

#[distributed_lock(resource = "stock", manager = locks)]
async fn mismatch(locks: &LockManager, text: &str) -> Result<u32, LockError> {
    Ok(text)
    // ^^^^ mismatched types
}

#[distributed_lock(resource = "stock", manager = "locks")]
//                                               ^^^^^^^ mismatched types
async fn no_manager() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(resource = "stock")]
async fn unknown_type(_: State<Shop>, _: Option<Shop>) {}
//                             ^^^^ cannot find type `Shop`
//                                              ^^^^ cannot find type `Shop`

#[distributed_lock(resource = "stock", manager = locks())]
async fn unknown_type_of_a_function(shop: Shop) -> Result<(), LockError> {
    //                                    ^^^^ cannot find type `Shop`
    shop.deduct()
}

fn locks() -> LockManager {
    LockManager::in_memory()
}

fn main() {}
