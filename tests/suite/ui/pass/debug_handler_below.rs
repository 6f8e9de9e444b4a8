//! `#[debug_handler]` below the attribute checks the function that axum calls.

use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router, debug_handler};
use lock_axum::{FencingToken, Lease, distributed_lock};

#[derive(Clone)]
struct App;

#[distributed_lock(resource = "stock:{sku}")]
#[debug_handler]
async fn imported(Path(sku): Path<String>, _lease: Lease, Json(quantity): Json<u32>) -> impl IntoResponse {
    format!("{sku} {quantity}")
}

#[distributed_lock(resource = "stock:{sku}")]
#[axum::debug_handler(state = App)]
async fn with_state(State(_): State<App>, Path(sku): Path<String>, _token: FencingToken) -> String {
    sku
}

/// It infers the router's state from a parameter of the function that axum calls, also from the last one.
#[distributed_lock(resource = "stock:{sku}")]
#[debug_handler]
async fn inferred_state(Path(sku): Path<String>, State(_): State<App>) -> String {
    sku
}

fn main() {
    let _: Router = Router::new()
        .route("/a/{sku}", post(imported))
        .route("/b/{sku}", post(with_state))
        .route("/c/{sku}", post(inferred_state))
        .with_state(App);
}
