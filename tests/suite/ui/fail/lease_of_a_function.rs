//! With `manager`, the lock fills no parameter: a handler that expects it to would never get its lease.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Extension, Router};
use lock_axum::{FencingToken, Lease, LockManager, LockRejection, MissingLease, distributed_lock};

#[derive(Clone)]
struct App {
    locks: LockManager,
}

type Held = Lease;

#[distributed_lock(resource = "stock:{sku}", manager = app.locks)]
async fn lease(State(app): State<App>, Path(sku): Path<String>, lease: Lease) -> Result<String, LockRejection> {
    //                                                                 ^^^^^ with `manager`, the lock does not fill this parameter: remove it and call `Lease::current()` in the body
    Ok(lease.token().to_string())
}

#[distributed_lock(resource = "stock", manager = app.locks)]
async fn token(State(app): State<App>, token: FencingToken) -> Result<String, LockRejection> {
    //                                        ^^^^^^^^^^^^ with `manager`, the lock does not fill this parameter: remove it and call `Lease::current()` in the body
    Ok(token.to_string())
}

#[distributed_lock(resource = "stock", manager = app.locks)]
async fn optional(lease: Option<Lease>, State(app): State<App>) -> Result<String, LockRejection> {
    //                   ^^^^^^ with `manager`, the lock does not fill this parameter
    Ok(lease.is_some().to_string())
}

#[distributed_lock(resource = "stock", manager = app.0.locks)]
async fn extension(app: State<App>, Extension(lease): Extension<Lease>) -> Result<String, LockRejection> {
    //                                                ^^^^^^^^^ with `manager`, the lock does not fill this parameter
    Ok(lease.token().to_string())
}

#[distributed_lock(resource = "stock", manager = app.locks)]
async fn another_name(State(app): State<App>, lease: Option<Held>, same: Held) -> Result<String, LockRejection> {
    //                                               ^^^^^^ with `manager`, the lock does not fill this parameter
    //                                                                   ^^^^ with `manager`, the lock does not fill this parameter
    Ok(format!("{} {}", lease.is_some(), same.token()))
}

fn locks() -> LockManager {
    LockManager::in_memory()
}

// Nobody calls these with a lease, but a router might, without one.

#[distributed_lock(resource = "stock", manager = locks())]
async fn no_pattern(headers: HeaderMap, token: Option<FencingToken>) -> Result<String, LockRejection> {
    //                                         ^^^^^^ with `manager`, the lock does not fill this parameter
    Ok(format!("{} {}", headers.len(), token.is_some()))
}

#[distributed_lock(resource = "stock", manager = locks())]
async fn alone(lease: Option<Extension<Held>>) -> Result<String, LockRejection> {
    //                ^^^^^^ with `manager`, the lock does not fill this parameter
    Ok(lease.is_some().to_string())
}

#[distributed_lock(resource = "stock", manager = locks())]
async fn result(lease: Result<Lease, MissingLease>) -> Result<String, LockRejection> {
    //                 ^^^^^^ with `manager`, the lock does not fill this parameter
    Ok(lease.is_ok().to_string())
}

fn main() {
    let _: Router = Router::new()
        .route("/a/{sku}", post(lease))
        .route("/b", post(token).get(optional))
        .route("/c", post(extension).get(another_name))
        .route("/d", post(no_pattern).get(alone).put(result))
        .with_state(App { locks: locks() });
}
