use axum::body::Bytes;
use axum::extract::Path;
use axum::routing::post;
use axum::{Extension, Router};
use lock_axum::{LockManager, distributed_lock};

#[distributed_lock(resource = "stock:{sku}", body_timeout = "5s")]
//                                           ^^^^^^^^^^^^ `body_timeout` has no effect here: remove it, or take the body with an extractor as the last parameter
async fn without_a_body(Path(sku): Path<String>) {
    drop(sku);
}

#[distributed_lock(resource = "stock", body_timeout = "0s")]
//                                                    ^^^^ `body_timeout` must be between 1ms and 1day, got 0s
async fn never(body: Bytes) {
    drop(body);
}

fn main() {
    let routes = Router::new().route("/{sku}", post(without_a_body)).route("/", post(never));
    let _: Router = routes.layer(Extension(LockManager::in_memory()));
}
