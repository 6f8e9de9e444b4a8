//! What a handler holds while it waits for its lock must be `Send + 'static`. rustc reports it at the handler's name, and
//! proposes the bound.

use std::fmt::Display;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use lock_axum::distributed_lock;

trait Stock: Clone {
    fn take(&self);
}

#[derive(Clone)]
struct Memory;

impl Stock for Memory {
    fn take(&self) {}
}

#[distributed_lock(resource = "stock")]
async fn neither<S: Stock>(State(stock): State<S>) {
    //   ^^^^^^^ future cannot be sent between threads safely
    stock.take();
}

#[distributed_lock(resource = "stock")]
async fn not_static<S: Stock + Send + Sync>(State(stock): State<S>) {
    //   ^^^^^^^^^^ the parameter type `S` may not live long enough
    stock.take();
}

#[distributed_lock(resource = "stock")]
async fn not_send<S>(State(stock): State<S>)
//       ^^^^^^^^ future cannot be sent between threads safely
where
    S: Stock + 'static,
{
    stock.take();
}

#[distributed_lock(resource = "stock:{id}")]
async fn in_the_resource<I: Display>(Path(id): Path<I>) -> String {
    //   ^^^^^^^^^^^^^^^ future cannot be sent between threads safely
    id.to_string()
}

fn main() {
    let _: Router = Router::new()
        .route("/a", post(neither::<Memory>))
        .route("/b", post(not_static::<Memory>))
        .route("/c", post(not_send::<Memory>))
        .route("/d", post(in_the_resource::<u8>))
        .with_state(Memory);
}
