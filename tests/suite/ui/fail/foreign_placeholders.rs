//! Placeholders as others write them would be text, and all values one resource.

use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use lock_axum::distributed_lock;

#[distributed_lock(resource = "stock/:sku")]
//                            ^^^^^^^^^^^^ write `{sku}` instead of `:sku`: placeholders are names in braces, without `$`, `:` or `*`
async fn of_a_route(Path(sku): Path<String>) {
    drop(sku);
}

#[distributed_lock(resource = "stock:${sku}")]
//                            ^^^^^^^^^^^^^^ write `{sku}` instead of `${sku}`
async fn of_a_shell(Path(sku): Path<String>) {
    drop(sku);
}

#[distributed_lock(resource = ["shop", "stock:*sku"])]
//                                     ^^^^^^^^^^^^ write `{sku}` instead of `*sku`
async fn of_a_wildcard(Path(sku): Path<String>) {
    drop(sku);
}

fn main() {
    let _: Router = Router::new().route("/{sku}", post(of_a_route).get(of_a_shell).put(of_a_wildcard));
}
