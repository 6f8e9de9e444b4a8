//! `Lease` and `FencingToken` parameters, in any position.

use axum::extract::Path;
use axum::routing::post;
use axum::{Extension, Json, Router};
use lock_axum::{FencingToken, Lease, distributed_lock};

#[derive(Clone)]
struct Db;

#[distributed_lock(resource = "{sku}")]
async fn first(lease: Lease, Path(sku): Path<String>) -> String {
    format!("{sku} {:?}", lease.token())
}

#[distributed_lock(resource = "{sku}")]
async fn last(Path(sku): Path<String>, Json(_): Json<u8>, token: FencingToken) -> String {
    format!("{sku} {token:?}")
}

#[distributed_lock(resource = "all")]
async fn alone(Extension(lease): Extension<Lease>) -> String {
    format!("{:?}", lease.token())
}

#[distributed_lock(resource = "all")]
async fn perhaps(lease: Option<Lease>) -> String {
    format!("{:?}", lease.map(|lease| lease.token()))
}

#[distributed_lock(resource = "{id}")]
async fn all(
    lease: lock_axum::Lease,
    Extension(token): Extension<lock_axum::FencingToken>,
    Extension(_db): Extension<Db>,
    Path(id): Path<u8>,
    again: axum::Extension<Lease>,
    mut same: ::lock_axum::FencingToken,
    body: String,
) -> String {
    assert_eq!(same, token);
    same = again.token();
    format!("{id} {:?} {same:?} {body}", lease.token())
}

/// A handler may have the same name as its parameter.
#[distributed_lock(resource = "{token.0}")]
async fn lease(lease: Lease, token: Path<String>) -> String {
    format!("{token:?} {:?}", lease.token())
}

fn main() {
    let _: Router = Router::new()
        .route("/a/{sku}", post(first))
        .route("/b/{sku}", post(last))
        .route("/c", post(alone).put(perhaps))
        .route("/d/{id}", post(all))
        .route("/e/{token}", post(lease))
        .layer(Extension(Db));
}
