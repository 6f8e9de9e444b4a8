//! axum makes the arguments of a handler, so there is nothing for them to borrow from.

use std::borrow::Cow;

use axum::extract::Path;
use axum::routing::post;
use axum::{Json, Router};
use lock_axum::{Lease, distributed_lock};

#[distributed_lock(resource = "stock")]
async fn lease(Json(_): Json<u8>, lease: &Lease) -> String {
    //                                   ^^^^^^ a handler cannot borrow its parameters, which axum makes for it: take `Lease`
    lease.resource().to_owned()
}

#[distributed_lock(resource = "stock:{sku}")]
async fn text(sku: &str) {}
//                 ^^^^ a handler cannot borrow its parameters, which axum makes for it: take `String`

#[distributed_lock(resource = "stock:{sku}")]
async fn cow<'a>(sku: Cow<'a, str>) {}
//                    ^^^^^^^^^^^^ a handler cannot borrow its parameters, which axum makes for it: take `String`

#[distributed_lock(resource = "stock:{sku}")]
async fn inside(Path((_, sku)): Path<(u8, &str)>) {}
//                                        ^^^^ a handler cannot borrow its parameters, which axum makes for it: take `String`

#[derive(serde::Deserialize)]
struct Order<'a> {
    sku: &'a str,
}

#[distributed_lock(resource = "stock:{order.sku}")]
async fn lifetime<'a>(Json(order): Json<Order<'a>>) {}
//                                            ^^ a handler cannot borrow its parameters, which axum makes for it: take an owned value

fn main() {
    let _: Router = Router::new()
        .route("/a", post(lease))
        .route("/b", post(text))
        .route("/c", post(cow))
        .route("/d", post(inside))
        .route("/e", post(lifetime));
}
