//! The macro recognizes `Lease` and `FencingToken` by name. Under another one they would be extracted, before the lock is
//! acquired.

use std::sync::Arc;

use axum::extract::Path;
use axum::routing::post;
use axum::{Extension, Router};
use lock_axum::{FencingToken, Lease as Held, MissingLease, distributed_lock};

type L = lock_axum::Lease;

#[distributed_lock(resource = "{sku}")]
async fn alias(lease: L, Path(sku): Path<String>) -> String {
    //                ^ the lock does not recognize this parameter as a `Lease`, `FencingToken` or `Hold`: write its type as `Lease`,
    format!("{sku} {}", lease.token())
}

#[distributed_lock(resource = "all")]
async fn renamed(lease: Held) -> String {
    //                  ^^^^ the lock does not recognize this parameter
    lease.token().to_string()
}

#[distributed_lock(resource = "all")]
async fn optional(first: Option<Held>, second: Extension<Held>, third: Option<Extension<FencingToken>>) -> String {
    //                   ^^^^^^ the lock does not recognize this parameter
    //                                         ^^^^^^^^^ the lock does not recognize this parameter
    //                                                                 ^^^^^^ the lock does not recognize this parameter
    format!("{} {} {}", first.is_some(), second.token(), third.is_some())
}

#[distributed_lock(resource = "all")]
async fn result(lease: Result<lock_axum::Lease, MissingLease>, body: Result<Held, MissingLease>) -> String {
    //                 ^^^^^^ the lock does not recognize this parameter
    //                                                               ^^^^^^ the lock does not recognize this parameter
    format!("{} {}", lease.is_ok(), body.is_ok())
}

#[distributed_lock(resource = "all")]
async fn inside(optional: Extension<Option<Held>>, shared: Extension<Arc<FencingToken>>) -> String {
    //                    ^^^^^^^^^ the lock does not recognize this parameter
    //                                                     ^^^^^^^^^ the lock does not recognize this parameter
    format!("{} {}", optional.0.is_some(), shared.0)
}

#[distributed_lock(resource = "all")]
async fn tuples(pair: (Held, Path<u8>), one: (Option<Extension<Held>>,), two: (Path<u8>, (Path<u8>, FencingToken))) {
    //                 ^^^^ the lock does not recognize this parameter
    //                                        ^^^^^^ the lock does not recognize this parameter
    //                                                                                              ^^^^^^^^^^^^ the lock does not recognize this parameter
    _ = (pair, one, two);
}

#[distributed_lock(resource = "all")]
async fn generic<T: Send + Sync + Clone + 'static>(Extension(_): Extension<T>, lease: L) -> String {
    //                                                                                ^ the lock does not recognize this parameter
    lease.token().to_string()
}

fn main() {
    let _: Router = Router::new()
        .route("/a/{sku}", post(alias))
        .route("/a", post(inside).get(tuples))
        .route("/b", post(renamed).get(optional).put(result).delete(generic::<u8>));
}
