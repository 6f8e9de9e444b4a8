//! Generic handlers: bounds, const parameters, `where` clauses, type parameters that no argument determines.

use std::fmt::Display;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::post;
use lock_axum::{Lease, distributed_lock};

trait Stock: Clone + Send + Sync + 'static {
    fn take(&self, sku: &str) -> bool;
}

#[derive(Clone)]
struct Memory;

impl Stock for Memory {
    fn take(&self, sku: &str) -> bool {
        !sku.is_empty()
    }
}

#[distributed_lock(resource = "stock:{sku}")]
async fn bound<S: Stock>(State(stock): State<S>, Path(sku): Path<String>) -> impl IntoResponse {
    stock.take(&sku).to_string()
}

#[distributed_lock(resource = "stock:{sku}")]
async fn with_where<S, K, const N: usize>(State(stock): State<S>, Path(sku): Path<K>, lease: Lease) -> String
where
    S: Stock,
    K: Display + Send + Sync + 'static,
{
    format!("{N} {sku} {:?} {}", lease.token(), stock.take("a"))
}

#[distributed_lock(resource = "kind")]
async fn not_determined<T: Default + Display>() -> String {
    T::default().to_string()
}

fn main() {
    let _: Router = Router::new()
        .route("/a/{sku}", post(bound::<Memory>))
        .route("/b/{sku}", post(with_where::<Memory, u64, 3>))
        .route("/c", post(not_determined::<u8>))
        .with_state(Memory);
}
