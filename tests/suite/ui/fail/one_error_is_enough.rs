//! A wrong argument causes no further errors: neither in the body, nor in other attributes, nor where the handler is used,
//! nor lints, where every warning is denied.
#![deny(warnings)]

use std::collections::HashMap;
use std::fmt::Display;
use std::rc::Rc;

use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router, debug_handler};
use lock_axum::{FencingToken, Lease, LockError, LockManager, distributed_lock};
use tracing::instrument;

type Stock = HashMap<String, u32>;

#[distributed_lock(resource = "stock:{skuu}")]
//                            ^^^^^^^^^^^^^^ unknown placeholder `{skuu}`
#[debug_handler(state = Stock)]
#[instrument(skip(stock))]
async fn handler(State(stock): State<Stock>, Path(sku): Path<String>, Json(_): Json<u8>, lease: Lease) -> impl IntoResponse {
    let left = stock.get(&sku).copied();
    std::future::ready(()).await;
    Json((left, format!("{:?}", lease.token())))
}

/// Neither what its parameters are nor what its body holds matters any more.
#[distributed_lock(resource = "stock", ttl = "1x")]
//                                           ^^^^ invalid duration "1x"
#[deprecated]
async fn impossible<T: Display>(_: Json<u8>, number: u8, value: T) -> Rc<T> {
    let shared = Rc::new(value);
    std::future::ready(number).await;
    shared
}

#[distributed_lock(resource = "stock:{sku}", renew = 1)]
//                                                   ^ `renew` must be `true` or `false`
async fn only_locked(Path(sku): Path<String>) {}

struct Service {
    locks: LockManager,
}

impl Service {
    #[distributed_lock(resource = "stock:{sku}", ttl = "1ms", manager = self.locks)]
    //                                                 ^^^^^ `ttl` must be between 100ms and 1day, got 1ms
    async fn method(&self, sku: &str) -> Result<impl Iterator<Item = char>, Box<dyn std::error::Error>> {
        let _: u32 = sku.parse()?;
        Ok(sku.chars().collect::<Vec<_>>().into_iter())
    }
}

fn main() {
    let _: Router = Router::new().route("/a/{sku}", post(only_locked));
    let _: Router = Router::new().route("/{sku}", post(handler)).with_state(Stock::new());
    #[expect(deprecated)]
    let _: Router = Router::new().route("/", post(impossible::<String>));
    let _ = async |service: Service| service.method("a").await.map(|chars| chars.count()).ok();
    let _: Option<(FencingToken, LockError)> = None;
}
