use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use lock_axum::{Lease, distributed_lock};

#[distributed_lock(resource = "stock:{sku}")]
pub fn handler(Path(sku): Path<String>, lease: Lease) -> String {
//  ^^ `#[distributed_lock]` can only be applied to an `async fn`: add `async`
    std::future::ready(()).await;
    format!("{sku} {lease:?}")
}

fn main() {
    let _: Router = Router::new().route("/{sku}", post(handler));
}
