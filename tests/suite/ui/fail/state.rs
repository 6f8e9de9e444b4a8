use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, debug_handler};
use lock_axum::{LockError, LockManager, distributed_lock};

#[derive(Clone)]
struct App {
    locks: LockManager,
}

#[distributed_lock(resource = "stock", state, manager = app.locks)]
//                                     ^^^^^ `state` cannot be combined with `manager`: both name the lock manager
async fn both(State(app): State<App>) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(resource = "stock", state = App)]
//                                     ^^^^^ `state` takes no value: write `state` alone; the router's state gives the manager by `FromRef`
async fn with_type(State(_): State<App>) {}

#[distributed_lock(resource = "stock", state(app.locks))]
//                                     ^^^^^ `state` takes no value
async fn with_list(State(_): State<App>) {}

#[distributed_lock(resource = "stock", state, ttl = "1s", state)]
//                                                        ^^^^^ duplicate argument `state`
async fn twice() {}

#[distributed_lock(resource = "stock", stat)]
//                                     ^^^^ unknown argument `stat`; did you mean `state`?
async fn misspelled() {}

struct Shop;

impl Shop {
    #[distributed_lock(resource = "stock", state)]
    async fn method(&self) {}
    //              ^^^^^ a method cannot be an axum handler
}

/// The router's state has no lock manager.
#[derive(Clone)]
struct NoLocks;

#[distributed_lock(resource = "stock", state)]
//                                     ^^^^^ the router's state `NoLocks` has no lock manager: add a field `locks: LockManager` and `#[derive(FromRef)]` to it, or remove `state` and add `.layer(Extension(locks))` to the router
#[debug_handler(state = NoLocks)]
async fn no_locks(_: Extension<u8>) {}

/// A state behind an `Arc` cannot have one: `FromRef` and `Arc` are both of other crates.
#[distributed_lock(resource = "stock", state)]
//                                     ^^^^^ the router's state `Arc<App>` has no lock manager
#[debug_handler(state = Arc<App>)]
async fn shared(_: Extension<u8>) {}

fn main() {}
